"""`gt.data.verdict` on loops built so that the answer is known."""

import fcntl
import os
import tempfile
import time

import numpy as np
import pytest
from python_datasets import Numbers, Sleeping, Spinning, spin

import gt
from gt.data import DataLoader, verdict

SECONDS = 0.25


def judged(expected, loader, step, seconds=SECONDS):
    """The verdict; asked for again, twice at most, if the machine had other things to do while it was made."""
    for _ in range(3):
        found = verdict(loader, step, seconds=seconds)
        if found.verdict == expected:
            break
    assert found.verdict == expected, found
    return found


def test_compute_bound():
    """A step that takes as long as it has samples."""
    found = judged("compute-bound", DataLoader(Numbers(400), batch_size=8), lambda b: time.sleep(0.002 * len(b[0])))
    assert found.fixed_share < 0.5 and found.batch_size == 8 and found.headroom >= 1


def test_small_batch_bound():
    """A step that takes the same time for any number of samples."""
    found = judged("small-batch-bound", DataLoader(Numbers(400), batch_size=8), lambda b: time.sleep(0.01))
    assert found.fixed_share > 0.8 and found.headroom > 3


@pytest.mark.parametrize("workers", [0, 2])
def test_storage_bound(workers):
    """Items that are waited for."""
    dl = DataLoader(Sleeping(2000, 0.003), batch_size=8, num_workers=workers)
    found = judged("storage-bound", dl, lambda b: time.sleep(0.001))
    assert found.stages["read_s"] > 0.02 and found.headroom > 3


@pytest.mark.parametrize("workers", [0, 1])
def test_decode_bound(workers):
    """Items that are computed."""
    dl = DataLoader(Spinning(2000, 0.002), batch_size=8, num_workers=workers)
    found = judged("decode-bound", dl, lambda b: None)
    assert found.stages["decode_s"] > 0.014 > found.stages["read_s"]


class Large(Numbers):
    """The same large array each time: nothing to read, nothing to compute, much to copy."""

    array = np.zeros((1 << 22,), np.float32)

    def __getitem__(self, i):
        return self.array


def test_transfer_bound():
    found = judged("transfer-bound", DataLoader(Large(1000), batch_size=None), lambda b: None)
    assert found.stages["copy_s"] > 10 * found.stages["decode_s"]


LOCK = os.path.join(tempfile.gettempdir(), f"gt-verdict-lock-{os.getuid()}")


def locked(seconds):
    """Holds what only one process at a time can have."""
    with open(LOCK, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(seconds)


class Locked(Numbers):
    def __getitem__(self, i):
        locked(0.005)
        return super().__getitem__(i)


def test_contention():
    """A loader in its own process and a step that want the same thing: quick alone, slow together."""
    dl = DataLoader(Locked(2000), num_workers=1)
    found = judged("contention", dl, lambda b: locked(0.005))
    os.unlink(LOCK)
    assert 1.4 < found.headroom < 3


def on_core_zero(worker):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@pytest.mark.heavy
def test_contention_for_a_core():
    allowed = os.sched_getaffinity(0)
    try:
        on_core_zero(0)
        dl = DataLoader(Spinning(2000, 0.005), num_workers=1, worker_init_fn=on_core_zero)
        judged("contention", dl, lambda b: spin(0.005), seconds=0.5)
    finally:
        os.sched_setaffinity(0, allowed)


def test_the_stages_of_a_step_are_told_apart():
    model = gt.nn.Sequential(gt.nn.Linear(3, 256), gt.nn.ReLU(), gt.nn.Linear(256, 1))
    optimizer = gt.optim.AdamW(model.parameters())

    def step(batch):
        x, y = batch
        loss = (model(x).squeeze(1) - y.float()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    dl = DataLoader(Numbers(256), batch_size=64, shuffle=True, generator=0)
    original = gt.Tensor.backward, gt.optim.AdamW.step
    found = verdict(dl, step, seconds=0.1)
    assert (gt.Tensor.backward, gt.optim.AdamW.step) == original
    assert all(found.stages[name] > 0 for name in ("forward_s", "backward_s", "optimizer_s")), found
    text = str(found)
    assert found.verdict in text and "backward" in text and "headroom" in text and found.advice[0] in text


def test_the_loader_goes_on_where_it_was():
    dl = DataLoader(Numbers(20), batch_size=4, shuffle=True, generator=1)
    batches = iter(dl)
    next(batches)
    state = dl.state_dict()
    verdict(dl, lambda b: None, seconds=0.02, stages=False)
    assert dl.state_dict() == state
    assert [i.tolist() for _, i in dl] == [i.tolist() for _, i in batches]


def test_any_iterable_will_do():
    class Slow:
        def __iter__(self):
            for _ in range(50):
                time.sleep(0.005)
                yield gt.ones(4)

    judged("storage-bound", Slow(), lambda b: None, seconds=0.1)
    with pytest.raises(ValueError, match="no batches"):
        verdict([], lambda b: None)


def test_a_step_that_wants_its_batch_size_is_not_asked_for_another():
    def step(batch):
        assert len(batch[0]) == 8
        time.sleep(0.004)

    assert judged("compute-bound", DataLoader(Numbers(64), batch_size=8), step, seconds=0.05).fixed_share is None
