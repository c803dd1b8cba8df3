"""Rates that fall, or rise, by factors: in steps, at milestones, along a line, a power or an exponential."""

from __future__ import annotations

import collections
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from gt.optim.lr_scheduler.base import LRScheduler
from gt.optim.optimizer import Optimizer


class StepLR(LRScheduler):
    """Multiplies the rate by `gamma` every `step_size` epochs.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(4)]
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._rates_now()
        return self._rates_times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_rates_times(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiplies the rate by `gamma` at each of the milestones.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.MultiStepLR(opt, milestones=[1, 3], gamma=0.5)
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(4)]
    [0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = collections.Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._rates_now()
        return self._rates_times(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return self._base_rates_times(self.gamma**passed)


class ConstantLR(LRScheduler):
    """The rate times `factor` for `total_iters` epochs, then the rate itself.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.ConstantLR(opt, factor=0.5, total_iters=2)
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(3)]
    [0.5, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._rates_times(self.factor)
        if self.last_epoch != self.total_iters:
            return self._rates_now()
        return self._rates_times(1.0 / self.factor)

    def _get_closed_form_lr(self) -> list[Any]:
        over = self.last_epoch >= self.total_iters
        return self._base_rates_times(self.factor + over * (1 - self.factor))


class LinearLR(LRScheduler):
    """The rate times a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.LinearLR(opt, start_factor=0.5, total_iters=2)
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(3)]
    [0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._rates_times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates_now()
        rise = self.end_factor - self.start_factor
        return self._rates_times(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> list[Any]:
        rise, epoch = self.end_factor - self.start_factor, min(self.total_iters, self.last_epoch)
        return self._base_rates_times(self.start_factor + rise * epoch / self.total_iters)


class ExponentialLR(LRScheduler):
    """Multiplies the rate by `gamma` every epoch.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(3)]
    [0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return self._rates_now() if self._is_initial else self._rates_times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_rates_times(self.gamma**self.last_epoch)


class PolynomialLR(LRScheduler):
    """The rate times (1 - epoch / total_iters) ** power.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.PolynomialLR(opt, total_iters=2)
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(3)]
    [0.5, 0.0, 0.0]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates_now()
        left, left_before = 1.0 - self.last_epoch / self.total_iters, 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._rates_times((left / left_before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return self._base_rates_times(left**self.power)
