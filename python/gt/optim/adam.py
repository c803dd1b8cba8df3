"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gt import _core
from gt._core import Tensor
from gt.optim.list_optimizer import (
    ListOptimizer,
    Lists,
    ascent,
    check_betas,
    check_kind,
    check_not_negative,
    check_rate,
    one_instruction,
    scalar_rate,
)


class AdamScalars(NamedTuple):
    """The numbers of one update; `step` counts this one."""

    lr: Any
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    step: float
    amsgrad: bool
    maximize: bool
    decoupled_weight_decay: bool


def composed(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: AdamScalars) -> None:
    """As `update`, in operations of tensors."""
    lr, s = scalar_rate(scalars.lr), scalars
    first = 1 - s.beta1**s.step
    second = math.sqrt(1 - s.beta2**s.step)
    for i, (param, grad) in enumerate(zip(params, ascent(grads, s.maximize))):
        if s.weight_decay != 0:
            if s.decoupled_weight_decay:
                param.mul_(1 - lr * s.weight_decay)
            else:
                grad = grad + param * s.weight_decay
        mean = states[0][i].mul_(s.beta1).add_(grad, alpha=1 - s.beta1)
        square = states[1][i].mul_(s.beta2).add_(grad * grad, alpha=1 - s.beta2)
        if s.amsgrad:
            square = states[2][i].maximum_(square)
        param.sub_(mean / (square.sqrt() / second + s.eps) * (lr / first))


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: AdamScalars) -> None:
    """One step; `states` holds the averages of gradients and of squares, and with `amsgrad` the largest squares."""
    if not one_instruction(scalars.lr):
        composed(params, grads, states, scalars)
        return
    s = scalars
    numbers = [s.lr, s.weight_decay, s.beta1, s.beta2, s.eps, s.step]
    kind = "adamw" if s.decoupled_weight_decay else "adam"
    _core.multi_tensor_update(kind, params, grads, states, numbers, maximize=s.maximize)


class Adam(ListOptimizer):
    """Adam. Weight decay is added to the gradient, or with `decoupled_weight_decay` taken off the parameter (AdamW).

    >>> x = gt.tensor([1.0, -2.0], requires_grad=True)
    >>> opt = gt.optim.Adam([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([ 0.9000, -1.9000])
    """

    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_rate(lr)
        check_kind(foreach, fused, differentiable)
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
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _scalars(self, group: dict[str, Any], moment: Any) -> AdamScalars:
        beta1, beta2 = group["betas"]
        return AdamScalars(
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            moment,
            group["amsgrad"],
            group.get("maximize", False),
            group.get("decoupled_weight_decay", False),
        )
