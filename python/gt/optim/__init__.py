"""Optimizers, and schedules for their learning rates.

>>> x = gt.tensor([2.0], requires_grad=True)
>>> opt = gt.optim.SGD([x], lr=0.25)
>>> for _ in range(3):
...     opt.zero_grad()
...     x.square().sum().backward()
...     opt.step()
>>> x.detach()
tensor([0.2500])
"""

from typing import Any

from gt._missing import missing
from gt.optim import lr_scheduler
from gt.optim.adadelta import Adadelta
from gt.optim.adagrad import Adagrad
from gt.optim.adam import Adam
from gt.optim.adamax import Adamax
from gt.optim.adamw import AdamW
from gt.optim.asgd import ASGD
from gt.optim.lbfgs import LBFGS
from gt.optim.nadam import NAdam
from gt.optim.optimizer import Optimizer
from gt.optim.radam import RAdam
from gt.optim.rmsprop import RMSprop
from gt.optim.rprop import Rprop
from gt.optim.sgd import SGD

__all__ = [
    "ASGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "lr_scheduler",
]


def __getattr__(name: str) -> Any:
    # Averaging needs modules, which an optimizer alone does not.
    if name == "swa_utils":
        from importlib import import_module

        return import_module("gt.optim.swa_utils")
    raise missing("gt.optim", name)
