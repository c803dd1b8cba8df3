"""Windows for signals."""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods._registry import function


def _window(length: int, periodic: bool, terms: tuple[float, ...], dtype: Any) -> Tensor:
    """A sum of cosines over a window; a periodic one is a symmetric one of one more point without its last."""
    if length < 0:
        raise RuntimeError(f"window_length must not be negative, got {length}")
    dtype = _core.get_default_dtype() if dtype is None else dtype
    if length <= 1:
        return _core.ones(length, dtype=dtype)
    turn = _core.arange(length, dtype=_core.float64) * (2 * math.pi / (length if periodic else length - 1))
    made = turn * 0 + terms[0]
    for i, weight in enumerate(terms[1:], 1):
        made = made + (turn * i).cos() * weight
    return made.to(dtype)


@function
def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Hann's window.

    >>> gt.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(window_length, periodic, (0.5, -0.5), dtype)


@function
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Hamming's window.

    >>> gt.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _window(window_length, periodic, (alpha, -beta), dtype)


@function
def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Blackman's window.

    >>> gt.blackman_window(4).clamp(min=0)
    tensor([0.0000, 0.3400, 1.0000, 0.3400])
    """
    return _window(window_length, periodic, (0.42, -0.5, 0.08), dtype)


@function
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Bartlett's window: a triangle.

    >>> gt.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    if window_length <= 1:
        return _window(window_length, periodic, (1.0,), dtype)
    span = window_length if periodic else window_length - 1
    made = 1 - (_core.arange(window_length, dtype=_core.float64) * (2 / span) - 1).abs()
    return made.to(_core.get_default_dtype() if dtype is None else dtype)
