"""Why training is not faster: one answer, with the numbers behind it.

VERDICT-1: the answer follows from three loops (the real one, one on batches that are there already, the loader alone) and
           from the loader's own counters. Nothing is guessed from how busy a device looks.
VERDICT-2: the loader's state and the thread's stream of random numbers are put back; the steps are real ones, so the model
           trains on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gt import _core
from gt.data._half_batch import halved, samples_of
from gt.data._loader_arguments import available_cores
from gt.data._step_stages import step_stages
from gt.data._verdict_measure import ROUNDS, Allowance, LoaderPass, made_ahead, pass_over, step_seconds

__all__ = ["Verdict", "verdict"]

# A loop may take this much longer than its parts allow before they are said to be in each other's way.
IN_THE_WAY = 1.25
# A step of which this share does not depend on the batch's size is paid for small batches.
MOSTLY_FIXED = 0.5
# Beginning an epoch is worth a word from this share of the loop on.
LONG_START = 0.2
# When the steps of the first round take this many times `seconds`, they are too long for more.
LONGEST_ROUND = 4
# Nobody plans with more; how much more it is depends on how little the rest of the loop takes.
MOST_HEADROOM = 100.0

_ADVICE = {
    "compute-bound": [
        "Loading keeps up, so only a faster step helps: lower precision (gt.autocast), a smaller model, more workers.",
    ],
    "small-batch-bound": [
        "Most of a step's time does not depend on the batch size: use larger batches (gt.tune_batch_size finds the "
        "size), fewer and larger operations, and create no tensors in loops.",
    ],
    "storage-bound": [
        "The loop waits for samples to be read: read more in parallel (num_workers, prefetch_factor), read blocks "
        "instead of single samples, or move the data closer (gt data cache).",
    ],
    "decode-bound": [
        "The loop waits for samples to be decoded: use more num_workers, arrays instead of lists, transforms applied "
        "once (gt data cache --after-transforms), or a Rust source (gt.data.ParquetDataset).",
    ],
    "transfer-bound": [
        "The loop waits for batches to be copied to the workers: use smaller dtypes (uint8, float16, cast after the "
        "copy), less padding, or pin_memory=True on a GPU.",
    ],
    "contention": [
        "Loader and step are fast alone but slow together: they compete for cores, memory or a lock. Try fewer "
        "num_workers, a smaller GT_NUM_THREADS, or loading on another machine.",
    ],
}
_LOADING = {"storage-bound": ("read_s",), "decode-bound": ("decode_s", "gather_s"), "transfer-bound": ("copy_s",)}
_SPENT_ON = {"storage-bound": "reading", "decode-bound": "decoding", "transfer-bound": "copying"}


@dataclass
class Verdict:
    """What holds a loop back. `verdict` is the answer, `report()` the whole story; `print` shows it.

    Times are seconds a batch: `real_s` (the loop), `cached_s` (the step on batches that are there), `loader_s` (the loader
    alone), `start_s` (of that, the wait for an epoch's first batch, shared out over the epoch); `stages` holds those of
    read, decode, gather, copy, forward, backward and optimizer. `headroom` is how many times faster the loop would be if what
    holds it back took no time, 100 at most.

    >>> found = gt.data.Verdict("compute-bound", real_s=0.01, cached_s=0.01, loader_s=0.001)
    >>> found.verdict, round(found.samples_per_s)
    ('compute-bound', 0)
    """

    verdict: str
    real_s: float
    cached_s: float
    loader_s: float
    batch_size: int = 0
    fixed_share: float | None = None
    device_share: float = 0.0
    headroom: float = 1.0
    stages: dict[str, float] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)
    start_s: float = 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples a second of the real loop."""
        return self.batch_size / self.real_s if self.real_s else 0.0

    def report(self) -> str:
        """The answer, the numbers and what to change, as text."""
        lines = [f"{self.verdict}: {self._why()}", ""]
        rows = [
            ("the loop", self.real_s),
            ("the step alone, on ready batches", self.cached_s),
            ("the loader alone", self.loader_s),
            ("of that, the wait for the first batch", self.start_s),
        ]
        lines += [f"  {name:<44}{seconds * 1e3:10.3f} ms a batch" for name, seconds in rows]
        if self.batch_size:
            lines.append(f"  {'samples':<44}{self.samples_per_s:10.0f} a second, {self.batch_size} a batch")
        if self.fixed_share is not None:
            lines.append(f"  {'share of the step independent of batch size':<44}{self.fixed_share:10.0%}")
        if any(self.stages.values()):
            lines.append(
                "  stages, ms a batch: " + "  ".join(f"{k[:-2]} {v * 1e3:.3f}" for k, v in self.stages.items())
            )
        if self.device_share:
            lines.append(f"  {'share of the step computing on workers':<44}{self.device_share:10.0%}")
        more = " or more" if self.headroom >= MOST_HEADROOM else ""
        lines.append(f"  possible speed-up: {self.headroom:.2f}x{more}")
        return "\n".join([*lines, "", *(f"  - {advice}" for advice in self.advice)])

    def _why(self) -> str:
        if self.verdict in _LOADING:
            return f"the loop waits for the loader, which spends most time {_SPENT_ON[self.verdict]}"
        return {
            "compute-bound": "loading keeps up; the step takes the time"
            + ("" if self.device_share >= 0.5 else ", most of it in the script, not on the workers"),
            "small-batch-bound": "loading keeps up, but a step takes nearly as long for fewer samples",
            "contention": "each part is faster alone than in the loop",
        }[self.verdict]

    def __str__(self) -> str:
        return self.report()


def verdict(
    loader: Any, step_fn: Callable[[Any], Any], *, seconds: float = 2.0, batches: int = 200, stages: bool = True
) -> Verdict:
    """Says what holds the loop `for batch in loader: step_fn(batch)` back.

    *compute-bound*, *small-batch-bound*, *storage-bound*, *decode-bound*, *transfer-bound* or *contention*; see `Verdict`.
    Each of the loops that are timed takes `seconds` or `batches`, whichever ends first. `stages=False` leaves out the few
    steps that tell forward, backward and optimizer apart. If the steps are so long that one look takes more than four times
    `seconds`, the answer follows from that, without `fixed_share` and the stages of the step.

    >>> import time
    >>> dl = gt.data.DataLoader(list(range(64)), batch_size=4)
    >>> gt.data.verdict(dl, lambda batch: time.sleep(len(batch) / 1000), seconds=0.1).verdict
    'compute-bound'
    """
    if hasattr(loader, "__next__"):
        raise TypeError(
            f"verdict() iterates several times, but a {type(loader).__name__} yields its batches only once: pass the loader "
            "itself or a list of batches"
        )
    if batches < 1 or seconds <= 0:
        raise ValueError(f"seconds and batches must be positive, but got seconds={seconds} and batches={batches}")
    keep = getattr(loader, "state_dict", None)
    state = keep() if callable(keep) else None
    drawn = _core.rng_state()
    try:
        return _judged(loader, step_fn, seconds, batches, stages)
    finally:
        _core.set_rng_state_raw(*drawn)
        if state is not None:
            loader.load_state_dict(state)


def _judged(loader: Any, step_fn: Callable[[Any], Any], seconds: float, batches: int, stages: bool) -> Verdict:
    (alone, (step_s, device_share), real, busy_here), has_time = _looked_at(loader, step_fn, seconds, batches)
    declared = getattr(loader, "batch_size", None)
    size = round(sum(samples_of(batch, declared) for batch in alone.kept) / len(alone.kept))
    found = Verdict(
        "compute-bound", real.per_batch, step_s, alone.per_batch, batch_size=size, stages=dict(alone.stages)
    )
    found.device_share, found.start_s = device_share, alone.start_s
    if found.real_s > _most(loader, alone, step_s):
        found.verdict = "contention"
        found.headroom = found.real_s / _expected(loader, alone, step_s)
    elif found.loader_s >= found.cached_s:
        found.verdict = _loading_stage(alone, loader, busy_here)
        found.headroom = found.real_s / max(found.cached_s, 1e-9)
    else:
        found.headroom = found.real_s / max(found.cached_s, 1e-9)
        if has_time:
            _judge_step(found, step_fn, alone.kept, declared, seconds)
    found.headroom = min(MOST_HEADROOM, max(1.0, found.headroom))
    if stages and has_time:
        found.stages |= step_stages(step_fn, alone.kept, seconds)
    found.advice = [*_advice(found, loader)]
    if not has_time:
        found.advice.append(
            f"The steps are too long to be looked at more than once in seconds={seconds:g}: use a larger `seconds` for a more "
            "certain answer."
        )
    return found


def _looked_at(
    loader: Any, step_fn: Callable[[Any], Any], seconds: float, batches: int
) -> tuple[tuple[LoaderPass, tuple[float, float], LoaderPass, float], bool]:
    """The loader alone, a step alone (seconds, share in which the workers computed), the loop, and the share of time in
    which this process computed while it loaded. And whether there is time for more.

    In rounds, of which the quickest counts for each: what else the machine does comes and goes.
    """
    alone: list[LoaderPass] = []
    real: list[LoaderPass] = []
    steps: list[tuple[float, float]] = []
    busy: list[float] = []
    began = time.perf_counter()
    allowance = Allowance(LONGEST_ROUND * seconds)
    while True:
        computed, passed = time.process_time(), time.perf_counter()
        alone.append(pass_over(loader, None, seconds / ROUNDS, batches, Allowance()))
        busy.append((time.process_time() - computed) / (time.perf_counter() - passed))
        steps.append(step_seconds(step_fn, alone[0].kept, seconds / ROUNDS, allowance))
        real.append(pass_over(loader, step_fn, seconds / ROUNDS, batches, allowance))
        if allowance.is_spent:
            return (alone[0], steps[0], real[0], busy[0]), False
        allowance = Allowance()
        quickest = min(range(len(alone)), key=lambda i: alone[i].per_batch)
        loop = min(real, key=lambda look: look.per_batch)
        suspect = loop.per_batch > _most(loader, alone[quickest], min(steps)[0])
        # The first round pays for what is only paid once, such as memory that was never touched.
        over = time.perf_counter() - began > 6 * seconds and len(real) > 1
        # Parts that seem to be in each other's way get twice the rounds: an accident does not happen every time.
        if over or len(real) >= (2 * ROUNDS if suspect else ROUNDS):
            break
    alone[quickest].kept = alone[0].kept
    return (alone[quickest], min(steps), loop, busy[quickest]), True


def _most(loader: Any, alone: LoaderPass, step_s: float) -> float:
    """The most that a batch may cost in the loop before its parts are said to be in each other's way.

    Parts that take turns cannot be, nor can one that is nothing beside the other: what makes those slower is outside of
    the loop.
    """
    shorter, longer = sorted((alone.per_batch, step_s))
    comparable = shorter > (IN_THE_WAY - 1) * longer
    return IN_THE_WAY * _expected(loader, alone, step_s) if made_ahead(loader) and comparable else math.inf


def _expected(loader: Any, alone: LoaderPass, step_s: float) -> float:
    """What a batch costs in the loop if the parts do not disturb each other: the longer one, if they run side by side.

    An epoch's first batch is waited for in any case: there is nothing to step on before it.
    """
    if not made_ahead(loader):
        return alone.per_batch + step_s
    return alone.start_s + max(alone.per_batch - alone.start_s, step_s)


def _loading_stage(alone: LoaderPass, loader: Any, busy_here: float) -> str:
    """The stage that the loader spends most of a batch's time in."""
    if not any(alone.stages.values()):
        # A loader without counters: either this process computes, or it waits.
        return "decode-bound" if busy_here > 0.5 else "storage-bound"
    # Reading and decoding are summed over processes or threads that work side by side; copying is not.
    workers = getattr(loader, "num_workers", 0)
    side_by_side = max(1, workers if isinstance(workers, int) else 1)
    cost = {
        name: sum(alone.stages.get(stage, 0.0) for stage in parts) / (1 if name == "transfer-bound" else side_by_side)
        for name, parts in _LOADING.items()
    }
    return max(cost, key=lambda name: cost[name])


def _judge_step(found: Verdict, step_fn: Callable[[Any], Any], kept: list[Any], declared: Any, seconds: float) -> None:
    """Tells a step that has enough to do from one that is mostly overhead: by a step on half a batch."""
    if found.batch_size < 2:
        return
    half_s = float("inf")
    limit = time.perf_counter() + 2 * seconds
    for turn in range(ROUNDS):
        if turn and time.perf_counter() > limit:
            break
        # By turns, so that what else the machine does falls on both.
        try:
            halves = [halved(batch, samples_of(batch, declared)) for batch in kept]
            half_s = min(half_s, step_seconds(step_fn, halves, seconds / ROUNDS)[0])
        except Exception:
            # A batch that cannot be cut, or a step that insists on its batch size, cannot be asked.
            return
        found.cached_s = min(found.cached_s, step_seconds(step_fn, kept, seconds / ROUNDS)[0])
    # A step costs a + b * samples; two sizes give both.
    share = min(1.0, max(0.0, (2 * half_s - found.cached_s) / found.cached_s))
    found.fixed_share = share
    found.headroom = found.real_s / found.cached_s
    if share > MOSTLY_FIXED:
        found.verdict = "small-batch-bound"
        found.headroom = 1 / max(1e-2, 1 - share)


def _advice(found: Verdict, loader: Any) -> list[str]:
    advice = list(_ADVICE[found.verdict])
    cores = available_cores()
    if not made_ahead(loader) and found.loader_s > 0.1 * found.real_s:
        advice.append(
            f"Loading and stepping take turns ({found.loader_s / found.real_s:.0%} of the loop is loading): "
            "with num_workers=1 or more they run in parallel."
        )
    if found.verdict in ("compute-bound", "small-batch-bound") and found.device_share < 0.5:
        advice.append(
            f"The workers compute for {found.device_share:.0%} of a step; the rest is spent in the script: use fewer and "
            "larger operations, create no tensors in loops, and read fewer values."
        )
    # Threads have no context to be started in.
    processes = made_ahead(loader) and hasattr(loader, "multiprocessing_context")
    if processes and not loader.persistent_workers and found.start_s > LONG_START * found.real_s:
        advice.append(
            f"{found.start_s / found.real_s:.0%} of the loop is spent waiting for the first batch of an epoch while worker "
            "processes start: persistent_workers=True keeps them running."
        )
    workers = getattr(loader, "num_workers", 0)
    if isinstance(workers, int) and workers > cores:
        advice.append(f"{workers} workers share {cores} cores.")
    return advice
