"""Worker processes: the same batches as without, what may be in a batch, seeds, order, speed, processes."""

import os
import subprocess
import sys
import textwrap
import time
import types

import numpy as np
import pytest
from isolated import environment, run
from python_datasets import (
    Growing,
    Numbers,
    Pair,
    Record,
    Seeds,
    Spinning,
    Stream,
    gt_tensors,
    many_kinds,
    note_worker,
    pids,
    sleep_and_stack,
    spin_and_stack,
    torch_tensors,
)

import gt
from gt.data import DataLoader, Subset, TensorDataset
from gt.data._torch_iterators import workers_for

pytestmark = pytest.mark.timeout(120)


def ids(batches):
    return [i.tolist() for _, i in batches]


@pytest.mark.parametrize("arguments", [{}, {"shuffle": True, "generator": 3}, {"drop_last": True}], ids=str)
def test_workers_give_the_same_batches(arguments):
    plain = list(DataLoader(Numbers(23), batch_size=4, **arguments))
    for workers, prefetch in ((1, 1), (2, 3)):
        dl = DataLoader(Numbers(23), batch_size=4, num_workers=workers, prefetch_factor=prefetch, **arguments)
        made = list(dl)
        assert len(dl) == len(made) == len(plain)
        for (a, i), (b, j) in zip(made, plain):
            assert isinstance(a, gt.Tensor) and a.dtype == b.dtype and gt.equal(a, b) and gt.equal(i, j)


def test_every_start_method_works():
    for method in ("fork", "spawn", "forkserver"):
        dl = DataLoader(Numbers(5), batch_size=2, num_workers=1, multiprocessing_context=method)
        assert ids(dl) == [[0, 1], [2, 3], [4]], method


def test_a_batch_may_hold_anything():
    items = [Numbers(3)[i] for i in range(3)]
    expected = many_kinds(items)
    (batch,) = DataLoader(Numbers(3), batch_size=3, num_workers=1, collate_fn=many_kinds)
    assert batch.keys() == expected.keys()
    for name in ("array", "strided", "empty", "text"):
        assert type(batch[name]) is np.ndarray and batch[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(batch[name], expected[name])
    assert batch["objects"].tolist() == [None, "x"] and batch["scalar"] == 2.5 and batch["big"] == expected["big"]
    assert isinstance(batch["pair"], Pair) and batch["pair"].y[1][1] == "end" and batch["pair"].x.tolist() == [0, 0, 0]
    assert isinstance(batch["record"], Record) and batch["record"].values.shape == (3, 3)
    assert batch["strings"] == ["item 0", "item 1", "item 2"] and batch["number"] == 3 and batch["none"] is None
    batch["array"][:] = 1  # The caller's own.


def test_a_worker_may_compute_with_gt():
    (batch,) = DataLoader(Numbers(4), batch_size=4, num_workers=1, collate_fn=gt_tensors)
    assert batch["x"].tolist() == [[0] * 3, [2] * 3, [4] * 3, [6] * 3] and batch["i"].tolist() == [0, 1, 2, 3]
    assert batch["brain"].dtype == gt.bfloat16 and batch["brain"][3, 0].item() == 3


def test_torchs_tensors_stay_torchs():
    torch = pytest.importorskip("torch")
    (batch,) = DataLoader(Numbers(2), batch_size=2, num_workers=1, collate_fn=torch_tensors)
    assert isinstance(batch["x"], torch.Tensor) and batch["x"].tolist() == [[0] * 3, [1] * 3]
    assert batch["brain"].dtype == torch.bfloat16


def test_batches_of_all_sizes_fit_and_stay_as_they_were():
    sizes = [1, 100_000, 10, 0, 500_000, 3, 70_000] * 3
    kept = list(DataLoader(Growing(sizes), num_workers=2, prefetch_factor=2))
    for i, (size, batch) in enumerate(zip(sizes, kept)):
        assert batch.shape == (1, size) and (batch == i).all().item()


def test_rows_of_tensors_need_no_gt_in_the_worker():
    ds = Subset(TensorDataset(gt.arange(10) * 2, gt.randn(10, 3)), [9, 8, 0])
    ((numbers, rows),) = DataLoader(ds, batch_size=3, num_workers=1)
    assert numbers.tolist() == [18, 16, 0] and gt.equal(rows, ds.dataset.tensors[1][gt.tensor([9, 8, 0])])


def test_streams_end_worker_by_worker():
    batches = [b.tolist() for b in DataLoader(Stream(11), batch_size=2, num_workers=2)]
    assert batches == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]


