"""Adadelta: steps in the units of the parameter, from running averages of squared gradients and squared steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from gt._core import Tensor
from gt.optim.list_optimizer import (
    ListOptimizer,
    Lists,
    ascent,
    check_not_negative,
    check_rate,
    scalar_rate,
)
from gt.optim.parameter_state import ParameterState


class AdadeltaScalars(NamedTuple):
    """The numbers of one update."""

    lr: Any
    rho: float
    eps: float
    weight_decay: float
    maximize: bool


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: AdadeltaScalars) -> None:
    """One step; `states` holds the averages of squared gradients and of squared steps."""
    lr, s = scalar_rate(scalars.lr), scalars
    for param, grad, square, steps in zip(params, ascent(grads, s.maximize), *states):
        if s.weight_decay != 0:
            grad = grad + param * s.weight_decay
        square.mul_(s.rho).add_(grad * grad, alpha=1 - s.rho)
        move = (steps + s.eps).sqrt() / (square + s.eps).sqrt() * grad
        steps.mul_(s.rho).add_(move * move, alpha=1 - s.rho)
        param.sub_(move * lr)


class Adadelta(ListOptimizer):
    """Adadelta.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.Adadelta([x], lr=1.0, rho=0.75, eps=1.0)
    >>> (2 * x).sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([-0.4142])
    """

    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative("epsilon", eps)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def _advance(self, state: ParameterState, param: Tensor, group: dict[str, Any]) -> None:
        # The count is kept for the state dict; no number depends on it, so all parameters share one call.
        super()._advance(state, param, group)

    def _scalars(self, group: dict[str, Any], moment: Any) -> AdadeltaScalars:
        maximize = group.get("maximize", False)
        return AdadeltaScalars(group["lr"], group["rho"], group["eps"], group["weight_decay"], maximize)
