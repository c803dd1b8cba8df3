"""Optimizers whose arithmetic is one function over lists of tensors.

LIST-1: `update(params, grads, states, scalars)` of an optimizer's file is all of its arithmetic. The lists run in
        parallel, `states` holds one list for each name in `_state_names`, and everything is written in place.
        Where the extension has the arithmetic it is one instruction, of which everything is written or nothing;
        `composed` beside it is the same in operations of tensors, for a rate in a tensor and for tracked steps.
LIST-2: `scalars` are Python numbers, the same for every parameter of the call: parameters that stand at different steps
        are updated by different calls. Only `lr` may be a tensor, of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.optim.optimizer import Closure, Optimizer
from gt.optim.parameter_state import ParameterState
from gt.optim.skipped_updates import watch

Lists = Sequence[list[Tensor]]


class ListOptimizer(Optimizer):
    """The walk over groups and parameters that ends in calls of `update`."""

    _counters = frozenset({"step"})

    # Set by each optimizer to the function of its file, as a static method.
    _update: Callable[[list[Tensor], list[Tensor], Lists, Any], None]

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The tensors of state that the update takes, in its order."""
        raise NotImplementedError

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """What a parameter has before its first step: zeros, unless the optimizer says otherwise."""
        return {"step": 0.0, **{name: zeros_for(param) for name in self._state_names(group)}}

    def _scalars(self, group: dict[str, Any], moment: Any) -> Any:
        """The numbers of one call; `moment` is what `_advance` gave for its parameters."""
        raise NotImplementedError

    def _advance(self, state: ParameterState, param: Tensor, group: dict[str, Any]) -> Hashable:
        """Moves a parameter's counters on. Parameters with equal results share a call of `update`."""
        if not state:
            state.update(self._new_state(param, group))
        step = state.number("step") + 1
        state.count("step", step)
        return step  # type: ignore[no-any-return]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        watch(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        watch(self)

    # What the last step updated: a group, the positions of parameters in it, and how many tensors of each were written.
    _last_updates: Sequence[tuple[int, list[int], int]] = ()

    def step(self, closure: Closure | None = None) -> Any:
        """Updates the parameters that have a gradient; returns what `closure` returned, if there is one."""
        before = _core.set_grad_enabled_raw(True)
        try:
            loss = None if closure is None else closure()
            _core.set_grad_enabled_raw(before and bool(self.defaults.get("differentiable")))
            updates: list[tuple[int, list[int], int]] = []
            for number, group in enumerate(self.param_groups):
                self._step_group(group, number, updates)
            self._last_updates = updates
        finally:
            _core.set_grad_enabled_raw(before)
        return loss

    def _state_of(self, param: Tensor) -> ParameterState:
        state = self.state[param]
        if type(state) is not ParameterState:
            state = self.state[param] = ParameterState(self._counters, state)
        return state

    def _step_group(self, group: dict[str, Any], number: int, updates: list[tuple[int, list[int], int]]) -> None:
        names = self._state_names(group)
        calls: dict[Hashable, tuple[list[Tensor], list[Tensor], tuple[list[Tensor], ...]]] = {}
        positions: dict[Hashable, list[int]] = {}
        for position, param in enumerate(group["params"]):
            grad = param.grad
            if grad is None:
                continue
            # An optimizer without state leaves none behind.
            state = self._state_of(param) if names else ParameterState(self._counters)
            moment = self._advance(state, param, group)
            call = calls.get(moment)
            if call is None:
                call = calls[moment] = ([], [], tuple([] for _ in names))
                positions[moment] = []
            positions[moment].append(position)
            call[0].append(param)
            call[1].append(grad)
            for name, tensors in zip(names, call[2]):
                tensors.append(dict.__getitem__(state, name))
        for moment, (params, grads, states) in calls.items():
            updates.append((number, positions[moment], 1 + len(names)))
            type(self)._update(params, grads, states, self._scalars(group, moment))


def one_instruction(lr: Any) -> bool:
    """Whether an update can be one instruction: its numbers are known, and no gradient is to flow through it."""
    return not isinstance(lr, Tensor) and not _core.is_grad_enabled()


def zeros_for(param: Tensor) -> Tensor:
    """State of zeros in a parameter's shape."""
    return filled_for(param, 0.0)


def filled_for(param: Tensor, value: float) -> Tensor:
    """State in a parameter's shape, and with signals where the parameter lies."""
    if _core.signals_in_use():
        # Made of the parameter, so that it is placed as the parameter is: no number is less than itself.
        param = param.detach()
        state = (param < param).to(param.dtype).add_(value)
    else:
        state = _core.full_like(param, value, requires_grad=False)
    state._mark_state()
    return state


def scalar_rate(lr: Any) -> Any:
    """A learning rate to multiply by: a number, or a tensor without dimensions."""
    return lr.reshape(()) if isinstance(lr, Tensor) else lr


def check_rate(lr: Any) -> None:
    """Refuses a learning rate below zero. One in a tensor is not read."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    elif not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_not_negative(name: str, value: Any) -> None:
    """Refuses a number below zero, or none."""
    _refuse_tensor(name, value)
    if not value >= 0.0:
        raise ValueError(f"Invalid {name} value: {value}")


def check_kind(foreach: bool | None, fused: bool | None, differentiable: bool = False) -> None:
    """Refuses two ways to update at once. Which one is named changes nothing: every update is one instruction."""
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")


def check_betas(betas: tuple[Any, Any]) -> None:
    """Refuses decay rates outside of [0, 1)."""
    for i, beta in enumerate(betas):
        _refuse_tensor("betas", beta)
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def _refuse_tensor(name: str, value: Any) -> None:
    # Comparing it would read it, here and in every step.
    if isinstance(value, Tensor):
        raise ValueError(f"{name} must be a Python number; only lr may be a tensor")


def ascent(grads: list[Tensor], maximize: bool) -> list[Tensor]:
    """The gradients to walk against."""
    return [-grad for grad in grads] if maximize else grads
