"""Special functions, under the names of `torch.special`."""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods.elementwise import as_float
from gt._methods.elementwise import erfinv as _erfinv
from gt._methods.elementwise import logit as _logit
from gt._methods.elementwise import sinc as _sinc
from gt._methods.elementwise import xlogy as _xlogy
from gt._methods.gamma import digamma as _digamma
from gt._methods.gamma import lgamma as _lgamma

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]

digamma = _digamma
psi = _digamma
gammaln = _lgamma
erfinv = _erfinv
logit = _logit
sinc = _sinc
xlogy = _xlogy


def erf(input: Tensor) -> Tensor:
    """The error function.

    >>> gt.special.erf(gt.tensor([0.5]))
    tensor([0.5205])
    """
    return input.erf()


def erfc(input: Tensor) -> Tensor:
    """1 - erf(input).

    >>> gt.special.erfc(gt.tensor([0.5]))
    tensor([0.4795])
    """
    return input.erfc()


def exp2(input: Tensor) -> Tensor:
    """2 to the power of each element.

    >>> gt.special.exp2(gt.tensor([3.0]))
    tensor([8.])
    """
    return input.exp2()


def expit(input: Tensor) -> Tensor:
    """As `gt.sigmoid`.

    >>> gt.special.expit(gt.tensor([0.0]))
    tensor([0.5000])
    """
    return input.sigmoid()


def expm1(input: Tensor) -> Tensor:
    """exp(input) - 1, exact near zero.

    >>> gt.special.expm1(gt.tensor([1.0]))
    tensor([1.7183])
    """
    return input.expm1()


def log1p(input: Tensor) -> Tensor:
    """log(1 + input), exact near zero.

    >>> gt.special.log1p(gt.tensor([1.0]))
    tensor([0.6931])
    """
    return input.log1p()


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounded to the nearest, halves to even.

    >>> gt.special.round(gt.tensor([0.5, 1.7]))
    tensor([0., 2.])
    """
    return input.round(decimals=decimals)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """As `gt.softmax`.

    >>> gt.special.softmax(gt.zeros(2), 0)
    tensor([0.5000, 0.5000])
    """
    return input.softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """As `gt.log_softmax`.

    >>> gt.special.log_softmax(gt.zeros(2), 0)
    tensor([-0.6931, -0.6931])
    """
    return input.log_softmax(dim, dtype=dtype)


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """As `gt.logsumexp`.

    >>> gt.special.logsumexp(gt.zeros(2), 0)
    tensor(0.6931)
    """
    return input.logsumexp(dim, keepdim=keepdim)


def xlog1py(input: Tensor, other: Any) -> Tensor:
    """input · log(1 + other), zero where `input` is.

    >>> gt.special.xlog1py(gt.tensor([0.0, 1.0]), gt.tensor([-1.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    other = _core.as_tensor(other)
    senseless = (input == 0) & ((other <= -1) | other.isinf())
    made: Tensor = as_float(input) * _core.where(senseless, 0.0, as_float(other)).log1p()
    return made


def entr(input: Tensor) -> Tensor:
    """-input · log(input), minus infinity below zero.

    >>> gt.special.entr(gt.tensor([0.0, 1.0, -1.0]))
    tensor([-0., -0., -inf])
    """
    x = as_float(input)
    inside = -x * _core.where(x > 0, x, 1.0).log()
    return _core.where(x < 0, -math.inf, inside)


def ndtr(input: Tensor) -> Tensor:
    """The share of a standard normal distribution that lies below.

    >>> gt.special.ndtr(gt.tensor([0.0]))
    tensor([0.5000])
    """
    return 0.5 * (as_float(input) * -math.sqrt(0.5)).erfc()


def log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of `ndtr`, also where that is too small for a float.

    >>> gt.special.log_ndtr(gt.tensor([-50.0]))
    tensor([-1254.8314])
    """
    x = as_float(input)
    far = x < -5
    near = ndtr(_core.where(far, 0.0, x)).log()
    # Mills' ratio as a continued fraction.
    y = -_core.where(far, x, -6.0)
    ratio = y
    for k in range(20, 0, -1):
        ratio = y + k / ratio
    return _core.where(far, -0.5 * y * y - 0.5 * math.log(2 * math.pi) - ratio.log(), near)


def ndtri(input: Tensor) -> Tensor:
    """The number below which a normal variable lies with a given probability: undoes `ndtr`.

    >>> gt.special.ndtri(gt.tensor([0.5]))
    tensor([0.])
    """
    x = as_float(input)
    return (_erfinv(2 * x.double() - 1) * math.sqrt(2)).to(x.dtype)


def multigammaln(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function in `p` dimensions.

    >>> gt.special.multigammaln(gt.tensor([3.0]), 1)
    tensor([0.6931])
    """
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, got {p}")
    x = as_float(input)
    made = _lgamma(x)
    for i in range(1, p):
        made = made + _lgamma(x - i / 2)
    return made + p * (p - 1) / 4 * math.log(math.pi)
