"""RAdam: Adam that waits with its adaptive steps until their variance is small."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gt._core import Tensor
from gt.optim.list_optimizer import (
    ListOptimizer,
    Lists,
    ascent,
    check_betas,
    check_not_negative,
    check_rate,
    scalar_rate,
)


class RAdamScalars(NamedTuple):
    """The numbers of one update; `step` counts this one."""

    lr: Any
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    step: float
    maximize: bool
    decoupled_weight_decay: bool


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: RAdamScalars) -> None:
    """One step; `states` holds the averages of gradients and of squares."""
    lr, s = scalar_rate(scalars.lr), scalars
    first, second = 1 - s.beta1**s.step, 1 - s.beta2**s.step
    longest = 2 / (1 - s.beta2) - 1
    length = longest - 2 * s.step * s.beta2**s.step / second
    adapt = None
    if length > 5:
        adapt = math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) * second)
    for param, grad, mean, square in zip(params, ascent(grads, s.maximize), *states):
        if s.weight_decay != 0:
            if s.decoupled_weight_decay:
                param.mul_(1 - lr * s.weight_decay)
            else:
                grad = grad + param * s.weight_decay
        mean.mul_(s.beta1).add_(grad, alpha=1 - s.beta1)
        square.mul_(s.beta2).add_(grad * grad, alpha=1 - s.beta2)
        move = mean * (lr / first)
        param.sub_(move if adapt is None else move / (square.sqrt() + s.eps) * adapt)


class RAdam(ListOptimizer):
    """RAdam.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.RAdam([x], lr=0.25)
    >>> (2 * x).sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([0.5000])
    """

    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("epsilon", eps)
        check_betas(betas)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _scalars(self, group: dict[str, Any], moment: Any) -> RAdamScalars:
        beta1, beta2 = group["betas"]
        return RAdamScalars(
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            moment,
            group.get("maximize", False),
            group["decoupled_weight_decay"],
        )
