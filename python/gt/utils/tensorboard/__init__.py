"""Logs for TensorBoard, without its package: scalars, histograms, texts, pictures and hyperparameters."""

from gt.utils.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
