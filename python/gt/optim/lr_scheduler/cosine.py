"""Rates along half a cosine, once or with restarts."""

from __future__ import annotations

import math
from typing import Any

from gt.optim.lr_scheduler.base import LRScheduler
from gt.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """From the rate down to `eta_min` along half a cosine of `T_max` epochs, and up again.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=2)
    >>> [(opt.step(), schedule.step(), round(schedule.get_last_lr()[0], 6))[2] for _ in range(2)]
    [0.5, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        groups = self.optimizer.param_groups
        if self._is_initial:
            return self._rates_now()
        if self._step_count == 1 and self.last_epoch > 0:
            # Resumed in the middle: there is no rate before to go on from.
            turn = 1 + math.cos(self.last_epoch * math.pi / self.T_max)
            return [self.eta_min + (base - self.eta_min) * turn / 2 for base in self.base_lrs]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The recurrence would divide by zero: the rate before is `eta_min`.
            turn = 1 - math.cos(math.pi / self.T_max)
            return [g["lr"] + (base - self.eta_min) * turn / 2 for base, g in zip(self.base_lrs, groups)]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        turn = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * turn / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down along half a cosine, then back at once; each round is `T_mult` times as long as the one before.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)
    >>> [(opt.step(), schedule.step(), round(schedule.get_last_lr()[0], 6))[2] for _ in range(3)]
    [0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        turn = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * turn / 2 for base in self.base_lrs]

    def step(self, epoch: Any = None) -> None:
        """Goes on by one epoch, or to `epoch`, which may be a fraction: `step(epoch + batch / batches)`."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        else:
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set_rates(values)

    def _jump(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            rounds = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**rounds - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**rounds
