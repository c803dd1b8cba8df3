"""Special functions, under the names of `torch.special`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any

from gt import _core, _functions
from gt._core import Tensor
from gt._methods.elementwise import as_float
from gt._methods.elementwise import logit as _logit
from gt._methods.elementwise import polygamma as _polygamma
from gt._methods.elementwise import product_with_log as _product_with_log
from gt._methods.elementwise import sinc as _sinc
from gt._methods.elementwise import xlogy as _xlogy
from gt._missing import names_missing_in
from gt.autograd.function import Function

if _TYPE_CHECKING:
    # Generated from the table of functions by `make generate`.
    digamma = _functions.digamma
    erf = _functions.erf
    erfc = _functions.erfc
    erfinv = _functions.erfinv
    exp2 = _functions.exp2
    expit = _functions.sigmoid
    expm1 = _functions.expm1
    gammaln = _functions.lgamma
    i0 = _functions.i0
    log1p = _functions.log1p
    psi = _functions.digamma

    def i1(input: Tensor, *, out: Any = None) -> Tensor: ...

    # End of what is generated.

__all__ = [
    "entr",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]
__all__ += _functions.of_special
globals().update(_functions.of_special)

logit = _logit
polygamma = _polygamma
sinc = _sinc
xlogy = _xlogy


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


def xlog1py(input: Any, other: Any) -> Tensor:
    """input · log(1 + other), zero where `input` is. A number may stand for one of them.

    >>> gt.special.xlog1py(gt.tensor([0.0, 1.0]), gt.tensor([-1.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    return _product_with_log(input, other, 1)


class _Entropy(Function):
    """Has the slope it has inside at zero and below, too: infinite, and none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        inside = -x * _core.where(x == 0, 1.0, x).log()
        return _core.where(x < 0, -math.inf, inside)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * -(x.log() + 1)


def entr(input: Tensor) -> Tensor:
    """-input · log(input), minus infinity below zero.

    >>> gt.special.entr(gt.tensor([0.0, 1.0, -1.0]))
    tensor([-0., -0., -inf])
    """
    return _Entropy.apply(as_float(input))  # type: ignore[no-any-return]


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


# Cephes' rational functions of 1 / x, with x = sqrt(-2 log p): below x = 8, and from there on.
_TAIL = (
    (4.05544892305962419923, 31.5251094599893866154, 57.1628192246421288162, 44.0805073893200834700,
     14.6849561928858024014, 2.18663306850790267539, -0.140256079171354495875, -0.0350424626827848203418,
     -8.57456785154685413611e-4),
    (1.0, 15.7799883256466749731, 45.3907635128879210584, 41.3172038254672030440, 15.0425385692907503408,
     2.50464946208309415979, -0.142182922854787788574, -0.0380806407691578277194, -9.33259480895457427372e-4),
)  # fmt: skip
_FAR_TAIL = (
    (3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389,
     0.201485389549179081538, 0.0123716634817820021358, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
     6.23974539184983293730e-9),
    (1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 0.216236993594496635890,
     0.0134204006088543189037, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9),
)  # fmt: skip


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


def _tail_bound(p: Tensor) -> Tensor:
    """`ndtri` of probabilities below exp(-2)."""
    x = (-2 * p.log()).sqrt()
    z = x.reciprocal()
    small, large = (z * _polynomial(z, above) / _polynomial(z, below) for above, below in (_TAIL, _FAR_TAIL))
    return x.log() / x - x + _core.where(x < 8, small, large)


def ndtri(input: Tensor) -> Tensor:
    """The number below which a normal variable lies with a given probability: undoes `ndtr`.

    >>> gt.special.ndtri(gt.tensor([0.5]))
    tensor([0.])
    """
    x = as_float(input)
    p = x.double()
    # Near zero 2p - 1 forgets p, and erfinv of it is infinite.
    far = (p > 0) & (p < 0.1)
    middle = (2 * _core.where(far, 0.5, p) - 1).erfinv() * math.sqrt(2)
    return _core.where(far, _tail_bound(_core.where(far, p, 0.1)), middle).to(x.dtype)


def multigammaln(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function in `p` dimensions.

    >>> gt.special.multigammaln(gt.tensor([3.0]), 1)
    tensor([0.6931])
    """
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, got {p}")
    x = as_float(input)
    made = x.lgamma()
    for i in range(1, p):
        made = made + (x - i / 2).lgamma()
    return made + p * (p - 1) / 4 * math.log(math.pi)


__path__: list[str] = []
__getattr__ = names_missing_in("gt.special")
