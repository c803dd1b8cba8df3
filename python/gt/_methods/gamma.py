"""The gamma function's logarithm and its derivative."""

from __future__ import annotations

import math

from gt import _core
from gt._core import Tensor
from gt._methods._registry import in_place, method
from gt._methods.elementwise import as_float

# Lanczos' approximation for g = 7, with nine terms.
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)  # fmt: skip
# Coefficients of x^-2, x^-4, … in digamma's expansion for large x.
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
# From here on the expansion is exact to the last bit.
_LARGE = 6


def _lgamma_above(x: Tensor) -> Tensor:
    """For x >= 1/2."""
    x = x - 1
    series = _LANCZOS[0] + _LANCZOS[1] / (x + 1)
    for i, c in enumerate(_LANCZOS[2:], 2):
        series = series + c / (x + i)
    t = x + 7.5
    made: Tensor = 0.5 * math.log(2 * math.pi) + (x + 0.5) * t.log() - t + series.log()
    return made


@method
def lgamma(input: Tensor) -> Tensor:
    """The logarithm of the magnitude of the gamma function.

    >>> gt.lgamma(gt.tensor([1.0, 4.0]))
    tensor([0.0000, 1.7918])
    """
    dtype = as_float(input).dtype
    x = input.double()
    low = x < 0.5
    pole = (x <= 0) & (x == x.floor())
    above = _lgamma_above(_core.where(low, 1 - x, x).clamp(max=1e300))
    # Γ(x) Γ(1 - x) = π / sin(πx); whole turns are taken off first, for they cost digits.
    angle = _core.where(low & ~pole, x - x.detach().floor(), 0.5) * math.pi
    made = _core.where(low, math.log(math.pi) - angle.sin().log() - above, above)
    # Exact where the value is zero: rounding would be all that is seen.
    made = made - _core.where((x == 1) | (x == 2), made.detach(), 0.0)
    made = _core.where(pole | x.isinf(), math.inf, made)
    return _core.where(x.isnan(), math.nan, made).to(dtype)


@method
def digamma(input: Tensor) -> Tensor:
    """The derivative of `lgamma`.

    >>> gt.digamma(gt.tensor([1.0]))
    tensor([-0.5772])
    """
    dtype = as_float(input).dtype
    x = input.double()
    low = x < 0.5
    pole = (x <= 0) & (x == x.floor())
    y = _core.where(low, 1 - x, x)
    shift = _core.zeros_like(y)
    for _ in range(_LARGE):
        small = y < _LARGE
        shift = shift - _core.where(small, 1 / _core.where(small, y, 1.0), 0.0)
        y = _core.where(small, y + 1, y)
    inverse = (1 / y).square()
    tail = inverse * 0
    for c in reversed(_DIGAMMA):
        tail = (tail + c) * inverse
    made = shift + y.log() - 0.5 / y + tail
    angle = _core.where(low & ~pole, x - x.detach().floor(), 0.25) * math.pi
    made = _core.where(low, made - math.pi / angle.tan(), made)
    made = _core.where(pole, math.nan, made)
    return _core.where(x == 0, -math.inf * x.reciprocal().sign(), made).to(dtype)


for _name in ("lgamma", "digamma"):
    in_place(_name)