def test_each_worker_has_its_seed():
    gt.manual_seed(5)
    dl = DataLoader(Seeds(), num_workers=2)
    first = list(dl)
    assert [b["id"].item() for b in first] == [0, 1, 0, 1] and {b["n"].item() for b in first} == {2}
    assert first[1]["seed"].item() == first[0]["seed"].item() + 1
    drawn = {b[name].item() for b in first for name in ("random", "numpy")}
    assert len(drawn) == 8
    second = list(dl)
    assert second[0]["seed"].item() != first[0]["seed"].item()
    gt.manual_seed(5)
    assert [b["random"].item() for b in DataLoader(Seeds(), num_workers=2)] == [b["random"].item() for b in first]


def test_worker_init_fn_may_change_the_workers_dataset():
    widths = [x.shape[1] for x, _ in DataLoader(Numbers(4), num_workers=2, worker_init_fn=note_worker)]
    assert widths == [10, 11, 10, 11]


def test_persistent_workers_stay_and_others_go():
    dl = DataLoader(Numbers(4), num_workers=2, collate_fn=pids, persistent_workers=True)
    first, second = set(dl), set(dl)
    assert first == second and len(first) == 2 and os.getpid() not in first
    dl = DataLoader(Numbers(4), num_workers=2, collate_fn=pids)
    first, second = set(dl), set(dl)
    assert not first & second
    for pid in first | second:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_epoch_may_be_broken_off():
    dl = DataLoader(Numbers(40), batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(5):
        batches = iter(dl)
        assert next(batches)[1].tolist() == [0, 1] and next(batches)[1].tolist() == [2, 3]
    assert ids(dl) == [[i, i + 1] for i in range(0, 40, 2)]


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}], ids=str)
def test_loops_over_one_loader_may_nest(arguments):
    for _ in range(2):
        dl = DataLoader(Numbers(3), **arguments)
        assert [(i.item(), j.item()) for _, i in dl for _, j in dl] == [(i, j) for i in range(3) for j in range(3)]


def test_a_second_iterator_has_workers_of_its_own_while_the_first_lives():
    dl = DataLoader(Numbers(6), num_workers=1, collate_fn=pids, persistent_workers=True)
    first = iter(dl)
    kept = next(first)
    second = iter(dl)
    own = next(second)
    assert own != kept and [*first] == [kept] * 5 and [*second] == [own] * 5
    with pytest.raises(ProcessLookupError):
        os.kill(own, 0)
    assert set(dl) == {kept}
    stream = DataLoader(Stream(6), num_workers=1, persistent_workers=True)
    first, second = iter(stream), iter(stream)
    assert [(a.item(), b.item()) for a, b in zip(first, second)] == [(i, i) for i in range(6)]


def test_a_lambda_and_a_local_class_reach_the_workers():
    class Local(Numbers):
        def __getitem__(self, i):
            return super().__getitem__(i)[1] * 10

    assert [b.tolist() for b in DataLoader(Local(3), num_workers=2)] == [[0], [10], [20]]
    dl = DataLoader(Numbers(3), num_workers=2, collate_fn=lambda items: (os.getpid(), items[0][1]))
    assert [i for _, i in dl] == [0, 1, 2] and os.getpid() not in {pid for pid, _ in dl}


def test_what_a_program_that_is_no_file_defines_reaches_the_workers():
    program = """
        import gt
        class Here(gt.data.Dataset):
            def __len__(self):
                return 3
            def __getitem__(self, i):
                return i * 10
        gt.ones(3).sum().item()
        print([b.tolist() for b in gt.data.DataLoader(Here(), num_workers=2)])
    """
    assert run(program).stdout.strip() == "[[0], [10], [20]]"


