"""Timing a training loop in parts: the loop, the loop on batches that are there already, the loader without a loop.

MEASURE-1: a part is timed until everything it recorded has run.
MEASURE-2: the loader's time is that of whole epochs: what beginning an epoch takes is shared out over its batches. Where an
           epoch is longer than the look at it, its beginning is timed apart, and batches that were made ahead do not count.
MEASURE-3: of several rounds the quickest counts: what disturbs a measurement only ever makes it longer.
MEASURE-4: a look ends: with the time that was given, at the latest with the epoch in which that was over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gt import _core
from gt.data._step_stages import busy_seconds

__all__ = ["ROUNDS", "LoaderPass", "pass_over", "step_seconds"]

ROUNDS = 3
# GT compiles what repeats after some repeats, so a step is run as often before it is timed.
WARM_STEPS = 8


# Seconds a batch by the clock, and by the loader's counters.
_Seconds = tuple[float, dict[str, float]]


class LoaderPass:
    """One look at a loader: seconds a batch, those of them that beginning epochs took, and what its own counters say."""

    def __init__(self) -> None:
        self.per_batch = 0.0
        self.start_s = 0.0
        self.stages: dict[str, float] = {}
        self.kept: list[Any] = []

    def of_a_part(self, length: int | None, start: _Seconds, some: _Seconds, wait_s: float) -> LoaderPass:
        """What a whole epoch would take, from its beginning and from some batches after those that were made ahead."""
        # Of an epoch without an end the beginning is nothing.
        share = 1 / length if length else 0.0
        self.start_s = start[0] * share
        # The first batch came with the beginning, and is not waited for again.
        self.per_batch = self.start_s + some[0] - wait_s * share
        self.stages = {k: start[1][k] * share + v * (1 - share) for k, v in some[1].items()}
        return self


class _Reading:
    """The clock and the loader's counters at one moment, when everything that was recorded has run."""

    def __init__(self, loader: Any) -> None:
        _core.synchronize()
        self.at = time.perf_counter()
        self.counters = counters(loader)

    def since(self, earlier: _Reading, batches: int) -> _Seconds:
        """Seconds and counted seconds a batch between two readings."""
        counted = {k: (v - earlier.counters.get(k, 0.0)) / batches for k, v in self.counters.items()}
        return (self.at - earlier.at) / batches, counted


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


def batches_of(loader: Any) -> int | None:
    """How many batches an epoch has, if the loader can tell."""
    try:
        return len(loader) or None
    except (TypeError, NotImplementedError, AttributeError):
        return None


_NO_MORE = object()


def pass_over(loader: Any, step_fn: Callable[[Any], Any] | None, seconds: float, batches: int) -> LoaderPass:
    """Goes over the loader, with the step or without, for so many seconds or batches, whichever ends first.

    Whole epochs if one ends in that time; else a part of one.
    """
    found, given, starts = LoaderPass(), 0, 0.0
    length = batches_of(loader)
    began = _Reading(loader)
    limit = began.at + seconds
    while True:
        asked = time.perf_counter()
        epoch = iter(loader)
        batch = next(epoch, _NO_MORE)
        if batch is _NO_MORE:
            raise ValueError("the loader has no batches")
        starts += time.perf_counter() - asked
        in_first = not given
        if in_first:
            first, settled, settled_at, waits = _Reading(loader), None, 0, 0.0
        while batch is not _NO_MORE:
            if step_fn is not None:
                step_fn(batch)
            elif len(found.kept) < 4:
                found.kept.append(batch)
            given += 1
            if in_first:
                over = time.perf_counter() > limit
                if settled is None:
                    if over or given > made_ahead(loader):
                        settled, settled_at, waits = _Reading(loader), given, 0.0
                # An epoch of which half is over is gone through: its own time is better than what is concluded from a part.
                elif (length is None or 2 * given < length) and (
                    given - settled_at >= batches or (over and given - settled_at >= 3)
                ):
                    some = _Reading(loader).since(settled, given - settled_at)
                    return found.of_a_part(length, first.since(began, 1), some, waits / (given - settled_at))
            asked = time.perf_counter()
            batch = next(epoch, _NO_MORE)
            waits += time.perf_counter() - asked
        if given >= batches or time.perf_counter() > limit:
            break
    found.per_batch, found.stages = _Reading(loader).since(began, given)
    found.start_s = starts / given
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
