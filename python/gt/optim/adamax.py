"""Adamax: Adam with the largest gradient in place of the root of averaged squares."""

from __future__ import annotations

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


class AdamaxScalars(NamedTuple):
    """The numbers of one update; `step` counts this one."""

    lr: Any
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    step: float
    maximize: bool


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: AdamaxScalars) -> None:
    """One step; `states` holds the averages of gradients and the decaying largest gradients."""
    s = scalars
    rate = scalar_rate(s.lr) / (1 - s.beta1**s.step)
    for param, grad, mean, largest in zip(params, ascent(grads, s.maximize), *states):
        if s.weight_decay != 0:
            grad = grad + param * s.weight_decay
        mean.mul_(s.beta1).add_(grad, alpha=1 - s.beta1)
        largest.mul_(s.beta2).maximum_(grad.abs() + s.eps)
        param.sub_(mean / largest * rate)


class Adamax(ListOptimizer):
    """Adamax.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.Adamax([x], lr=0.5)
    >>> (2 * x).sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([0.5000])
    """

    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
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
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _scalars(self, group: dict[str, Any], moment: Any) -> AdamaxScalars:
        beta1, beta2 = group["betas"]
        maximize = group.get("maximize", False)
        return AdamaxScalars(group["lr"], beta1, beta2, group["eps"], group["weight_decay"], moment, maximize)
