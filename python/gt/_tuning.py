"""Finding the batch size: how fast and how large a step is for sizes that double.

TUNE-1: running out of memory ends the search and nothing else: the sizes below it stand, the session goes on.
TUNE-2: a size is worth its memory only if it is faster: of sizes that are about as fast as the fastest, the smallest is
        suggested.
"""

from __future__ import annotations

import gc
import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gt import _core, debug
from gt.errors import OutOfMemoryError

__all__ = ["BatchSizes", "TriedSize", "tune_batch_size"]

LARGEST = 1 << 20
# Sizes whose speed is within this of the fastest are as good.
AS_FAST = 0.05


@dataclass(frozen=True)
class TriedSize:
    """One batch size: `samples_per_s`, `gain` over the size before, `peak_bytes` on the fullest worker and its
    `share_of_limit`. `fits` is False for the size that ran out of memory, which has no speed.

    >>> from gt._tuning import TriedSize
    >>> TriedSize(8, 100.0, 0.5, 1 << 20, 0.1).fits
    True
    """

    batch_size: int
    samples_per_s: float
    gain: float | None
    peak_bytes: int
    share_of_limit: float
    fits: bool = True


@dataclass(frozen=True)
class BatchSizes:
    """What `gt.tune_batch_size` found: the `rows` of its table, the `suggested` size; `print` shows it.

    >>> from gt._tuning import BatchSizes, TriedSize
    >>> BatchSizes((TriedSize(64, 900.0, None, 0, 0.0),)).accumulation(1000)
    (50, 20)
    """

    rows: tuple[TriedSize, ...]
    effective: int | None = None

    @property
    def suggested(self) -> int:
        """The smallest size that is about as fast as the fastest."""
        fitting = [row for row in self.rows if row.fits]
        if not fitting:
            raise OutOfMemoryError(self._nothing_fits())
        fastest = max(row.samples_per_s for row in fitting)
        return min(row.batch_size for row in fitting if row.samples_per_s >= (1 - AS_FAST) * fastest)

    def _nothing_fits(self) -> str:
        return f"even a batch of {self.rows[0].batch_size} does not fit into memory"

    def accumulation(self, effective: int) -> tuple[int, int]:
        """The batch size and the number of steps to accumulate that make an effective batch of `effective` samples.

        They multiply to exactly that where a size near the suggested one can; otherwise to a little more.
        """
        if effective < 1:
            raise ValueError(f"an effective batch has at least one sample, but got {effective}")
        fewest = -(-effective // self.suggested)
        steps = next((n for n in range(fewest, 2 * fewest) if effective % n == 0), fewest)
        return -(-effective // steps), steps

    def report(self) -> str:
        """The table and the suggestion as text. If no size fits, it says so."""
        lines = [f"{'batch':>9}{'samples/s':>13}{'gain':>8}{'peak memory':>14}{'of limit':>10}"]
        for row in self.rows:
            if not row.fits:
                lines.append(f"{row.batch_size:>9}  out of memory")
                continue
            gain = "" if row.gain is None else f"{row.gain:+.0%}"
            peak = f"{row.peak_bytes / 2**20:.1f} MiB"
            lines.append(f"{row.batch_size:>9}{row.samples_per_s:>13.1f}{gain:>8}{peak:>14}{row.share_of_limit:>10.1%}")
        if not any(row.fits for row in self.rows):
            return "\n".join([*lines, "", f"suggested: none; {self._nothing_fits()}"])
        lines += ["", f"suggested: {self.suggested}"]
        if self.effective is not None:
            size, steps = self.accumulation(self.effective)
            lines.append(
                f"for an effective batch of {self.effective}: {steps} steps of {size}, then the optimizer's step"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report()


def tune_batch_size(
    step_fn: Callable[[int], Any],
    sizes: Iterable[int] | None = None,
    *,
    effective: int | None = None,
    seconds: float = 1.0,
    min_gain: float = 0.05,
) -> BatchSizes:
    """Runs `step_fn(batch_size)`, a training step on a batch of that size, for sizes 1, 2, 4, …, or for `sizes`.

    Doubling ends when memory does, or when two sizes in a row were less than `min_gain` faster than those before them.
    The result's `suggested` is the size to take; with `effective`, it also tells how many steps to accumulate for an
    effective batch of so many samples. Each size is given about `seconds`. The steps are real ones: the model trains.

    >>> w = gt.ones(8, 8, requires_grad=True)
    >>> found = gt.tune_batch_size(lambda n: (gt.ones(n, 8) @ w).sum().backward(), sizes=[1, 2], seconds=0.01, effective=6)
    >>> [row.batch_size for row in found.rows], found.suggested in (1, 2)
    ([1, 2], True)
    """
    from gt.data._verdict_measure import step_seconds

    rows: list[TriedSize] = []
    poor = 0
    for size in _doubling() if sizes is None else _checked(sizes):
        gc.collect()
        with _watched() as seen:
            failures = _failures()
            try:
                step_s: float | None = step_seconds(step_fn, [size], seconds)[0]
                if _failures() > failures:
                    _raise_unread(step_fn(size))
            except (OutOfMemoryError, MemoryError):
                step_s = None
        if step_s is None:
            _recovered()
            rows.append(TriedSize(size, 0.0, None, 0, 0.0, fits=False))
            break
        rate = size / step_s
        gain = rate / rows[-1].samples_per_s - 1 if rows else None
        rows.append(TriedSize(size, rate, gain, seen.peak_bytes, seen.share_of_limit))
        poor = poor + 1 if gain is not None and gain < min_gain else 0
        if sizes is None and poor == 2:
            break
    if not rows:
        raise ValueError("sizes is empty")
    return BatchSizes(tuple(rows), effective)


def _doubling() -> Iterator[int]:
    size = 1
    while size <= LARGEST:
        yield size
        size *= 2


def _checked(sizes: Iterable[int]) -> list[int]:
    found = sorted({operator.index(size) for size in sizes})
    if found and found[0] < 1:
        raise ValueError(f"batch sizes should be positive, but got {found[0]}")
    return found


def _failures() -> int:
    return sum(int(stats.get("failures", 0)) for stats in debug.get_worker_stats().values())


def _raise_unread(value: Any) -> None:
    """Raises why a step failed that nobody read anything of: by reading what it returns, if it returns a tensor."""
    if isinstance(value, _core.Tensor):
        value.flatten()[:1].tolist()
    raise OutOfMemoryError("a step failed without reporting a reason, most likely because memory ran out")


def _recovered() -> None:
    """After running out of memory: errors that nobody has read yet are read, and what is free is given back."""
    gc.collect()
    try:
        _core.synchronize()
    except OutOfMemoryError:
        pass
    _core.empty_cache()


class _Watch:
    """The most that live tensors held on a worker while it was watched."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.share_of_limit = 0.0
        # The session's peak before: if it rises, it is exact; if not, what was seen must do.
        self._before = self._peaks()

    @staticmethod
    def _peaks() -> dict[str, int]:
        return {name: int(stats.get("peak_bytes", 0)) for name, stats in debug.get_worker_stats().items()}

    def look(self, last: bool = False) -> None:
        for name, stats in debug.get_worker_stats().items():
            held = int(stats.get("live_bytes", 0))
            peak = int(stats.get("peak_bytes", 0))
            if last and peak > self._before.get(name, 0):
                held = peak
            self.peak_bytes = max(self.peak_bytes, held)
            limit = int(stats.get("limit_bytes", 0))
            if limit:
                self.share_of_limit = max(self.share_of_limit, held / limit)


@contextmanager
def _watched() -> Iterator[_Watch]:
    watch = _Watch()
    done = threading.Event()

    def keep_looking() -> None:
        while not done.wait(0.002):
            watch.look()

    thread = threading.Thread(target=keep_looking, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()
        watch.look(last=True)
