"""What losses do with the loss of every element."""

from __future__ import annotations

import warnings

from gt import _core
from gt._core import Tensor
from gt._methods.joining import broadcast_tensors


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean, the sum, or the losses themselves."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def legacy(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The reduction that PyTorch's old arguments ask for."""
    if size_average is None and reduce is None:
        return reduction
    chosen = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction={chosen!r} instead.", stacklevel=3
    )
    return chosen


def truths_as_numbers(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Where one of the two is bool, both in the dtype of the other."""
    if input.dtype == target.dtype:
        return input, target
    if target.dtype == _core.bool:
        return input, target.to(input.dtype)
    return (input.to(target.dtype) if input.dtype == _core.bool else input), target


def same_shape(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both broadcast to one shape; a warning where that is probably not meant."""
    if input.shape != target.shape:
        warnings.warn(
            f"{name}: using a target size ({tuple(target.shape)}) that is different to the input size "
            f"({tuple(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )
        made = broadcast_tensors(input, target)
        return made[0], made[1]
    return input, target
