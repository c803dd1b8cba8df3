"""RMSprop: steps divided by a running average of the gradient's size."""

from __future__ import annotations

from typing import Any, NamedTuple

from gt import _core
from gt._core import Tensor
from gt.optim.list_optimizer import (
    ListOptimizer,
    Lists,
    ascent,
    check_not_negative,
    check_rate,
    one_instruction,
    scalar_rate,
)
from gt.optim.parameter_state import ParameterState


class RMSpropScalars(NamedTuple):
    """The numbers of one update."""

    lr: Any
    alpha: float
    eps: float
    weight_decay: float
    momentum: float
    centered: bool
    maximize: bool


def composed(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: RMSpropScalars) -> None:
    """As `update`, in operations of tensors."""
    lr, s = scalar_rate(scalars.lr), scalars
    rest = list(states[1:])
    means = rest.pop(0) if s.centered else None
    buffers = rest.pop(0) if s.momentum > 0 else None
    for i, (param, grad) in enumerate(zip(params, ascent(grads, s.maximize))):
        if s.weight_decay != 0:
            grad = grad + param * s.weight_decay
        square = states[0][i].mul_(s.alpha).add_(grad * grad, alpha=1 - s.alpha)
        if means is not None:
            mean = means[i].mul_(s.alpha).add_(grad, alpha=1 - s.alpha)
            square = square - mean * mean
        move = grad / (square.sqrt() + s.eps)
        if buffers is not None:
            move = buffers[i].mul_(s.momentum).add_(move)
        param.sub_(move * lr)


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: RMSpropScalars) -> None:
    """One step; `states` holds the averages of squares, then the averages of gradients and the momentum buffers, each
    where there are any."""
    if not one_instruction(scalars.lr):
        composed(params, grads, states, scalars)
        return
    s = scalars
    numbers = [s.lr, s.weight_decay, s.alpha, s.momentum, s.eps]
    _core.multi_tensor_update("rmsprop", params, grads, states, numbers, centered=s.centered, maximize=s.maximize)


class RMSprop(ListOptimizer):
    """RMSprop, centered by the average of gradients if asked, with momentum if asked.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.RMSprop([x], lr=0.1, alpha=0.75)
    >>> x.sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([0.8000])
    """

    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("epsilon", eps)
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        check_not_negative("alpha", alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        centered = ("grad_avg",) if group["centered"] else ()
        return ("square_avg", *centered, *(("momentum_buffer",) if group["momentum"] > 0 else ()))

    def _advance(self, state: ParameterState, param: Tensor, group: dict[str, Any]) -> None:
        # The count is kept for the state dict; no number depends on it, so all parameters share one call.
        super()._advance(state, param, group)

    def _scalars(self, group: dict[str, Any], moment: Any) -> RMSpropScalars:
        return RMSpropScalars(
            group["lr"],
            group["alpha"],
            group["eps"],
            group["weight_decay"],
            group["momentum"],
            group["centered"],
            group.get("maximize", False),
        )
