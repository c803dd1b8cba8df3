"""Stochastic gradient descent, with momentum."""

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
    one_instruction,
    scalar_rate,
    zeros_for,
)
from gt.optim.parameter_state import ParameterState


class SGDScalars(NamedTuple):
    """The numbers of one update."""

    lr: Any
    momentum: float
    dampening: float
    weight_decay: float
    nesterov: bool
    maximize: bool


def composed(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: SGDScalars) -> None:
    """As `update`, in operations of tensors."""
    lr = scalar_rate(scalars.lr)
    for i, (param, grad) in enumerate(zip(params, ascent(grads, scalars.maximize))):
        if scalars.weight_decay != 0:
            grad = grad + param * scalars.weight_decay
        if states:
            buffer = states[0][i].mul_(scalars.momentum).add_(grad, alpha=1 - scalars.dampening)
            grad = grad + buffer * scalars.momentum if scalars.nesterov else buffer
        param.sub_(grad * lr)


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: SGDScalars) -> None:
    """One step; `states` holds the momentum buffers, or nothing where there is no momentum."""
    if not one_instruction(scalars.lr):
        composed(params, grads, states, scalars)
        return
    s = scalars
    numbers = [s.lr, s.weight_decay, s.momentum, 1 - s.dampening]
    kind = "nesterov" if s.nesterov and states else "sgd"
    _core.multi_tensor_update(kind, params, grads, states, numbers, maximize=s.maximize)


class SGD(ListOptimizer):
    """Walks against the gradient, with momentum and weight decay if asked.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.SGD([x], lr=0.5)
    >>> (3 * x).sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([-0.5000])
    """

    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_kind(foreach, fused, differentiable)
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _advance(self, state: ParameterState, param: Tensor, group: dict[str, Any]) -> bool:
        """Whether this is the parameter's first step with momentum."""
        if group["momentum"] == 0 or state.get("momentum_buffer") is not None:
            return False
        state["momentum_buffer"] = zeros_for(param)
        return True

    def _scalars(self, group: dict[str, Any], moment: Any) -> SGDScalars:
        # The first gradient enters the buffer undampened.
        return SGDScalars(
            group["lr"],
            group["momentum"],
            0 if moment else group["dampening"],
            group["weight_decay"],
            group["nesterov"],
            group.get("maximize", False),
        )
