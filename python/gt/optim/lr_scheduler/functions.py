"""Rates from the user's own functions of the epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from gt.optim.lr_scheduler.base import LRScheduler
from gt.optim.optimizer import Optimizer

_Factor = Callable[[int], float]


class _FunctionLR(LRScheduler):
    """Keeps one function for each group. Plain functions are not part of the state; objects keep their attributes there."""

    lr_lambdas: list[_Factor]

    def __init__(self, optimizer: Optimizer, lr_lambda: _Factor | Sequence[_Factor], last_epoch: int = -1) -> None:
        groups = len(optimizer.param_groups)
        functions: list[Any] = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(functions) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(functions)}")
        for function in functions:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        self.lr_lambdas = functions
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and plain functions."""
        kept = [None if isinstance(f, FunctionType) else dict(getattr(f, "__dict__", {})) for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave; functions stay those this schedule was made with."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if attributes:
                function.__dict__.update(attributes)


class LambdaLR(_FunctionLR):
    """The rate at the start times a function of the epoch.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (1 + epoch))
    >>> opt.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_FunctionLR):
    """The rate of the last epoch times a function of the epoch.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.MultiplicativeLR(opt, lambda epoch: 0.5)
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(2)]
    [0.5, 0.25]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._rates_now()
        groups = self.optimizer.param_groups
        return [group["lr"] * function(self.last_epoch) for function, group in zip(self.lr_lambdas, groups)]
