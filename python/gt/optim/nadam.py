"""NAdam: Adam with Nesterov's momentum."""

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
from gt.optim.parameter_state import ParameterState


class NAdamScalars(NamedTuple):
    """The numbers of one update: `momentum` of this step and the next, `momentum_product` of all up to this one."""

    lr: Any
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    step: float
    momentum: float
    next_momentum: float
    momentum_product: float
    maximize: bool
    decoupled_weight_decay: bool


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: NAdamScalars) -> None:
    """One step; `states` holds the averages of gradients and of squares."""
    lr, s = scalar_rate(scalars.lr), scalars
    second = 1 - s.beta2**s.step
    of_grad = lr * (1 - s.momentum) / (1 - s.momentum_product)
    of_mean = lr * s.next_momentum / (1 - s.momentum_product * s.next_momentum)
    for param, grad, mean, square in zip(params, ascent(grads, s.maximize), *states):
        if s.weight_decay != 0:
            if s.decoupled_weight_decay:
                param.mul_(1 - lr * s.weight_decay)
            else:
                grad = grad + param * s.weight_decay
        mean.mul_(s.beta1).add_(grad, alpha=1 - s.beta1)
        square.mul_(s.beta2).add_(grad * grad, alpha=1 - s.beta2)
        param.sub_((grad * of_grad + mean * of_mean) / ((square / second).sqrt() + s.eps))


class NAdam(ListOptimizer):
    """NAdam.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.NAdam([x], lr=0.5)
    >>> (2 * x).sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([0.4718])
    """

    _counters = frozenset({"step", "mu_product"})
    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_not_negative("momentum_decay", momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "mu_product": 1.0, **super()._new_state(param, group)}

    def _advance(self, state: ParameterState, param: Tensor, group: dict[str, Any]) -> tuple[float, float]:
        step: Any = super()._advance(state, param, group)
        product = state.number("mu_product") * _momentum(group, step)
        state.count("mu_product", product)
        return step, product

    def _scalars(self, group: dict[str, Any], moment: Any) -> NAdamScalars:
        step, product = moment
        beta1, beta2 = group["betas"]
        return NAdamScalars(
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            step,
            _momentum(group, step),
            _momentum(group, step + 1),
            product,
            group.get("maximize", False),
            group["decoupled_weight_decay"],
        )


def _momentum(group: dict[str, Any], step: Any) -> float:
    """The momentum of a step, which grows towards beta1."""
    return group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))  # type: ignore[no-any-return]
