"""How a script ends whose last op failed and was not read."""

import subprocess
import sys
import textwrap

import pytest
from isolated import environment

FAILS = "rows = gt.ones(3)[gt.tensor([9])]"


def ended(program, *command, **variables):
    command = command or (sys.executable, "-c", textwrap.dedent(program))
    return subprocess.run(command, env=environment(**variables), timeout=60, capture_output=True, text=True)


def test_a_failure_that_nobody_reads_ends_the_script_with_1(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(f"import gt\nprint('training')\n{FAILS}\n")
    done = ended("", sys.executable, str(script))
    assert (done.returncode, done.stdout) == (1, "training\n")
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1:3] == [f'  File "{script}", line 3', f"    {FAILS}"]
    assert lines[3].startswith("IndexError: index 9 is out of bounds for dimension 0 with size 3"), done.stderr


def test_a_skipped_update_that_nobody_reads_ends_the_script_with_1():
    done = ended("import gt\nw = gt.zeros(2)\nw += gt.ones(3)[gt.tensor([0, 9])]\n")
    assert done.returncode == 1 and "IndexError" in done.stderr, done.stderr


def test_a_failure_that_was_raised_is_not_printed_again():
    read = f"import gt\n{FAILS}\ntry: rows.tolist()\nexcept IndexError: pass\n"
    waited = f"import gt\n{FAILS}\ntry: gt.synchronize()\nexcept IndexError: pass\n"
    left = f"import gt\n{FAILS}\ntry: gt.disconnect()\nexcept IndexError: pass\n"
    for program in (read, waited, left):
        done = ended(program)
        assert (done.returncode, done.stderr) == (0, ""), program


def test_a_failure_after_one_that_was_raised_is_printed():
    done = ended(f"import gt\n{FAILS}\ntry: rows.tolist()\nexcept IndexError: pass\nx = gt.zeros(2)[gt.tensor([7])]\n")
    assert done.returncode == 1 and "index 7" in done.stderr and "index 9" not in done.stderr, done.stderr


def test_the_exit_code_that_was_asked_for_stays():
    done = ended(f"import gt, sys\n{FAILS}\nsys.exit(3)")
    assert done.returncode == 3 and "IndexError" in done.stderr


def test_an_exception_keeps_its_own_traceback():
    done = ended(f"import gt\n{FAILS}\nraise KeyError('mine')")
    assert done.returncode == 1 and "KeyError" in done.stderr and "IndexError" not in done.stderr


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_the_script_registered_for_its_end_runs(when):
    register = "import atexit; atexit.register(lambda: print('cleaned up'))"
    first, second = (register, "import gt") if when == "before" else ("import gt", register)
    done = ended(f"{first}\n{second}\n{FAILS}\nprint('no newline', end='')")
    assert done.returncode == 1
    assert done.stdout == "no newlinecleaned up\n"


def test_threads_that_still_run_come_to_their_end():
    program = f"""
    import gt, threading, time
    {FAILS}
    threading.Thread(target=lambda: (time.sleep(0.3), print("thread done"))).start()
    """
    done = ended(program)
    assert (done.returncode, done.stdout) == (1, "thread done\n")


