"""Timing a training loop in parts: the loop, the loop on batches that are there already, the loader without a loop.

MEASURE-1: a part is timed until everything it recorded has run.
MEASURE-2: batches that the loader had made before the clock started do not count, nor does starting an epoch.
MEASURE-3: of several rounds the quickest counts: what disturbs a measurement only ever makes it longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from gt import _core
from gt.data._step_stages import busy_seconds

__all__ = ["ROUNDS", "LoaderPass", "halved", "pass_over", "sizes_of", "step_seconds"]

ROUNDS = 3
# GT compiles what repeats after some repeats, so a step is run as often before it is timed.
WARM_STEPS = 8


class LoaderPass:
    """One look at a loader: seconds a batch, and what its own counters say a batch took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.batches = 0
        self.stages: dict[str, float] = {}
        self.kept: list[Any] = []

    @property
    def per_batch(self) -> float:
        return self.seconds / max(1, self.batches)


class _Endless:
    """The batches of a loader, epoch after epoch; tells which `next` began an epoch."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._batches: Iterator[Any] | None = None

    def next(self) -> tuple[Any, bool]:
        """A batch, and whether an epoch began with it."""
        if self._batches is not None:
            try:
                return next(self._batches), False
            except StopIteration:
                pass
        self._batches = iter(self._loader)
        try:
            return next(self._batches), True
        except StopIteration:
            raise ValueError("the loader has no batches") from None


def made_ahead(loader: Any) -> int:
    """How many batches the loader may have ready before they are asked for."""
    workers = getattr(loader, "num_workers", 0)
    ahead = getattr(loader, "prefetch_factor", None)
    return int(workers) * int(ahead or 2) if isinstance(workers, int) else 0


def counters(loader: Any) -> dict[str, float]:
    """The loader's own times, if it keeps any."""
    ask = getattr(loader, "stats", None)
    found = ask() if callable(ask) else {}
    return {name: float(value) for name, value in found.items() if name.endswith("_s") and name != "wait_s"}


def pass_over(loader: Any, step_fn: Callable[[Any], Any] | None, seconds: float, batches: int) -> LoaderPass:
    """Goes over the loader, with the step or without, for so many seconds or batches, whichever ends first."""
    found = LoaderPass()
    source = _Endless(loader)
    for _ in range(made_ahead(loader) + 1):
        batch, _ = source.next()
        if step_fn is not None:
            step_fn(batch)
        elif len(found.kept) < 4:
            found.kept.append(batch)
    _core.synchronize()
    before, began = counters(loader), time.perf_counter()
    limit = began + seconds
    unfair = 0.0
    while found.batches < batches and (found.batches < 3 or time.perf_counter() < limit):
        asked = time.perf_counter()
        batch, fresh = source.next()
        if fresh:
            unfair += time.perf_counter() - asked
        else:
            found.batches += 1
        if step_fn is not None:
            step_fn(batch)
    _core.synchronize()
    found.seconds = time.perf_counter() - began - unfair
    after = counters(loader)
    found.stages = {name: (after[name] - before.get(name, 0.0)) / found.batches for name in after}
    return found


def step_seconds(step_fn: Callable[[Any], Any], batches: list[Any], seconds: float) -> tuple[float, float]:
    """Seconds a step takes on batches that are there, and the share of them in which the workers computed."""
    limit = time.perf_counter() + seconds / 4
    for i in range(WARM_STEPS):
        step_fn(batches[i % len(batches)])
        if time.perf_counter() > limit:
            break
    rounds: list[tuple[float, float]] = []
    busy = busy_seconds()
    until = time.perf_counter() + seconds
    while not rounds or (len(rounds) < ROUNDS and time.perf_counter() < until):
        began, steps = time.perf_counter(), 0
        while steps < 2 or time.perf_counter() < began + seconds / ROUNDS:
            step_fn(batches[steps % len(batches)])
            steps += 1
        _core.synchronize()
        passed = time.perf_counter() - began
        busy_before, busy = busy, busy_seconds()
        rounds.append((passed / steps, min(1.0, (busy - busy_before) / passed)))
    return min(rounds)


def sizes_of(batch: Any) -> list[int]:
    """The lengths of the first dimensions of all arrays and tensors in a batch."""
    if hasattr(batch, "shape") and hasattr(batch, "dtype"):
        return [int(batch.shape[0])] if len(batch.shape) else []
    if isinstance(batch, dict):
        return [size for value in batch.values() for size in sizes_of(value)]
    if isinstance(batch, (list, tuple)):
        return [size for value in batch for size in sizes_of(value)]
    return []


def halved(batch: Any, size: int) -> Any:
    """The first half of a batch of `size`: of everything in it whose first dimension has that size.

    >>> from gt.data._verdict_measure import halved
    >>> halved({"x": gt.arange(4), "names": list("abcd"), "n": 4}, 4)
    {'x': tensor([0, 1]), 'names': ['a', 'b'], 'n': 4}
    """
    if hasattr(batch, "shape") and hasattr(batch, "dtype"):
        return batch[: size // 2] if len(batch.shape) and batch.shape[0] == size else batch
    if isinstance(batch, dict):
        return type(batch)({name: halved(value, size) for name, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(halved(value, size) for value in batch))
    if isinstance(batch, (list, tuple)):
        if len(batch) == size and not sizes_of(batch):
            return batch[: size // 2]
        return type(batch)(halved(value, size) for value in batch)
    return batch
