"""What the workers computed in the forward pass, the backward pass and the optimizer's step.

STAGES-1: times are those the workers counted while they computed, not times that the program waited. The program is made
          to wait at the borders of stages only so that what is counted belongs to one of them.
STAGES-2: they are means over the batches, the quickest of some steps on each: batches may be of any sizes.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gt import _core, debug

__all__ = ["busy_seconds", "step_stages"]

# Steps on each batch. Steps with borders are other windows than those without: the first ones are planned, and compiled.
WARM_ROUNDS = 6
ROUNDS = 3

_Stages = dict[str, float]


def busy_seconds() -> float:
    """What the workers have computed so far, in seconds, after all that was recorded is done."""
    _core.synchronize()
    return sum(float(stats.get("busy_ns", 0)) for stats in debug.get_worker_stats().values()) * 1e-9


class _Borders:
    """Adds what was computed since the last border to a stage."""

    def __init__(self) -> None:
        self.seconds: _Stages = {}
        self._last = 0.0
        self._inside = False

    def begin(self) -> None:
        """Counts from zero."""
        self.seconds = {"forward_s": 0.0, "backward_s": 0.0, "optimizer_s": 0.0}
        self._last = busy_seconds()

    def pass_border(self, stage: str) -> None:
        """Ends a stage."""
        now = busy_seconds()
        self.seconds[stage] += now - self._last
        self._last = now

    def around(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """The function with borders before and after it; what came before it was the forward pass."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return function(*args, **kwargs)
            self.pass_border("forward_s")
            self._inside = True
            try:
                return function(*args, **kwargs)
            finally:
                self._inside = False
                self.pass_border(stage)

        return run


def _optimizer_classes() -> list[Any]:
    from gt.optim import Optimizer

    found, waiting = [], [Optimizer]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if "step" in kind.__dict__:
            found.append(kind)
    return found


@contextmanager
def _bordered(borders: _Borders) -> Iterator[None]:
    tensor: Any = _core.Tensor
    original = tensor.backward
    steps = [(kind, kind.__dict__["step"]) for kind in _optimizer_classes()]
    tensor.backward = borders.around(original, "backward_s")
    for kind, step in steps:
        kind.step = borders.around(step, "optimizer_s")
    try:
        yield
    finally:
        tensor.backward = original
        for kind, step in steps:
            kind.step = step


def step_stages(step_fn: Callable[[Any], Any], batches: list[Any], seconds: float) -> _Stages:
    """Seconds a batch that the workers computed in each stage, from a few steps that wait at every border.

    Takes about `seconds` at most, and at least a step on every batch.

    >>> from gt.data._step_stages import step_stages
    >>> w = gt.ones(3, requires_grad=True)
    >>> sorted(step_stages(lambda x: (w * x).sum().backward(), [gt.ones(3)], seconds=0.1))
    ['backward_s', 'forward_s', 'optimizer_s']
    """
    borders, rounds = _Borders(), []
    limit = time.perf_counter() + seconds
    with _bordered(borders):
        while not rounds or (len(rounds) < WARM_ROUNDS + ROUNDS and time.perf_counter() < limit):
            rounds.append([_stages_of(step_fn, batch, borders) for batch in batches])
    measured = rounds[WARM_ROUNDS:] or rounds[-1:]
    # What disturbs a measurement only makes it longer.
    quickest = [min(steps, key=lambda stages: sum(stages.values())) for steps in zip(*measured)]
    return {name: sum(stages[name] for stages in quickest) / len(quickest) for name in quickest[0]}


def _stages_of(step_fn: Callable[[Any], Any], batch: Any, borders: _Borders) -> _Stages:
    borders.begin()
    step_fn(batch)
    # What comes after the optimizer's step, such as a metric, is forward work too.
    borders.pass_border("forward_s")
    return borders.seconds
