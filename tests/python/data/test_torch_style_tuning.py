"""`gt.tune_batch_size`: doubling until gain or memory ends, and what is suggested."""

import time

import pytest
from isolated import run

import gt
from gt._tuning import BatchSizes, TriedSize

pytestmark = pytest.mark.undisturbed


def test_doubling_ends_when_gain_does():
    """10 ms a step and 1 ms a sample beyond 16: rates grow to 1.6 a millisecond and then towards one."""
    found = gt.tune_batch_size(lambda n: time.sleep(0.010 + 0.001 * max(0, n - 16)), seconds=0.06)
    tried = [row.batch_size for row in found.rows]
    assert tried[:5] == [1, 2, 4, 8, 16] and tried[-1] in (64, 128), found
    assert found.suggested in (16, 32) and found.rows[1].gain > 0.5 and found.rows[0].gain is None
    assert all(row.fits for row in found.rows)


def test_sizes_may_be_given():
    asked = []
    found = gt.tune_batch_size(lambda n: asked.append(n), sizes=[4, 1], seconds=0.01)
    assert [row.batch_size for row in found.rows] == [1, 4] and set(asked) == {1, 4}
    with pytest.raises(ValueError, match="batch sizes should be positive"):
        gt.tune_batch_size(lambda n: None, sizes=[0])
    with pytest.raises(ValueError, match="sizes is empty"):
        gt.tune_batch_size(lambda n: None, sizes=[])


OVER = """
import gt
from gt import nn, optim
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1)
def step(n):
    loss = model(gt.randn(n * 128, 256)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
found = gt.tune_batch_size(step, seconds=0.02, min_gain=-1.0, effective=512)
last = found.rows[-1]
assert not last.fits and len(found.rows) > 2, found
peaks = [row.peak_bytes for row in found.rows if row.fits]
assert peaks == sorted(peaks) and peaks[0] > 256 * 128 * 4, peaks
assert 0.1 < found.rows[-2].share_of_limit <= 1.0, found
text = str(found)
assert "out of memory" in text and "effective batch of 512" in text
step(1)
assert gt.isfinite(model(gt.ones(1, 256))).all().item()
print("done")
"""


def test_running_out_of_memory_ends_the_search_and_nothing_else():
    assert run(OVER, GT_MEMORY_LIMIT=16 << 20).stdout.strip() == "done"


def test_not_even_one():
    program = """
import gt
kept = []
found = gt.tune_batch_size(lambda n: kept.append(gt.rand(64 << 20)), seconds=0.01)
kept.clear()
try:
    found.suggested
except gt.OutOfMemoryError as error:
    print(error)
"""
    assert "even a batch of 1 does not fit" in run(program, GT_MEMORY_LIMIT=64 << 20).stdout


def test_a_table_without_a_size_that_fits_can_be_printed():
    text = str(BatchSizes((TriedSize(1_000_000, 0.0, None, 0, 0.0, fits=False),), effective=64))
    assert "1000000  out of memory" in text and "suggested: none; even a batch of 1000000 does not fit" in text


def test_it_is_found_beside_the_loaders():
    assert gt.data.tune_batch_size is gt.tune_batch_size


def test_errors_that_nobody_read_are_found():
    table = gt.ones(4, 4)
    with pytest.raises(IndexError):
        gt.tune_batch_size(lambda n: table[gt.full((n,), 9)], sizes=[1, 2], seconds=0.01)


def test_other_errors_are_the_users():
    def step(n):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gt.tune_batch_size(step)


@pytest.mark.parametrize(
    "suggested, effective, answer",
    [(256, 1024, (256, 4)), (256, 1000, (250, 4)), (256, 100, (100, 1)), (64, 997, (63, 16)), (1, 7, (1, 7))],
)
def test_accumulation(suggested, effective, answer):
    found = BatchSizes((TriedSize(suggested, 100.0, None, 0, 0.0),))
    size, steps = found.accumulation(effective)
    assert (size, steps) == answer and size <= suggested and effective <= size * steps < effective + steps


def test_as_fast_but_smaller_is_suggested():
    rows = tuple(TriedSize(n, rate, None, 0, 0.0) for n, rate in ((8, 50.0), (16, 96.0), (32, 99.0), (64, 100.0)))
    assert BatchSizes(rows).suggested == 16
