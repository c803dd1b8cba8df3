"""Dropout. Masks are drawn by the core's counter-based generator: the same seed gives the same masks on any device."""

from __future__ import annotations

import math

from gt import _core
from gt._core import Tensor


def _check(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _dropped(input: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """Zero where a draw of the mask's shape says so, scaled up elsewhere."""
    if p == 1.0:
        return input * 0.0
    keep = _core.rand(shape) >= p
    return _core.where(keep, input * (1.0 / (1.0 - p)), 0.0)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element becomes zero with probability `p`; the others are scaled up so that the mean stays.

    >>> gt.nn.functional.dropout(gt.ones(2), p=0.5, training=False)
    tensor([1., 1.])
    """
    _check(p)
    if not isinstance(input, Tensor):
        raise TypeError(f"dropout(): argument 'input' must be Tensor, not {type(input).__name__}")
    if not training or p == 0.0:
        return input
    out = _dropped(input._before_write() if inplace else input, p, tuple(input.shape))
    return input._write(out) if inplace else out


def _feature_dropout(
    name: str, ranks: tuple[int, int], input: Tensor, p: float, training: bool, inplace: bool
) -> Tensor:
    """Whole channels; `ranks` are those of an input without and with a batch."""
    _check(p)
    if input.dim() not in ranks:
        raise RuntimeError(
            f"{name}: Expected {ranks[0]}D or {ranks[1]}D input, but received a {input.dim()}D input "
            f"of shape {tuple(input.shape)}"
        )
    if not training or p == 0.0:
        return input
    leading = 2 if input.dim() == ranks[1] else 1
    shape = (*input.shape[:leading], *([1] * (input.dim() - leading)))
    out = _dropped(input._before_write() if inplace else input, p, shape)
    return input._write(out) if inplace else out


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, L) or (C, L).

    >>> gt.nn.functional.dropout1d(gt.ones(1, 2, 3), training=False).sum().item()
    6.0
    """
    return _feature_dropout("dropout1d", (2, 3), input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, H, W) or (C, H, W).

    >>> gt.nn.functional.dropout2d(gt.ones(1, 2, 3, 1), training=False).sum().item()
    6.0
    """
    return _feature_dropout("dropout2d", (3, 4), input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.functional.dropout3d(gt.ones(1, 2, 3, 1, 1), training=False).sum().item()
    6.0
    """
    return _feature_dropout("dropout3d", (4, 5), input, p, training, inplace)


# What SELU gives for minus infinity.
_SATURATION = -1.7580993408473766


def _alpha_dropped(input: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """Drops to SELU's saturation value and corrects scale and shift, so that mean and variance stay."""
    if p == 1.0:
        return input * 0.0
    keep = _core.rand(shape) >= p
    scale = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * _SATURATION**2))
    return _core.where(keep, input, _SATURATION) * scale - scale * p * _SATURATION


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean 0 and variance 1, for networks with SELU.

    >>> gt.nn.functional.alpha_dropout(gt.ones(2))
    tensor([1., 1.])
    """
    _check(p)
    if not training or p == 0.0:
        return input
    out = _alpha_dropped(input, p, tuple(input.shape))
    return input._write(out) if inplace else out


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Alpha dropout of whole channels.

    >>> gt.nn.functional.feature_alpha_dropout(gt.ones(1, 2))
    tensor([[1., 1.]])
    """
    _check(p)
    if not training or p == 0.0:
        return input
    out = _alpha_dropped(input, p, (*input.shape[:2], *([1] * (input.dim() - 2))))
    return input._write(out) if inplace else out
