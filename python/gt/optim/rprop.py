"""Rprop: steps of a size of their own for each element, which only the gradient's sign changes."""

from __future__ import annotations

from typing import Any, NamedTuple

from gt import _core
from gt._core import Tensor
from gt.optim.list_optimizer import ListOptimizer, Lists, ascent, check_rate, filled_for, zeros_for
from gt.optim.parameter_state import ParameterState


class RpropScalars(NamedTuple):
    """The numbers of one update."""

    shrink: float
    grow: float
    smallest: float
    largest: float
    maximize: bool


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: RpropScalars) -> None:
    """One step; `states` holds the last gradients and the step sizes."""
    s = scalars
    for param, grad, last, size in zip(params, ascent(grads, s.maximize), *states):
        agreement = grad * last
        smaller = _core.where(agreement < 0, size * s.shrink, size)
        size.copy_(_core.where(agreement > 0, size * s.grow, smaller).clamp(s.smallest, s.largest))
        # Where the sign turned, the element stands still for this step.
        grad = grad.masked_fill(agreement < 0, 0.0)
        param.sub_(grad.sign() * size)
        last.copy_(grad)


class Rprop(ListOptimizer):
    """Rprop: for gradients of the whole data, not of batches.

    >>> x = gt.tensor([1.0, -1.0], requires_grad=True)
    >>> opt = gt.optim.Rprop([x], lr=0.25)
    >>> x.square().sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([ 0.7500, -0.7500])
    """

    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("prev", "step_size")

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = group["lr"]
        size = zeros_for(param) + lr.detach().reshape(()) if isinstance(lr, Tensor) else filled_for(param, lr)
        return {"step": 0.0, "prev": zeros_for(param), "step_size": size}

    def _advance(self, state: ParameterState, param: Tensor, group: dict[str, Any]) -> None:
        # The count is kept for the state dict; no number depends on it, so all parameters share one call.
        super()._advance(state, param, group)

    def _scalars(self, group: dict[str, Any], moment: Any) -> RpropScalars:
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        return RpropScalars(shrink, grow, smallest, largest, group.get("maximize", False))
