"""The gamma function's logarithm and its derivatives.

GAMMA-1: each is the slope of the one before, and says so itself: differentiating an approximation would give nothing of use
at the poles.
"""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods._registry import in_place, method
from gt._methods.elementwise import as_float
from gt.autograd.function import Function

# Lanczos' approximation for g = 7, with nine terms.
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)  # fmt: skip
# Coefficients of x^-2, x^-4, … in digamma's expansion for large x.
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
# Coefficients of x^-3, x^-5, … in trigamma's.
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
# From here on the expansions are exact to the last bit.
_LARGE = 6


def _angle(x: Tensor) -> Tensor:
    """πx without its half turns, which cost digits."""
    made: Tensor = (x - x.round()) * math.pi
    return made


def _lgamma_above(x: Tensor) -> Tensor:
    """For x >= 1/2."""
    x = x - 1
    series = _LANCZOS[0] + _LANCZOS[1] / (x + 1)
    for i, c in enumerate(_LANCZOS[2:], 2):
        series = series + c / (x + i)
    t = x + 7.5
    made: Tensor = 0.5 * math.log(2 * math.pi) + (x + 0.5) * t.log() - t + series.log()
    return made


def _lgamma(x: Tensor) -> Tensor:
    low = x < 0.5
    above = _lgamma_above(_core.where(low, 1 - x, x).clamp(max=1e300))
    # Γ(x) Γ(1 - x) = π / sin(πx), also at the poles.
    made = _core.where(low, math.log(math.pi) - _angle(x).sin().abs().log() - above, above)
    # Exact where the value is zero: rounding would be all that is seen.
    made = _core.where((x == 1) | (x == 2), 0.0, made)
    return _core.where(x.isinf(), math.inf, made)


def _digamma(x: Tensor) -> Tensor:
    low = x < 0.5
    y = _core.where(low, 1 - x, x)
    made = _core.zeros_like(y)
    for _ in range(_LARGE):
        small = y < _LARGE
        made = made - _core.where(small, 1 / y, 0.0)
        y = _core.where(small, y + 1, y)
    inverse = (1 / y).square()
    tail = inverse * 0
    for c in reversed(_DIGAMMA):
        tail = (tail + c) * inverse
    made = made + y.log() - 0.5 / y + tail
    made = _core.where(low, made - math.pi / _angle(x).tan(), made)
    made = _core.where((x < 0) & (x == x.floor()), math.nan, made)
    return _core.where(x == 0, -x.reciprocal(), made)


def _trigamma(x: Tensor) -> Tensor:
    low = x < 0.5
    y = _core.where(low, 1 - x, x)
    made = _core.zeros_like(y)
    for _ in range(_LARGE):
        small = y < _LARGE
        made = made + _core.where(small, (1 / y).square(), 0.0)
        y = _core.where(small, y + 1, y)
    inverse = 1 / y
    tail = inverse * 0
    for c in reversed(_TRIGAMMA):
        tail = (tail + c) * inverse.square()
    made = made + inverse * (1 + inverse / 2 + tail)
    return _core.where(low, (math.pi / _angle(x).sin()).square() - made, made)


class _LogGamma(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _lgamma(x.double()).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * digamma(x)


class _Digamma(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _digamma(x.double()).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * _trigamma(x.double()).to(x.dtype)


@method
def lgamma(input: Tensor) -> Tensor:
    """The logarithm of the magnitude of the gamma function.

    >>> gt.lgamma(gt.tensor([1.0, 4.0]))
    tensor([0.0000, 1.7918])
    """
    return _LogGamma.apply(as_float(input))  # type: ignore[no-any-return]


@method
def digamma(input: Tensor) -> Tensor:
    """The derivative of `lgamma`.

    >>> gt.digamma(gt.tensor([1.0]))
    tensor([-0.5772])
    """
    return _Digamma.apply(as_float(input))  # type: ignore[no-any-return]


for _name in ("lgamma", "digamma"):
    in_place(_name)
