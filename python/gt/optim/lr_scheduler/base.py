"""What every schedule has: the rate of each group at the start, the count of its steps, and a state dict.

SCHEDULE-1: a schedule is a recurrence (`get_lr` from the rates of the groups) where PyTorch's is, so that schedules chain
            and round alike; `_get_closed_form_lr` is there where `step(epoch)` can jump.
"""

from __future__ import annotations

import warnings
from typing import Any

from gt._core import Tensor
from gt.optim.optimizer import Optimizer

EPOCH_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. If epoch is different from None, the closed form is used instead of the "
    "chainable form, where available."
)


def copied(value: Any) -> Any:
    """A rate of its own: rates in tensors are written in place."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def rates(optimizer: Optimizer, key: str = "lr") -> list[Any]:
    """The rate of each group now."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_rate(group: dict[str, Any], value: Any) -> None:
    """Gives a group its rate; one in a tensor stays the same tensor."""
    if not isinstance(group["lr"], Tensor):
        group["lr"] = value
    elif isinstance(value, Tensor):
        group["lr"].copy_(value.detach())
    else:
        group["lr"].fill_(value)


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A setting for each group: the list itself, or one value for all."""
    n = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(n)]
    if len(value) != n:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {n}."
        )
    return [copied(item) for item in value]


def require_optimizer(optimizer: Any) -> None:
    """Refuses what is no optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """The base of schedules. A subclass defines `get_lr`, the rates of the groups at `self.last_epoch`.

    >>> class Halving(gt.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(opt)
    >>> opt.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _step_count: int
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0: load the optimizer's state dict first, or start with last_epoch=-1"
                )
        self.base_lrs = rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer.__dict__.setdefault("_opt_called", False)
        self._initial_step()

    def _initial_step(self) -> None:
        """The step that gives the groups the rates of epoch 0."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer.

        >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=0.5)
        >>> gt.optim.lr_scheduler.StepLR(opt, 3).state_dict()["last_epoch"]
        0
        """
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates at `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def step(self, epoch: Any = None) -> None:
        """Goes on to the next epoch and sets the rates of all groups."""
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _warn_of_order(self) -> None:
        if not getattr(self.optimizer.step, "_between_hooks", False):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`.",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in the opposite "
                "order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this will result in skipping the "
                "first value of the learning rate schedule.",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: Any = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed_form()
        finally:
            self._get_lr_called_within_step = False
        self._set_rates(values)

    def _set_rates(self, values: list[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values):
            set_rate(group, value)
        self._last_lr = rates(self.optimizer)

    def _rates_now(self) -> list[Any]:
        return rates(self.optimizer)

    def _rates_times(self, factor: float) -> list[Any]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _base_rates_times(self, factor: float) -> list[Any]:
        return [base * factor for base in self.base_lrs]

    def _warn_outside_step(self) -> None:
        """A recurrence is only right as part of a step."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )
