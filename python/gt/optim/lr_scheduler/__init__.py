"""Schedules for the learning rates of an optimizer: step the optimizer, then the schedule."""

from gt._missing import names_missing_in
from gt.optim.lr_scheduler.base import LRScheduler
from gt.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from gt.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from gt.optim.lr_scheduler.decay import ConstantLR, ExponentialLR, LinearLR, MultiStepLR, PolynomialLR, StepLR
from gt.optim.lr_scheduler.functions import LambdaLR, MultiplicativeLR
from gt.optim.lr_scheduler.joined import ChainedScheduler, SequentialLR
from gt.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


__getattr__ = names_missing_in("gt.optim.lr_scheduler")
