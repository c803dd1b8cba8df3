"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from gt.optim.lr_scheduler.base import LRScheduler, rates, set_rate
from gt.optim.lr_scheduler.plateau import ReduceLROnPlateau
from gt.optim.optimizer import Optimizer


class _JoinedLR(LRScheduler):
    """What both share: the schedules belong to one optimizer, and their state dicts are part of the whole."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, optimizer: Any, schedulers: Sequence[Any]) -> None:
        name = type(self).__name__
        for i, schedule in enumerate(schedulers):
            if not hasattr(schedule, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(schedule, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            if schedule.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(schedule).__name__} at index {i} has {schedule.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the state dicts of the schedules."""
        return {**super().state_dict(), "_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"]):
            schedule.load_state_dict(state)


class SequentialLR(_JoinedLR):
    """One schedule until the first milestone, then the next, which starts at its epoch 0.

    >>> from gt.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> warm, cool = ConstantLR(opt, factor=0.5, total_iters=9), ExponentialLR(opt, gamma=0.5)
    >>> schedule = SequentialLR(opt, [warm, cool], milestones=[2])
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(4)]
    [0.5, 1.0, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each schedule took its first step when it was made: all but the one that starts are taken back.
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        self.recursive_undo()
        current = schedulers[bisect_right(milestones, 0)]
        current._initial_step()
        self._last_lr = current.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Takes back one step of a schedule, or of those it is made of."""
        sched = self if sched is None else sched
        if isinstance(sched, _JoinedLR):
            for inner in sched._schedulers:
                self.recursive_undo(inner)
        else:
            sched.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Steps the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            current._update_lr(0)
        else:
            current.step()
        self._last_lr = current.get_last_lr()


class ChainedScheduler(_JoinedLR):
    """Steps every schedule, each going on from the rate the one before has set.

    >>> from gt.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = ChainedScheduler([ConstantLR(opt, factor=0.5, total_iters=2), ExponentialLR(opt, gamma=0.5)])
    >>> [(opt.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(3)]
    [0.25, 0.25, 0.125]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check(optimizer, schedulers)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = rates(optimizer)

    def step(self) -> None:  # type: ignore[override]
        """Steps all schedules in their order."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = rates(self.optimizer)
