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
from gt.data._half_batch import halved
from gt.data._step_stages import step_stages

pytestmark = pytest.mark.undisturbed

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
    assert found.verdict in text and "backward" in text and "possible speed-up: " in text and found.advice[0] in text


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


@pytest.mark.timeout(60)
@pytest.mark.parametrize("samples", [4, 8], ids=["one batch", "two batches"])
def test_a_loader_of_few_batches_gets_its_verdict(samples):
    found = judged("compute-bound", DataLoader(Numbers(samples), batch_size=4), lambda b: time.sleep(0.002 * len(b[0])))
    assert 0.008 <= found.cached_s <= found.real_s and found.loader_s < 0.004


class LateFirst:
    """A loader that does nearly all of its work before an epoch's first batch."""

    def __init__(self, start_s, batches):
        self.start_s, self.batches = start_s, batches

    def __len__(self):
        return self.batches

    def __iter__(self):
        time.sleep(self.start_s)
        for _ in range(self.batches):
            time.sleep(0.001)
            yield gt.ones(4)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("batches", [5, 400], ids=["whole epochs", "a part of one"])
def test_what_comes_before_the_first_batch_is_shared_out_over_the_epoch(batches):
    """Ten milliseconds a batch, of which all but one are slept before the first batch."""
    loader = LateFirst(0.009 * batches, batches)
    found = judged("storage-bound", loader, lambda b: time.sleep(0.004), seconds=0.2)
    assert 0.0099 < found.loader_s < 0.015 and 0.0089 < found.start_s < 0.013, found
    assert 0.0139 < found.real_s < 0.02, found
    assert "the wait for the first batch" in str(found)


def test_starting_processes_for_every_epoch_is_told():
    found = verdict(DataLoader(Numbers(8), batch_size=4, num_workers=1), lambda b: None, seconds=0.1)
    assert any("persistent_workers=True" in advice for advice in found.advice), found
    found = verdict(DataLoader(Numbers(8), batch_size=4, num_workers=1, persistent_workers=True), lambda b: None)
    assert not any("persistent_workers=True" in advice for advice in found.advice), found


@pytest.mark.parametrize("ragged", ["shared", "each"])
def test_packed_batches_are_counted_and_cut_by_samples(tmp_path, ragged):
    rng = np.random.default_rng(0)
    columns = {"v": [rng.random(n) for n in rng.integers(0, 30, 200)], "label": np.arange(200)}
    gt.data.write_parquet(tmp_path / "x.parquet", columns, rows_per_group=50)
    dl = DataLoader(gt.data.ParquetDataset(tmp_path / "x.parquet"), batch_size=20, collate="packed", ragged=ragged)
    name = "cu_seqlens" if ragged == "shared" else "v_cu_seqlens"
    sizes = set()

    def step(batch):
        ends = batch[name].tolist()
        assert ends[-1] == len(batch["v"]) and len(ends) - 1 == len(batch["label"])
        sizes.add(len(batch["label"]))
        time.sleep(0.0005 * len(batch["label"]))

    found = judged("compute-bound", dl, step, seconds=0.1)
    assert found.batch_size == 20 and sizes == {20, 10} and found.fixed_share < 0.5


def test_a_batch_that_cannot_be_cut_without_doubt_is_not_cut():
    def packed(items):
        return np.concatenate([x for x, _ in items]), np.arange(len(items) + 1) * 3

    def step(batch):
        assert len(batch[0]) == batch[1][-1]
        time.sleep(0.004)

    found = judged("compute-bound", DataLoader(Numbers(64), batch_size=8, collate_fn=packed), step, seconds=0.05)
    assert found.batch_size == 8 and found.fixed_share is None
    with pytest.raises(ValueError, match="one element per sample or per item"):
        halved({"x": np.zeros(2), "cu_seqlens": np.array([0, 0, 2])}, 2)


