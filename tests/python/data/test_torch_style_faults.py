"""What goes wrong with workers: errors, deaths, hangs, Ctrl-C; and that nothing is left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from isolated import environment
from python_datasets import (
    BrokenStream,
    Dying,
    Exiting,
    Failing,
    FailingOddly,
    Growing,
    Hanging,
    Numbers,
    Sleeping,
    failing_init,
    pids,
)

import gt
from gt.data import DataLoader

pytestmark = pytest.mark.timeout(60)
HERE = os.path.dirname(__file__)


def alive(pid):
    """Whether a process is there and not just waiting to be reaped."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(processes, within=5.0):
    limit = time.monotonic() + within
    while time.monotonic() < limit:
        if not any(alive(pid) for pid in processes):
            return True
        time.sleep(0.02)
    return False


def open_files():
    return len(os.listdir("/proc/self/fd"))


def shared_files():
    return sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else []


def test_an_error_comes_with_the_workers_traceback():
    dl = DataLoader(Failing(8), batch_size=2, num_workers=2)
    batches = iter(dl)
    assert next(batches)[1].tolist() == [0, 1] and next(batches)[1].tolist() == [2, 3]
    with pytest.raises(KeyError) as caught:
        next(batches)
    text = str(caught.value)
    assert text.startswith("Caught KeyError in DataLoader worker process 0.\nOriginal Traceback")
    assert "python_datasets.py" in text and "no such item" in text
    assert next(batches)[1].tolist() == [6, 7]


def test_an_error_that_cannot_be_made_again_is_told_as_text():
    with pytest.raises(RuntimeError, match="Caught OddError in DataLoader worker process 0(.|\n)*odd"):
        next(iter(DataLoader(FailingOddly(8), num_workers=1)))


def test_errors_before_the_first_item_are_told():
    with pytest.raises(OSError, match="no disk"):
        next(iter(DataLoader(Numbers(4), num_workers=1, worker_init_fn=failing_init)))
    with pytest.raises(ValueError, match="no stream today"):
        next(iter(DataLoader(BrokenStream(), num_workers=1)))


def test_what_cannot_be_sent_is_named_where_a_context_was_asked_for():
    for context in ("spawn", "forkserver"):
        with pytest.raises((AttributeError, TypeError, Exception), match="define them at the top level of a module"):
            iter(DataLoader(Numbers(4), num_workers=1, collate_fn=lambda items: items, multiprocessing_context=context))
    dl = DataLoader(Numbers(4), num_workers=1, collate_fn=lambda items: items[0][1], multiprocessing_context="fork")
    assert list(dl) == [0, 1, 2, 3]


def test_a_worker_that_was_forked_and_calls_gt_is_told_why_it_cannot():
    gt.ones(3).sum().item()
    dl = DataLoader(
        Numbers(4),
        num_workers=1,
        multiprocessing_context="fork",
        collate_fn=lambda items: gt.tensor([i for _, i in items]),
    )
    with pytest.raises(RuntimeError, match="GT was started before this process was forked(.|\n)*top level of a module"):
        list(dl)


def test_batches_that_forked_workers_cannot_make_are_made_in_the_process():
    gt.ones(3).sum().item()
    dl = DataLoader(Numbers(4), num_workers=1, collate_fn=lambda items: gt.tensor([i for _, i in items]))
    with pytest.warns(UserWarning, match="Batches are made in this process from now on"):
        assert [batch.tolist() for batch in dl] == [[0], [1], [2], [3]]
    assert [batch.tolist() for batch in dl] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("dataset, ending", [(Dying, r"killed by signal 9 \(SIGKILL\)"), (Exiting, "exit code 3")])
def test_a_dead_worker_is_an_error(dataset, ending):
    files = open_files()
    dl = DataLoader(dataset(40), batch_size=2, num_workers=2, persistent_workers=True)
    batches = iter(dl)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: {ending}"):
        list(batches)
    assert time.monotonic() - began < 10
    with pytest.raises((RuntimeError, StopIteration)):
        next(batches)
    del batches, dl
    # The fork server's own three are there from the first worker on.
    assert open_files() <= files + 4


