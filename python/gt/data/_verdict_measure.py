"""Timing a training loop in parts: the loop, the loop on batches that are there already, the loader without a loop.

VERDICT-MEASURE-1: a part is timed until everything it recorded has run.
VERDICT-MEASURE-2: the loader's time is that of whole epochs: what beginning an epoch takes is shared out over its batches. Where an
           epoch is longer than the look at it, its beginning is timed apart, and batches that were made ahead do not count.
VERDICT-MEASURE-3: of several rounds the quickest counts: what disturbs a measurement only ever makes it longer.
VERDICT-MEASURE-4: a look ends: with the time that was given, at the latest with the epoch in which that was over.
VERDICT-MEASURE-5: the time that was given bounds the work that is done, not only the time in which it is recorded (`Pace`).
VERDICT-MEASURE-6: once the steps have taken longer than they may, a measurement makes do with one (`Allowance`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from gt import _core
from gt.data._step_stages import busy_seconds

__all__ = ["ROUNDS", "Allowance", "LoaderPass", "Pace", "pass_over", "step_seconds"]

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


class Allowance:
    """How long steps may take altogether; what a loader takes is not their fault."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._left = seconds

    def spend_since(self, began: float) -> None:
        """Counts a step that began at this moment."""
        self._left -= time.perf_counter() - began

    @property
    def is_spent(self) -> bool:
        """Whether the steps have taken longer."""
        return self._left < 0


class Pace:
    """Keeps what is recorded and has not run yet below `seconds` of work.

    A step that reads nothing is recorded in microseconds, and its work takes as long as it takes: a loop that only looks at
    the clock would leave minutes of work behind. So it waits for the work after 1, 2, 4, … steps, and then as seldom as the
    time that those steps took allows.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = time.perf_counter()
        self._recorded = 0
        self._allowed = 1

    def step_recorded(self) -> None:
        """Waits for what was recorded, if that may be too much."""
        self._recorded += 1
        if self._recorded < self._allowed:
            return
        _core.synchronize()
        now = time.perf_counter()
        step_s = max(1e-9, (now - self._since) / self._recorded)
        self._allowed = max(1, min(2 * self._recorded, int(self._seconds / step_s)))
        self._since, self._recorded = now, 0

    def all_done(self) -> None:
        """Waits for everything that was recorded."""
        _core.synchronize()
        self._since, self._recorded = time.perf_counter(), 0


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


def pass_over(
    loader: Any, step_fn: Callable[[Any], Any] | None, seconds: float, batches: int, allowance: Allowance
) -> LoaderPass:
    """Goes over the loader, with the step or without, for so many seconds or batches, whichever ends first.

    Whole epochs if one ends in that time; else a part of one (VERDICT-MEASURE-6).
    """
    found, given, starts = LoaderPass(), 0, 0.0
    length = batches_of(loader)
    began, pace = _Reading(loader), Pace(seconds / 4)
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
            stepped = time.perf_counter()
            if step_fn is not None:
                step_fn(batch)
            elif len(found.kept) < 4:
                found.kept.append(batch)
            pace.step_recorded()
            allowance.spend_since(stepped)
            given += 1
            if in_first:
                over = time.perf_counter() > limit
                if settled is None:
                    if over or given > made_ahead(loader):
                        settled, settled_at, waits = _Reading(loader), given, 0.0
                # An epoch of which half is over is gone through: its own time is better than what is concluded from a part.
                elif allowance.is_spent or (
                    (length is None or 2 * given < length)
                    and (given - settled_at >= batches or (over and given - settled_at >= 3))
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


def step_seconds(
    step_fn: Callable[[Any], Any], batches: list[Any], seconds: float, allowance: Allowance | None = None
) -> tuple[float, float]:
    """Seconds a step takes on batches that are there, and the share of them in which the workers computed.

    The mean over the batches, each of which is stepped on as often as the others: they may be of any sizes (VERDICT-MEASURE-6).
    """
    allowance = allowance or Allowance()
    pace = Pace(seconds / 4)
    limit = time.perf_counter() + seconds / 4
    for i in range(WARM_STEPS):
        began = time.perf_counter()
        step_fn(batches[i % len(batches)])
        pace.step_recorded()
        allowance.spend_since(began)
        if time.perf_counter() > limit:
            break
    rounds: list[tuple[float, float]] = []
    busy = busy_seconds()
    pace.all_done()
    until = time.perf_counter() + seconds
    while not rounds or (len(rounds) < ROUNDS and time.perf_counter() < until):
        began, steps = time.perf_counter(), 0
        while steps < 2 or steps % len(batches) or time.perf_counter() < began + seconds / ROUNDS:
            if steps and allowance.is_spent:
                break
            stepped = time.perf_counter()
            step_fn(batches[steps % len(batches)])
            steps += 1
            pace.step_recorded()
            allowance.spend_since(stepped)
        pace.all_done()
        passed = time.perf_counter() - began
        busy_before, busy = busy, busy_seconds()
        rounds.append((passed / steps, min(1.0, (busy - busy_before) / passed)))
    return min(rounds)