def test_a_loop_that_is_left_takes_its_workers_with_it():
    dl = DataLoader(Numbers(100), num_workers=2, collate_fn=pids)
    found = []
    for pid in dl:
        found.append(pid)
        if len(found) == 2:
            break
    with pytest.raises(ProcessLookupError):
        os.kill(found[0], 0)


def test_auto_stays_without_workers_if_nothing_can_be_sent():
    dl = DataLoader(Spinning(64, 0.002), batch_size=4, num_workers="auto", collate_fn=lambda items: len(items))
    with pytest.warns(UserWarning, match="continues without worker processes"):
        assert sum(dl) == 64
    assert dl.num_workers == 0


def test_auto_does_not_fork_for_a_stream_either():
    class Local(Stream):
        def __iter__(self):
            for i in super().__iter__():
                time.sleep(0.003)
                yield i

    dl = DataLoader(Local(8), num_workers="auto")
    with pytest.warns(UserWarning, match="continues without worker processes"):
        assert len(list(dl)) == 8
    assert len(list(dl)) == 8 and dl.num_workers == 0


def test_out_of_order_nothing_is_lost():
    dl = DataLoader(Spinning(24, 0.001), batch_size=2, num_workers=2, in_order=False)
    assert sorted(sum(ids(dl), [])) == list(range(24))


def gain_of_two_workers(collate):
    """How much faster two workers are than none; the best of some epochs, as the machine may be busy."""

    def seconds(workers):
        dl = DataLoader(
            Numbers(64), batch_size=8, num_workers=workers, collate_fn=collate, persistent_workers=workers > 0
        )
        best = 9e9
        for epoch in range(4):
            began = time.perf_counter()
            assert sum(len(b) for b in dl) == 64
            best = min(best, time.perf_counter() - began) if epoch else best
        return best

    return seconds(0) / seconds(2)


@pytest.mark.undisturbed
def test_two_workers_wait_side_by_side():
    assert gain_of_two_workers(sleep_and_stack) >= 1.7


@pytest.mark.heavy
def test_two_workers_are_nearly_twice_as_fast():
    assert max(gain_of_two_workers(spin_and_stack) for _ in range(3)) >= 1.7


def test_auto_starts_workers_where_they_pay():
    quick = DataLoader(Numbers(64), batch_size=2, num_workers="auto")
    assert len(list(quick)) == 32 and quick.num_workers == 0
    slow = DataLoader(Spinning(64, 0.002), batch_size=4, num_workers="auto", shuffle=True, generator=1)
    first = ids(slow)
    assert slow.num_workers == len(os.sched_getaffinity(0)) and sorted(sum(first, [])) == list(range(64))
    assert first == ids(DataLoader(Numbers(64), batch_size=4, shuffle=True, generator=1))
    assert ids(slow) != first
    assert (workers_for(0.02, 0.05, 8), workers_for(0.2, 0.06, 8), workers_for(1.0, 0.0, 4)) == (1, 4, 4)


def test_auto_goes_on_from_a_state():
    dl = DataLoader(Spinning(64, 0.002), batch_size=4, num_workers="auto")
    batches = iter(dl)
    for _ in range(8):
        next(batches)
    state, rest = dl.state_dict(), ids(batches)
    again = DataLoader(Numbers(64), batch_size=4, num_workers="auto")
    again.load_state_dict(state)
    assert ids(again) == rest == [[i, i + 1, i + 2, i + 3] for i in range(32, 64, 4)]


def test_variables_of_the_session_do_not_reach_workers(tmp_path):
    program = f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import gt
        from gt.data import DataLoader
        from python_datasets import Numbers, gt_tensors
        if __name__ == "__main__":
            gt.ones(3).sum().item()
            (batch,) = DataLoader(Numbers(4), batch_size=4, num_workers=1, collate_fn=gt_tensors)
            assert batch["i"].tolist() == [0, 1, 2, 3]
            print("done")
    """
    log = tmp_path / "log.txt"
    assert run(program, GT_INSTRUCTION_LOG=log).stdout.strip() == "done"
    assert log.read_text().count("DISCONNECT") <= 1


def test_torchs_forking_loader_works_beside_a_running_gt():
    pytest.importorskip("torch")
    program = f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import gt, torch
        from python_datasets import Numbers
        assert (gt.ones(100) * 2).sum().item() == 200
        sampler = gt.data.BlockShuffleSampler(lengths=[10] * 4, pool=2, seed=1)
        dl = torch.utils.data.DataLoader(Numbers(40), batch_size=8, sampler=sampler, num_workers=2, multiprocessing_context="fork")
        seen = [i for _, batch in dl for i in batch.tolist()]
        assert sorted(seen) == list(range(40)) and seen != sorted(seen)
        assert (gt.ones(100) * 2).sum().item() == 200
        print("done")
    """
    assert run(program).stdout.strip() == "done"