def test_a_script_that_went_well_ends_with_0():
    done = ended("import gt\nx = gt.ones(3) * 2\nw = gt.zeros(3)\nw += x\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interactive_session_is_not_a_script():
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=f"import gt\n{FAILS}\n",
        env=environment(),
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "IndexError" not in done.stderr


def test_a_notebook_is_not_a_script():
    # What IPython and Jupyter set.
    done = ended(f"import builtins\nbuiltins.__IPYTHON__ = True\nimport gt\n{FAILS}\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_actor_of_ray_is_not_a_script(tmp_path):
    script = tmp_path / "default_worker.py"
    script.write_text(f"import gt\n{FAILS}\n")
    done = ended("", sys.executable, str(script))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_test_run_is_not_a_script(tmp_path):
    (tmp_path / "test_it.py").write_text(f"import gt\ndef test_it():\n    {FAILS}\n")
    done = ended("", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))
    assert done.returncode == 0 and "IndexError" not in done.stderr, done.stdout


def test_a_module_that_is_run_is_a_script(tmp_path):
    (tmp_path / "trainer.py").write_text(f"import gt\n{FAILS}\n")
    done = ended("", sys.executable, "-m", "trainer", PYTHONPATH=tmp_path)
    assert done.returncode == 1 and "IndexError" in done.stderr


def test_a_second_failure_that_nobody_reads_was_dropped_with_the_first():
    program = f"""
    import gt
    {FAILS}
    other = gt.ones(3)[gt.tensor([8])]
    try: rows.tolist()
    except IndexError: pass
    """
    done = ended(program)
    assert done.returncode == 1 and "index 8" in done.stderr and "index 9" not in done.stderr, done.stderr


def test_a_script_waits_for_what_is_queued_and_says_so():
    # One product that takes a few seconds, whatever the machine.
    program = f"""
    import gt, time
    small = gt.rand(240, 240)
    (small @ small).tolist()
    took = []
    for _ in range(3):
        start = time.perf_counter()
        (small @ small).tolist()
        took.append(time.perf_counter() - start)
    n = int(240 * (6 / min(took)) ** (1 / 3))
    x = gt.rand(n, n)
    y = x @ x
    {FAILS}
    """
    done = ended(program, GT_BACKEND="reference", GT_NUM_THREADS=1)
    assert done.returncode == 1 and "IndexError" in done.stderr, done.stderr
    assert done.stderr.count("gt: waiting for ") == 1, done.stderr


def test_a_script_that_imports_pytest_is_a_script():
    done = ended(f"import pytest, gt\n{FAILS}\n")
    assert done.returncode == 1 and "IndexError" in done.stderr, done.stderr


def test_a_script_that_runs_pytest_is_a_test_run(tmp_path):
    (tmp_path / "test_it.py").write_text(
        f"import gt, pytest, sys\n"
        f"def test_it():\n    {FAILS}\n"
        f"if __name__ == '__main__':\n    sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', __file__]))\n"
    )
    done = ended("", sys.executable, str(tmp_path / "test_it.py"))
    assert done.returncode == 0 and "IndexError" not in done.stderr, done.stdout


# What a script may do to its output before it ends, and whether the failure can still be printed.
OUTPUTS = {
    "a closed stdout": ("sys.stdout.close()", True),
    "no stdout": ("sys.stdout = None", True),
    "a closed file of stdout": ("print('lost'); os.close(1)", True),
    "a full disk": ("os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('lost')", True),
    "a pipe without a reader": (
        "r, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r); print('lost')",
        True,
    ),
    "a closed stderr": ("sys.stderr.close()", False),
    "another stderr that is closed": ("import io; sys.stderr = io.StringIO(); sys.stderr.close()", True),
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_failure_is_not_lost_with_the_output(output):
    code, is_printed = OUTPUTS[output]
    # A buffer that is written at the end, whatever the tests run with.
    done = ended(f"import os, sys, gt\n{FAILS}\n{code}\n", PYTHONUNBUFFERED="")
    assert done.returncode == 1, done.stderr
    assert ("IndexError: index 9" in done.stderr) == is_printed, done.stderr


def test_a_failure_is_not_lost_in_a_shell_without_stdout(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(f"import gt\n{FAILS}\n")
    done = ended("", "sh", "-c", '"$0" "$1" >&-', sys.executable, str(script))
    assert done.returncode == 1 and "IndexError: index 9" in done.stderr, done.stderr


def test_an_open_summary_writer_does_not_swallow_a_failure(tmp_path):
    program = f"""
    import gt
    from gt.utils.tensorboard import SummaryWriter
    first, second = SummaryWriter("first"), SummaryWriter("second")
    {FAILS}
    for writer in (first, second):
        writer.add_scalar("loss", rows.sum(), 1)
        writer.add_scalar("good", 1.0, 1)
    """
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(program))
    done = ended("", "sh", "-c", 'cd "$0" && "$1" train.py', str(tmp_path), sys.executable)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("IndexError: index 9") == 1 and "ignored" not in done.stderr, done.stderr
    for folder in ("first", "second"):
        (events,) = (tmp_path / folder).iterdir()
        assert b"good" in events.read_bytes()


def test_a_failure_that_an_atexit_handler_raises_ends_the_script_with_1():
    done = ended(f"import atexit, gt\n{FAILS}\natexit.register(lambda: rows.tolist())\n")
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("IndexError: index 9") == 1 and "ignored" not in done.stderr, done.stderr


def test_a_failure_that_an_atexit_handler_catches_does_not_count():
    program = f"""
    import atexit, gt
    {FAILS}
    @atexit.register
    def read():
        try: rows.tolist()
        except IndexError: print("caught")
    """
    done = ended(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "caught\n", "")


def test_an_error_of_its_own_in_an_atexit_handler_is_still_ignored():
    done = ended("import atexit, gt\natexit.register(lambda: {}[7])\n")
    assert done.returncode == 0 and "Exception ignored" in done.stderr and "KeyError: 7" in done.stderr, done.stderr


PROCESS = """
import sys, multiprocessing
{first}
def update(code):
    import gt
    w = gt.zeros(2)
    w += gt.ones(3)[gt.tensor([0, 9])]
    {ending}
if __name__ == "__main__":
    process = multiprocessing.get_context("{method}").Process(target=update, args=(0,))
    process.start()
    process.join()
    print(process.exitcode)
"""


def process_of(folder, method, first="", ending="pass"):
    script = folder / "train.py"
    script.write_text(PROCESS.format(method=method, first=first, ending=ending))
    done = ended("", sys.executable, str(script))
    assert done.returncode == 0, done.stderr
    return int(done.stdout), done.stderr


@pytest.mark.parametrize("first", ["", "import gt"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_failure_in_a_process_of_multiprocessing_is_not_lost(tmp_path, method, first):
    code, said = process_of(tmp_path, method, first)
    assert code == 1 and said.count("IndexError: index 9") == 1, said


def test_a_process_of_multiprocessing_keeps_its_exit_code(tmp_path):
    code, said = process_of(tmp_path, "fork", "import gt", "sys.exit(3)")
    assert code == 3 and "IndexError: index 9" in said, said
    code, said = process_of(tmp_path, "fork", "import gt", "raise KeyError('mine')")
    assert code == 1 and "KeyError" in said and "IndexError" not in said, said
    code, said = process_of(tmp_path, "fork", "import gt", "w.tolist() if False else gt.ones(1)")
    assert code == 1


def test_a_process_of_multiprocessing_that_went_well_ends_with_0(tmp_path):
    ending = "try: gt.synchronize()\n    except IndexError: pass"
    for method in ("fork", "forkserver"):
        assert process_of(tmp_path, method, "import gt", ending) == (0, "")


LATE = {
    "an op": "gt.ones(3)",
    "a read": "y.tolist()",
    "a write": "y.add_(1)",
    "a first session": "gt.gpu_workers(3)",
    "a connection": "gt.connect('127.0.0.1:1')",
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("late", LATE)
def test_a_handler_registered_before_gt_is_told_that_gt_has_shut_down(late, workers):
    program = f"""
    import atexit
    @atexit.register
    def late():
        {LATE[late]}
    import gt
    gt.gpu_workers({workers})
    x = gt.ones(10) * 2
    y = x + 1
    y.tolist()
    """
    done = ended(program)
    assert "RuntimeError: GT has shut down because the program is ending" in done.stderr, done.stderr
    assert "internal error" not in done.stderr and done.returncode == 0, done.stderr
