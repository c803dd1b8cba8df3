"""Pipelines: the stages of a model on different workers, busy with different parts of a batch at once.

PIPELINE-1: each stage is recorded in 1F1B order: as many forward passes as it takes to fill the stages behind it, then one
            backward pass after each forward pass, then the rest. So a stage keeps at most as many micro-batches as there are
            stages from it to the end, however many there are in all.
PIPELINE-2: micro-batches count by their share of the batch: gradients and loss are those of a mean over the whole batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.autograd import backward
from gt.signal import context

__all__ = ["Pipeline", "pipeline"]

Stage = tuple[str, Callable[..., Any]]


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _cut(values: Iterable[Any]) -> tuple[Any, ...]:
    """The same values without what made them; where gradients flowed, they are collected here."""
    fresh = []
    for value in values:
        if isinstance(value, Tensor) and value.requires_grad:
            # A leaf, but data: the next stage splits it, as it would have without the cut.
            value = value.detach().requires_grad_()
            value._mark_state(False)
        fresh.append(value)
    return tuple(fresh)


def order(stages: int, micro_batches: int) -> list[tuple[int, bool, int]]:
    """What is recorded when: (stage, whether it is a forward pass, micro-batch).

    >>> from gt._pipeline import order
    >>> [f"{'FB'[not forward]}{batch}" for stage, forward, batch in order(2, 3) if stage == 0]
    ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    """
    waiting = []
    for stage in range(stages):
        ahead = min(stages - 1 - stage, micro_batches)
        todo = [(True, batch) for batch in range(ahead)]
        for batch in range(ahead, micro_batches):
            todo += [(True, batch), (False, batch - ahead)]
        todo += [(False, batch) for batch in range(micro_batches - ahead, micro_batches)]
        waiting.append(deque(todo))
    done: set[tuple[int, bool, int]] = set()
    recorded = []
    while any(waiting):
        # One tick: what each stage can do with what there was before it.
        ready = []
        for stage, todo in enumerate(waiting):
            if not todo:
                continue
            forward, batch = todo[0]
            if forward:
                needs = [(stage - 1, True, batch)] if stage else []
            else:
                needs = [(stage, True, batch)] + ([(stage + 1, False, batch)] if stage + 1 < stages else [])
            if all(need in done for need in needs):
                ready.append((stage, forward, batch))
        for step in ready:
            waiting[step[0]].popleft()
        done.update(ready)
        recorded += ready
    return recorded


class Pipeline:
    """What `gt.pipeline` gives; call it with a batch."""

    def __init__(self, stages: Sequence[Stage], micro_batches: int) -> None:
        self.stages = list(stages)
        self.micro_batches = micro_batches
        if not self.stages:
            raise ValueError("a pipeline needs at least one stage")
        if micro_batches < 1:
            raise ValueError(f"micro_batches must be at least 1, got {micro_batches}")
        for stage in self.stages:
            if not (isinstance(stage, tuple) and len(stage) == 2 and isinstance(stage[0], str) and callable(stage[1])):
                raise TypeError(f"a stage is a pair of a signal's name and a callable, not {stage!r}")

    def _pieces(self, batch: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        rows = {value.shape[0] for value in batch if isinstance(value, Tensor) and value.dim() > 0}
        if len(rows) != 1:
            raise ValueError(f"all tensors of a batch must have the same first dimension, got {sorted(rows)}")
        count = min(self.micro_batches, max(rows.pop(), 1))
        split = [
            list(value.tensor_split(count)) if isinstance(value, Tensor) and value.dim() > 0 else [value] * count
            for value in batch
        ]
        return list(zip(*split))

    def __call__(self, input: Any, *rest: Any) -> Tensor:
        """Forward and backward over a batch; gradients are collected, the mean loss is given back.

        The first stage is called with a piece of `input` (a tensor, or a tuple of arguments), each other one with what the
        stage before it gave, and the last one with its piece of `rest` besides: it has to give a loss.
        """
        inputs = _tuple(input)
        pieces = self._pieces((*inputs, *rest))
        rows = [next(v.shape[0] for v in piece if isinstance(v, Tensor) and v.dim() > 0) for piece in pieces]
        last = len(self.stages) - 1
        given: dict[tuple[int, int], tuple[Any, ...]] = {}
        made: dict[tuple[int, int], tuple[Any, ...]] = {}
        total: Tensor | None = None
        for stage, forward, batch in order(len(self.stages), len(pieces)):
            name, function = self.stages[stage]
            if not forward:
                self._back(made.pop((stage, batch)), given.pop((stage + 1, batch), ()))
                if stage == 0:
                    del given[0, batch]
                continue
            arguments = _cut(made[stage - 1, batch]) if stage else pieces[batch][: len(inputs)]
            given[stage, batch] = arguments
            with context(name):
                out = function(*arguments, *(pieces[batch][len(inputs) :] if stage == last else ()))
                if stage == last:
                    if not isinstance(out, Tensor) or out.numel() != 1:
                        raise ValueError("the last stage of a pipeline must return a loss: a tensor with one element")
                    out = out * (rows[batch] / sum(rows))
                    total = out.detach() if total is None else total + out.detach()
            made[stage, batch] = _tuple(out)
        assert total is not None
        return total

    @staticmethod
    def _back(outs: tuple[Any, ...], collected: tuple[Any, ...]) -> None:
        """The backward pass of one stage: from what the next stage collected, or from the loss."""
        roots, gradients = [], []
        for i, out in enumerate(outs):
            if not isinstance(out, Tensor) or not out.requires_grad:
                continue
            gradient = collected[i].grad if collected else None
            if collected and gradient is None:
                continue  # The next stage did not use it.
            roots.append(out)
            gradients.append(gradient)
        if roots:
            backward(roots, gradients)

    def forward(self, input: Any, *rest: Any) -> Any:
        """The forward pass alone, piece by piece; what the last stage gives, joined along the first dimension."""
        inputs = _tuple(input)
        pieces = self._pieces((*inputs, *rest))
        joined = []
        for piece in pieces:
            values: Any = piece[: len(inputs)]
            for stage, (name, function) in enumerate(self.stages):
                with context(name):
                    out = function(*values, *(piece[len(inputs) :] if stage == len(self.stages) - 1 else ()))
                values = _tuple(out)
            joined.append(values)
        parts = tuple(_core.cat(list(part)) if part[0].dim() else _core.stack(list(part)) for part in zip(*joined))
        return parts[0] if len(parts) == 1 else parts


def pipeline(stages: Sequence[Stage], micro_batches: int) -> Pipeline:
    """A training step whose stages work on different parts of a batch at the same time, in 1F1B order.

    `stages` are pairs of a signal's name and a function. The result is called with a batch: it cuts it along the first dimension
    into `micro_batches` parts, passes each through the stages, each under its signal, and runs their backward passes. The first
    function is called with the input, each other one with what the one before it gave, the last one with everything else the
    step was called with besides, and it gives the loss (a mean over its part). Gradients are collected as by `backward` on the
    loss of the whole batch, which is given back. `.forward` runs the stages alone.

    >>> first, second = gt.nn.Linear(4, 8), gt.nn.Linear(8, 1)
    >>> for name in ("stage_1", "stage_2"):
    ...     gt.register_config(name, gt.SignalConfig(replicated=True))
    >>> step = gt.pipeline(
    ...     [("stage_1", first), ("stage_2", lambda h, y: gt.nn.functional.mse_loss(second(h), y))], micro_batches=2)
    >>> x, y = gt.randn(6, 4), gt.randn(6, 1)
    >>> loss = step(x, y)
    >>> whole = gt.nn.functional.mse_loss(second(first(x)), y)
    >>> gt.allclose(loss, whole), gt.allclose(first.weight.grad, gt.autograd.grad(whole, first.weight)[0])
    (True, True)
    """
    return Pipeline(stages, micro_batches)