def test_what_can_be_gone_through_once_is_refused():
    with pytest.raises(TypeError, match="yields its batches only once"):
        verdict((gt.ones(4) for _ in range(9)), lambda b: None)
    with pytest.raises(TypeError, match="yields its batches only once"):
        verdict(iter(DataLoader(Numbers(4))), lambda b: None)


def test_headroom_has_an_end():
    found = judged("storage-bound", DataLoader(Sleeping(100, 0.02)), lambda b: None, seconds=0.05)
    assert found.headroom == 100 and "possible speed-up: 100.00x or more" in str(found)


def test_the_first_epoch_after_a_verdict_is_the_first():
    for arguments in ({"generator": 5}, {"generator": gt.Generator().manual_seed(5)}, {}):
        state = gt.get_rng_state()
        dl = DataLoader(Numbers(20), batch_size=4, shuffle=True, **arguments)
        before = dl.state_dict()
        verdict(dl, lambda b: None, seconds=0.02, stages=False)
        found = [i.tolist() for _, i in dl]
        gt.set_rng_state(state)
        again = DataLoader(Numbers(20), batch_size=4, shuffle=True, **arguments)
        again.load_state_dict(before)
        assert [i.tolist() for _, i in again] == found


class Product:
    """A step that reads nothing: recorded in some microseconds, run in some milliseconds. Counts what was asked for."""

    def __init__(self):
        self.weight = gt.randn(256, 256) / 256**0.5
        self.steps = 0

    def __call__(self, batch):
        self.steps += 1
        for _ in range(20):
            batch = (batch @ self.weight).tanh()

    def seconds(self, batch):
        """What a step takes."""
        quickest = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            self(batch)
            gt.synchronize()
            quickest = min(quickest, time.perf_counter() - began)
        return quickest


def test_a_verdict_on_steps_that_read_nothing_takes_the_time_it_was_given():
    step, batches = Product(), [gt.randn(256, 256) for _ in range(64)]
    each_s = step.seconds(batches[0])
    step.steps = 0
    verdict(batches, step, seconds=0.3)
    # A dozen loops of some steps at least; recording alone would make thousands of them.
    assert step.steps * each_s < 20 * 0.3, (step.steps, each_s)


@pytest.mark.parametrize("batches", [4, 400])
def test_a_verdict_on_long_steps_does_not_take_dozens_of_them(batches):
    steps = []

    def step(batch):
        steps.append(batch)
        time.sleep(0.2)

    found = verdict(DataLoader(Numbers(2 * batches), batch_size=2), step, seconds=0.08)
    assert found.verdict == "compute-bound" and len(steps) <= 6, (len(steps), found)
    assert 0.15 < found.cached_s < 0.5 and 0.15 < found.real_s < 0.5 and found.fixed_share is None
    assert "use a larger `seconds`" in found.report()


def test_the_loading_stage_that_takes_longest_is_named():
    def says(kind):
        return str(gt.data.Verdict(kind, real_s=0.01, cached_s=0.001, loader_s=0.01))

    for kind, spent in (("storage", "reading"), ("decode", "decoding"), ("transfer", "copying")):
        assert f"the loop waits for the loader, which spends most time {spent}\n" in says(f"{kind}-bound")


def test_a_batch_size_is_found_in_the_time_that_was_given():
    step, batches = Product(), {n: gt.randn(n, 256) for n in (128, 256)}
    each_s = step.seconds(batches[128])
    step.steps = 0
    gt.tune_batch_size(lambda n: step(batches[n]), sizes=[128, 256], seconds=0.3)
    assert step.steps * each_s < 10 * 0.3, (step.steps, each_s)


def test_stages_are_means_over_batches_of_all_sizes():
    step, small, large = Product(), gt.randn(4, 256), gt.randn(2048, 256)
    large_s = min(sum(step_stages(step, [large], 1.0).values()) for _ in range(3))
    for _ in range(3):
        mixed_s = sum(step_stages(step, [small, large], 1.0).values())
        if mixed_s < large_s:
            break
    assert 0.4 * large_s < mixed_s < large_s, (mixed_s, large_s)
