"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any, NamedTuple

from gt._core import Tensor
from gt.optim.list_optimizer import ListOptimizer, Lists, ascent, check_not_negative, check_rate, zeros_for
from gt.optim.parameter_state import ParameterState


class ASGDScalars(NamedTuple):
    """The numbers of one update: the decayed rate `eta`, and `mu`, the weight of this step in the average."""

    eta: Any
    lambd: float
    mu: float
    weight_decay: float
    maximize: bool


def update(params: list[Tensor], grads: list[Tensor], states: Lists, scalars: ASGDScalars) -> None:
    """One step; `states` holds the averaged parameters."""
    s = scalars
    for param, grad, average in zip(params, ascent(grads, s.maximize), states[0]):
        if s.weight_decay != 0:
            grad = grad + param * s.weight_decay
        param.mul_(1 - s.lambd * s.eta).sub_(grad * s.eta)
        if s.mu == 1:
            average.copy_(param)
        else:
            average.add_((param - average) * s.mu)


class ASGD(ListOptimizer):
    """Gradient descent with a decaying rate; `state[p]["ax"]` is the average of each parameter from step `t0` on.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.ASGD([x], lr=0.5, lambd=0)
    >>> (2 * x).sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([0.])
    """

    _counters = frozenset({"step", "eta", "mu"})
    _update = staticmethod(update)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("lambd", lambd)
        check_not_negative("alpha", alpha)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("ax",)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "eta": group["lr"], "mu": 1.0, "ax": zeros_for(param)}

    def _advance(self, state: ParameterState, param: Tensor, group: dict[str, Any]) -> tuple[Any, float]:
        """The rate and the weight of this step; those of the next go into the state."""
        step: Any = super()._advance(state, param, group)
        eta, mu = state.number("eta"), state.number("mu")
        rate = group["lr"].reshape(()) if isinstance(group["lr"], Tensor) else group["lr"]
        state.count("eta", rate / ((1 + group["lambd"] * rate * step) ** group["alpha"]))
        state.count("mu", 1 / max(1, step - group["t0"]))
        return eta, mu

    def _scalars(self, group: dict[str, Any], moment: Any) -> ASGDScalars:
        eta, mu = moment
        return ASGDScalars(eta, group["lambd"], mu, group["weight_decay"], group.get("maximize", False))
