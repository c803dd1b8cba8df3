"""Averages of a model's weights along its training.

SWA-1: how many models entered an average is a buffer, so that it is saved; the script counts along and never reads it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad
from gt.nn.modules.batchnorm import _BatchNorm
from gt.nn.modules.module import Module
from gt.optim.lr_scheduler import LRScheduler

Average = Callable[[Tensor, Tensor, Any], Tensor]
AverageAll = Callable[[list[Tensor], list[Tensor], Any], None]


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageAll:
    """Moves averages towards new weights by a constant share.

    >>> mean = gt.zeros(2)
    >>> gt.optim.swa_utils.get_ema_multi_avg_fn(0.75)([mean], [gt.ones(2)], 1)
    >>> mean
    tensor([0.2500, 0.2500])
    """
    _check_decay(decay)

    @no_grad()
    def move(averages: list[Tensor], current: list[Tensor], _: Any) -> None:
        for average, new in zip(averages, current):
            if average.is_floating_point():
                average.lerp_(new.to(average.dtype), 1 - decay)
            else:
                average.copy_(average * decay + new * (1 - decay))

    return move


def get_swa_multi_avg_fn() -> AverageAll:
    """Keeps averages in which all weights count the same.

    >>> mean = gt.zeros(2)
    >>> gt.optim.swa_utils.get_swa_multi_avg_fn()([mean], [gt.ones(2)], 1)
    >>> mean
    tensor([0.5000, 0.5000])
    """

    @no_grad()
    def move(averages: list[Tensor], current: list[Tensor], count: Any) -> None:
        share = 1 / (count + 1)
        for average, new in zip(averages, current):
            average.copy_(average + (new - average) * share)

    return move


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """As `get_ema_multi_avg_fn`, for one tensor at a time.

    >>> gt.optim.swa_utils.get_ema_avg_fn(0.75)(gt.zeros(1), gt.ones(1), 1)
    tensor([0.2500])
    """
    _check_decay(decay)

    @no_grad()
    def move(average: Tensor, new: Tensor, _: Any) -> Tensor:
        return average * decay + new * (1 - decay)

    return move


def get_swa_avg_fn() -> Average:
    """As `get_swa_multi_avg_fn`, for one tensor at a time.

    >>> gt.optim.swa_utils.get_swa_avg_fn()(gt.zeros(1), gt.ones(1), 3)
    tensor([0.2500])
    """

    @no_grad()
    def move(average: Tensor, new: Tensor, count: Any) -> Tensor:
        return average + (new - average) / (count + 1)

    return move


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of those it was shown.

    >>> model = gt.nn.Linear(1, 1, bias=False)
    >>> averaged = gt.optim.swa_utils.AveragedModel(model)
    >>> averaged.update_parameters(model)
    >>> int(averaged.n_averaged)
    1
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: AverageAll | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _core.tensor(0, dtype=_core.int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers
        self._count: int | None = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        # Known again when it is first needed.
        self._count = None

    def update_parameters(self, model: Module) -> None:
        """Lets the parameters of a model enter the average; the first are taken as they are."""
        if self._count is None:
            self._count = int(self.n_averaged.item())
        averages, current = self._tensors(self.module), self._tensors(model)
        with no_grad():
            if self._count == 0:
                for average, new in zip(averages, current):
                    average.copy_(new)
            elif self.avg_fn is not None:
                for average, new in zip(averages, current):
                    average.copy_(self.avg_fn(average, new.to(average.device), self._count))
            else:
                move = self.multi_avg_fn or get_swa_multi_avg_fn()
                move(averages, current, self._count)
            if not self.use_buffers:
                for average, new in zip(self.module.buffers(), model.buffers()):
                    average.copy_(new)
            self.n_averaged.add_(1)
        self._count += 1

    def _tensors(self, model: Module) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return [tensor.detach() for tensor in (*model.parameters(), *buffers)]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of every batch norm anew, by one pass over the data.

    >>> model = gt.nn.BatchNorm1d(1)
    >>> gt.optim.swa_utils.update_bn([gt.full((2, 1), 3.0)], model)
    >>> model.running_mean
    tensor([3.])
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    with no_grad():
        for batch in loader:
            if isinstance(batch, (list, tuple)):
                batch = batch[0]
            model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


def _linear(share: float) -> float:
    return share


def _cosine(share: float) -> float:
    return (1 - math.cos(math.pi * share)) / 2


class SWALR(LRScheduler):
    """Anneals the learning rate to `swa_lr` and keeps it there.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = gt.optim.swa_utils.SWALR(opt, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> opt.step(); schedule.step(); schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Any,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        if len(rates) != len(optimizer.param_groups):
            raise ValueError(
                f"swa_lr must have the same length as optimizer.param_groups: "
                f"swa_lr has {len(rates)}, optimizer.param_groups has {len(optimizer.param_groups)}"
            )
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        self._annealing = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        """How far the annealing has come."""
        share = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return _cosine(share) if self._annealing == "cos" else _linear(share)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        epoch = self._step_count - 1
        if self.anneal_epochs == 0:
            epoch = max(1, epoch)
        before, now = self._share(max(0, epoch - 1)), self._share(epoch)
        rates = []
        for group in self.optimizer.param_groups:
            # The rate it started from, as it follows from the one before: other schedulers may have moved it.
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
