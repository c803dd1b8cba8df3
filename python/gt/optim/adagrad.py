"""Adagrad: steps divided by the root of the sum of all squared gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from gt import _core
from gt._core import Tensor
from gt.optim.list_optimizer import (
    ListOptimizer,
    Lists,
    ascent,
    check_kind,
    check_not_negative,
    check_rate,
    filled_for,
    one_instruction,
    scalar_rate,
)
from gt.optim.parameter_state import ParameterState


class AdagradScalars(NamedTuple):
    """The numbers of one update; `step` counts this one."""

    lr: Any
    lr_decay: float
    weight_decay: float
    eps: float
    step: float
    maximize: bool


def composed(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: AdagradScalars) -> None:
    """As `update`, in operations of tensors."""
    s = scalars
    rate = scalar_rate(s.lr) / (1 + (s.step - 1) * s.lr_decay)
    for param, grad, total in zip(params, ascent(grads, s.maximize), states[0]):
        if s.weight_decay != 0:
            grad = grad + param * s.weight_decay
        total.add_(grad * grad)
        param.sub_(grad / (total.sqrt() + s.eps) * rate)


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: AdagradScalars) -> None:
    """One step; `states` holds the sums of squares."""
    if not one_instruction(scalars.lr):
        composed(params, grads, states, scalars)
        return
    s = scalars
    numbers = [s.lr, s.weight_decay, s.lr_decay, s.eps, s.step]
    _core.multi_tensor_update("adagrad", params, grads, states, numbers, maximize=s.maximize)


class Adagrad(ListOptimizer):
    """Adagrad: what was moved often moves less.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.Adagrad([x], lr=0.5)
    >>> (2 * x).sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([0.5000])
    """

    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_kind(foreach, fused, differentiable)
        check_not_negative("lr_decay", lr_decay)
        check_not_negative("weight_decay", weight_decay)
        check_not_negative("initial_accumulator_value", initial_accumulator_value)
        check_not_negative("epsilon", eps)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        # As in PyTorch the state is there before the first step.
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = ParameterState(self._counters, self._new_state(param, group))

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "sum": filled_for(param, group["initial_accumulator_value"])}

    def _scalars(self, group: dict[str, Any], moment: Any) -> AdagradScalars:
        return AdagradScalars(
            group["lr"],
            group["lr_decay"],
            group["weight_decay"],
            group["eps"],
            moment,
            group.get("maximize", False),
        )