def test_torchs_get_worker_info_tells_the_same(monkeypatch):
    """A stream written for torch shares itself out by it; without, every worker would give all of it."""
    torchs = types.SimpleNamespace(_worker_info=None)
    monkeypatch.setitem(sys.modules, "torch.utils.data._utils.worker", torchs)

    class Asking(Stream):
        def __iter__(self):
            return iter(range(torchs._worker_info.id, self.n, torchs._worker_info.num_workers))

    assert [b.item() for b in DataLoader(Asking(5), num_workers=2)] == [0, 1, 2, 3, 4]


SCRIPT = """
import sys
import gt
from gt.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, i):
        return i * i

def train(**arguments):
    gt.ones(3).sum().item()
    dl = DataLoader(Squares(), batch_size=2, num_workers=2, persistent_workers=True, **arguments)
    for epoch in range(2):
        print([batch.tolist() for batch in dl])

"""


def run_script(tmp_path, ending):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + textwrap.dedent(ending))
    return subprocess.run(
        [sys.executable, str(path)], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "ending", ["train()", "import threading\nthread = threading.Thread(target=train)\nthread.start(); thread.join()"]
)
def test_workers_of_a_script_without_a_main_guard_are_forked(tmp_path, ending):
    done = run_script(tmp_path, ending)
    assert (done.returncode, done.stdout) == (0, "[[0, 1], [4, 9], [16, 25]]\n" * 2), done.stderr


def test_workers_of_a_script_with_a_main_guard_may_call_gt(tmp_path):
    done = run_script(
        tmp_path,
        """
        Squares.__getitem__ = lambda self, i: gt.tensor(i) ** 2
        if __name__ == "__main__":
            train()
        """,
    )
    assert (done.returncode, done.stdout) == (0, "[[0, 1], [4, 9], [16, 25]]\n" * 2), done.stderr


HOLDS_TENSORS = """
class Rows(Dataset):
    def __init__(self):
        self.rows = gt.arange(12).reshape(6, 2)
    def __len__(self):
        return 6
    def __getitem__(self, i):
        return self.rows[i] if self.rows is not None else gt.tensor([2 * i, 2 * i + 1])
Squares = Rows
"""


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_dataset_that_calls_gt_in_a_script_without_a_main_guard_has_its_batches(tmp_path, holds, persistent):
    script = HOLDS_TENSORS if holds else HOLDS_TENSORS.replace("gt.arange(12).reshape(6, 2)", "None")
    ending = (
        "train()"
        if persistent
        else "DL = DataLoader\nDataLoader = lambda *a, **k: DL(*a, **{**k, 'persistent_workers': False})\ntrain()"
    )
    done = run_script(tmp_path, script + ending)
    epoch = "[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]\n"
    assert (done.returncode, done.stdout) == (0, epoch * 2), done.stderr
    assert done.stderr.count("Batches are made in this process from now on") == 1, done.stderr


def test_a_worker_init_fn_that_was_asked_for_is_not_left_out(tmp_path):
    done = run_script(tmp_path, HOLDS_TENSORS + "train(worker_init_fn=lambda worker: None)")
    assert done.returncode == 1 and "start the loader under that guard" in done.stderr, done.stderr


def test_a_start_method_that_would_run_the_script_again_is_refused(tmp_path):
    done = run_script(tmp_path, "train(multiprocessing_context='spawn')")
    assert done.returncode == 1 and done.stdout == "", done
    assert "script.py would run there too: put the code that starts the loader under" in done.stderr