def test_the_loader_can_be_used_again_after_a_death():
    dl = DataLoader(Numbers(8), batch_size=2, num_workers=2, collate_fn=pids, persistent_workers=True)
    batches = iter(dl)
    os.kill(next(batches), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        for _ in range(100):
            list(batches)
            batches = iter(dl)
    assert len(set(dl)) == 2


def test_a_slow_batch_times_out():
    dl = DataLoader(Hanging(8), num_workers=1, timeout=1)
    batches = iter(dl)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        list(batches)


def test_a_timeout_counts_only_time_in_which_nothing_came():
    # The first that comes of a worker is a block, before its first batch.
    dl = DataLoader(Sleeping(4, 0.2), batch_size=2, num_workers=1, timeout=20)
    assert [i.tolist() for _, i in dl] == [[0, 1], [2, 3]]


def test_forked_workers_leave_nothing_behind():
    class Local(Growing):
        pass

    def use(**arguments):
        dl = DataLoader(
            Local([10, 200_000, 5, 400_000] * 2), num_workers=2, collate_fn=lambda i: (os.getpid(), i), **arguments
        )
        found = {pid for pid, _ in dl}
        batches = iter(dl)
        found.add(next(batches)[0])
        return found

    use()
    shared, files = shared_files(), open_files()
    workers = use() | use(persistent_workers=True)
    assert len(workers) >= 4 and os.getpid() not in workers
    assert gone(workers) and shared_files() == shared and open_files() <= files
    assert not workers & {child.pid for child in multiprocessing.active_children()}


def test_nothing_is_left_behind():
    def use(dl):
        list(dl)
        next(iter(dl))

    use(DataLoader(Growing([10, 200_000] * 4), num_workers=2))
    shared, files = shared_files(), open_files()
    for persistent in (False, True):
        for _ in range(3):
            use(DataLoader(Growing([10, 200_000, 5, 400_000] * 2), num_workers=2, persistent_workers=persistent))
    dl = DataLoader(Growing([300_000] * 8), num_workers=2, persistent_workers=True)
    list(dl)
    steady = open_files()
    for _ in range(5):
        list(dl)
    assert open_files() == steady
    del dl
    assert shared_files() == shared and open_files() <= files


PROGRAM = """
import sys, time
sys.path.insert(0, {here!r})
import gt
from gt.data import DataLoader
from python_datasets import {dataset}, pids
{more}
if __name__ == "__main__":
    gt.ones(3).sum().item()
    first = DataLoader(Numbers(4), num_workers=2, collate_fn=pids, persistent_workers=True)
    print(*set(first), flush=True)
    dl = DataLoader({dataset}(100, {arguments}), num_workers=2, persistent_workers=True)
    try:
        for batch in dl:
            pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(7)
"""


def start(dataset, arguments="", more=""):
    text = PROGRAM.format(here=HERE, dataset=dataset, arguments=arguments, more=more).replace(
        "import Hanging", "import Numbers, Hanging"
    )
    command = [sys.executable, "-c", textwrap.dedent(text)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    return process, [int(pid) for pid in process.stdout.readline().split()]


def members(group):
    """The processes of a process group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and alive(int(name)):
            try:
                if os.getpgid(int(name)) == group:
                    found.append(int(name))
            except ProcessLookupError:
                pass
    return found


# A function of a program that is no file: its workers are forked.
FORKED = "here = pids\ndef pids(items): return here(items)"


@pytest.mark.parametrize("more", ["", FORKED], ids=["sent", "forked"])
def test_workers_do_not_outlive_a_killed_parent(more):
    shared = shared_files()
    process, workers = start("Hanging", more=more)
    try:
        assert len(workers) == 2 and all(alive(pid) for pid in workers)
        time.sleep(0.5)
        everyone = members(process.pid)
        assert set(workers) <= set(everyone)
        process.kill()
        process.wait()
        assert gone(everyone), members(process.pid)
        assert shared_files() == shared
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("wait_s", [0.05, 0.7], ids=["at once", "later"])
@pytest.mark.parametrize("more", ["", FORKED], ids=["sent", "forked"])
def test_ctrl_c_ends_the_wait_and_the_workers(more, wait_s):
    process, _ = start("Hanging", more=more)
    try:
        time.sleep(wait_s)
        everyone = members(process.pid)
        began = time.monotonic()
        # As a terminal does: to everyone in the foreground.
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline().strip() == "interrupted"
        out, errors = process.communicate(timeout=15)
        assert process.returncode == 7 and time.monotonic() - began < 8
        assert errors == ""
        assert gone(everyone)
    finally:
        process.kill()
        process.communicate()
