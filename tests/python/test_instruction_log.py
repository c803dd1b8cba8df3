"""The instruction log: seven columns, one line an event."""

import re
import subprocess
import sys

import pytest
from isolated import environment, run

pytestmark = pytest.mark.timeout(300)

# --- the instruction log ---------------------------------------------------------------------------------------------

LINE = re.compile(
    r"^\s*\d+\.\d{6}s \| #\d{4,} \| (CONNECT|DISCONNECT|RECV|SEND|WORKER_SEND|WORKER_RECV|EXEC|COMPILE|REPLAY|ERROR) *"
    r"\| \S+ *\| \S+ *\| *(-|\d+(\.\d+)?(B|KB|MB|GB)) \|.*$"
)
LOGGED = """
import gt
x = gt.ones(3, 4)
y = (x * 2 + 1).relu()
z = y @ y.T
print(z.sum().item())
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "gt.log"
    run(LOGGED, GT_INSTRUCTION_LOG=path)
    return path


def test_log_lines_have_seven_columns(log):
    lines = log.read_text().splitlines()
    assert lines
    for line in lines:
        assert LINE.match(line), line
        assert len(line.split("|", 6)) == 7


def test_log_counts_what_the_program_did(log):
    received = [line for line in log.read_text().splitlines() if " RECV " in line]
    assert len(received) >= 6, "one line an instruction: fill, mul, add, relu, matmul, sum"
    for word in ("mul", "add", "relu", "matmul", "sum"):
        assert any(word in line.lower() for line in received), word


def test_log_numbers_and_times_rise(log):
    rows = [line.split("|") for line in log.read_text().splitlines()]
    numbers = [int(row[1].strip()[1:]) for row in rows]
    times = [float(row[0].strip().rstrip("s")) for row in rows]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers) and times == sorted(times)


def test_log_answers_the_documented_awk(log):
    done = subprocess.run(["awk", "{print $1, $7, $9}", str(log)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        moment, source, command = line.split()
        assert re.fullmatch(r"\d+\.\d{6}s", moment)
        assert re.match(r"(CLIENT|WORKER|DISPATCHER|SERVER)\b", source) and command != "|"


def test_log_names_lines_and_durations(tmp_path):
    script, path = tmp_path / "program.py", tmp_path / "gt.log"
    script.write_text(LOGGED)
    subprocess.run(
        [sys.executable, str(script)],
        env=environment(GT_INSTRUCTION_LOG=path),
        check=True,
        timeout=60,
        capture_output=True,
    )
    executed = [line for line in path.read_text().splitlines() if " EXEC " in line]
    assert executed and all("dur_us=" in line and "instrs=" in line for line in executed)
    assert any("program.py:" in line for line in executed)


def test_log_of_an_error(tmp_path):
    path = tmp_path / "gt.log"
    run(
        "import gt\nx = gt.ones(3)[gt.tensor([9])]\ntry:\n    x.tolist()\nexcept IndexError: pass",
        GT_INSTRUCTION_LOG=path,
    )
    assert any(" ERROR " in line for line in path.read_text().splitlines())


# --- one process, one file -------------------------------------------------------------------------------------------


def test_two_processes_with_one_log_corrupted_it(tmp_path):
    path = tmp_path / "gt.log"
    done = run(
        """
        import subprocess, sys, gt
        gt.ones(3).sum().item()
        second = subprocess.run([sys.executable, "-c", "import gt; gt.ones(3)"], capture_output=True, text=True)
        assert second.returncode == 1, second
        print(second.stderr)
        for _ in range(200):
            gt.ones(3).sum().item()
        """,
        GT_INSTRUCTION_LOG=path,
    )
    assert "GT_INSTRUCTION_LOG" in done.stdout and "another process" in done.stdout and "%p" in done.stdout
    lines = path.read_text().splitlines()
    assert len(lines) > 400 and all(LINE.match(line) for line in lines)


def test_each_process_has_a_log_where_its_name_says_so(tmp_path):
    run(
        """
        import os, subprocess, sys, gt
        gt.ones(3).sum().item()
        subprocess.run([sys.executable, "-c", "import gt; gt.ones(3).sum().item()"], check=True)
        """,
        GT_INSTRUCTION_LOG=tmp_path / "gt-%r-%p.log",
        RANK="7",
    )
    logs = sorted(tmp_path.iterdir())
    assert len(logs) == 2 and all(re.fullmatch(r"gt-7-\d+\.log", log.name) for log in logs)
    for log in logs:
        assert all(LINE.match(line) for line in log.read_text().splitlines())


def test_a_letter_without_a_meaning_in_the_name_of_a_log_is_an_error(tmp_path):
    done = run("import gt; gt.ones(3)", check=False, GT_INSTRUCTION_LOG=tmp_path / "gt-%d.log")
    assert done.returncode == 1 and "unknown placeholder %d" in done.stderr and "%p (process)" in done.stderr


def test_a_forked_child_leaves_the_log_to_its_parent(tmp_path):
    path = tmp_path / "gt.log"
    run(
        """
        import os, sys, gt
        gt.ones(3).sum().item()
        # Ends as a whole interpreter does, with all that is in its buffers.
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        gt.ones(3).sum().item()
        """,
        GT_INSTRUCTION_LOG=path,
    )
    lines = path.read_text().splitlines()
    numbers = [int(line.split("|")[1].strip()[1:]) for line in lines]
    assert all(LINE.match(line) for line in lines) and numbers == list(range(len(numbers)))
