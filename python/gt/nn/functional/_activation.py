"""Activations, element by element unless they say otherwise.

ACTIVATION-1: a branch that is not taken is given a harmless argument before the function is applied: otherwise its
gradient would be infinity times zero.
ACTIVATION-2: where an activation has a corner, the gradient there is PyTorch's; so it is where the input is NaN, which is
why conditions ask for what is cut off and not for what is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from gt import _core
from gt._core import Tensor
from gt.nn.functional._layer_norm import _HALVES

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def _source(input: Tensor, inplace: bool) -> Tensor:
    """What to compute from: if the input will be overwritten, what it was before, which the backward pass may keep."""
    return input._before_write() if inplace else input


def _floats_only(name: str, input: Tensor) -> None:
    """Refuses integers and bools, as PyTorch does: a result in another dtype than the input's would surprise."""
    if not Tensor.is_floating_point(input):
        raise NotImplementedError(f"{name} is not defined on {input.dtype}: convert the input first, x.float()")


def _placed(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    return input._write(out) if inplace else out


# Called as functions, so that what is not a tensor is a TypeError.
_relu, _relu_ = Tensor.relu, Tensor.relu_


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    >>> gt.nn.functional.relu(gt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _relu_(input) if inplace else _relu(input)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place.

    >>> gt.nn.functional.relu_(gt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _relu_(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Kept between two bounds; no gradient flows at or beyond them.

    >>> gt.nn.functional.hardtanh(gt.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if not input.is_floating_point():
        if input.dtype == _core.bool:
            raise NotImplementedError("Bool inputs not supported for hardtanh")
        min_val, max_val = int(min_val), int(max_val)
    x = _source(input, inplace)
    outside = (x <= min_val) | (x >= max_val)
    return _placed(input, _core.where(outside, x.detach().clamp(min_val, max_val), x), inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).

    >>> gt.nn.functional.relu6(gt.tensor([-1.0, 9.0]))
    tensor([0., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above zero, `negative_slope` times x below.

    >>> gt.nn.functional.leaky_relu(gt.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5000,  2.0000])
    """
    _floats_only("leaky_relu", input)
    x = _source(input, inplace)
    return _placed(input, _core.where(x > 0, x, x * negative_slope), inplace)


def _bent(x: Tensor) -> Tensor:
    """exp(x) - 1 of what is not above zero. Its slope is exp(x) and not the result plus 1, which is 0 far below zero."""
    if not x.requires_grad:
        return x.expm1()
    slope = x.exp()
    return x.detach().expm1() + (slope - slope.detach())


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha · (exp(x) - 1) below.

    >>> gt.nn.functional.elu(gt.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    _floats_only("elu", input)
    if input.dtype in _HALVES:
        return _placed(input, elu(_source(input, inplace).float(), alpha).to(input.dtype), inplace)
    x = _source(input, inplace)
    below = x <= 0
    return _placed(input, _core.where(below, _bent(_core.where(below, x, 0.0)) * alpha, x), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """ELU scaled so that it keeps mean 0 and variance 1.

    >>> gt.nn.functional.selu(gt.tensor([1.0]))
    tensor([1.0507])
    """
    _floats_only("selu", input)
    if input.dtype in _HALVES:
        return _placed(input, selu(_source(input, inplace).float()).to(input.dtype), inplace)
    return _placed(input, elu(_source(input, inplace), _SELU_ALPHA) * _SELU_SCALE, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha · (exp(x / alpha) - 1) below.

    >>> gt.nn.functional.celu(gt.tensor([0.0, 2.0]), alpha=2.0)
    tensor([0., 2.])
    """
    _floats_only("celu", input)
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    if input.dtype in _HALVES:
        return _placed(input, celu(_source(input, inplace).float(), alpha).to(input.dtype), inplace)
    x = _source(input, inplace)
    below = x <= 0
    scaled = _core.where(below, x, 0.0) / alpha
    bent = (_bent(scaled) if alpha > 0 else scaled.expm1()) * alpha
    return _placed(input, _core.where(below, bent, x), inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; `approximate="tanh"` computes it by a formula with tanh.

    >>> gt.nn.functional.gelu(gt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """
    _floats_only("gelu", input)
    return input.gelu(approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x · sigmoid(x).

    >>> gt.nn.functional.silu(gt.tensor([1.0]))
    tensor([0.7311])
    """
    _floats_only("silu", input)
    return input.silu_() if inplace else input.silu()


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta · x)) / beta; x itself where beta · x is above the threshold.

    >>> gt.nn.functional.softplus(gt.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """
    _floats_only("softplus", input)
    if input.dtype in _HALVES:
        # float16 has no number for exp(12).
        return softplus(input.float(), beta, threshold).to(input.dtype)
    scaled = input * beta
    far = scaled > threshold
    return _core.where(far, input, _core.where(far, 0.0, scaled).exp().log1p() / beta)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · tanh(softplus(x)).

    >>> gt.nn.functional.mish(gt.tensor([1.0]))
    tensor([0.8651])
    """
    _floats_only("mish", input)
    if input.dtype in _HALVES:
        return _placed(input, mish(_source(input, inplace).float()).to(input.dtype), inplace)
    x = _source(input, inplace)
    return _placed(input, x * softplus(x).tanh(), inplace)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> gt.nn.functional.softsign(gt.tensor([1.0, -3.0]))
    tensor([ 0.5000, -0.7500])
    """
    return input / (input.abs() + 1)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2, kept between 0 and 1.

    >>> gt.nn.functional.hardsigmoid(gt.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    _floats_only("hardsigmoid", input)
    return _placed(input, (_source(input, inplace) + 3).clamp(0.0, 6.0) / 6, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · hardsigmoid(x).

    >>> gt.nn.functional.hardswish(gt.tensor([-4.0, 3.0]))
    tensor([0., 3.])
    """
    _floats_only("hardswish", input)
    x = _source(input, inplace)
    inside = (x > -3) & (x < 3)
    near = _core.where(inside, x, 0.0)
    return _placed(input, _core.where(inside, near * (near + 3) / 6, _core.where(x <= -3, 0.0, x)), inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, but zero within ±lambd.

    >>> gt.nn.functional.hardshrink(gt.tensor([0.25, 2.0]))
    tensor([0., 2.])
    """
    _floats_only("hardshrink", input)
    return _core.where((input >= -lambd) & (input <= lambd), 0.0, input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards zero by lambd, and zero within ±lambd.

    >>> gt.nn.functional.softshrink(gt.tensor([0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """
    _floats_only("softshrink", input)
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    inside = (input >= -lambd) & (input <= lambd)
    return _core.where(inside, 0.0, input - input.detach().sign() * lambd)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    >>> gt.nn.functional.tanhshrink(gt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return input - input.tanh()


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above a threshold, `value` elsewhere.

    >>> gt.nn.functional.threshold(gt.tensor([1.0, 3.0]), 2.0, 9.0)
    tensor([9., 3.])
    """
    if not input.is_floating_point():
        threshold, value = int(threshold), int(value)
    x = _source(input, inplace)
    return _placed(input, _core.where(x <= threshold, value, x), inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x above zero, weight · x below; one weight, or one for every channel.

    >>> gt.nn.functional.prelu(gt.tensor([[-2.0, 3.0]]), gt.tensor([0.5]))
    tensor([[-1.,  3.]])
    """
    _floats_only("prelu", input)
    if weight.dim() > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if weight.numel() != 1:
        channels = input.shape[1] if input.dim() > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
                f"and channel size = {channels}: input shape {tuple(input.shape)}, weight shape {tuple(weight.shape)}."
            )
        weight = weight.reshape(-1, *([1] * (input.dim() - 2)))
    elif weight.dim() > input.dim():
        weight = weight.reshape(())
    above = input > 0
    return _core.where(above, input, _core.where(above, 0.0, input) * weight)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Leaky ReLU with a random slope for every element in training, and their mean otherwise.

    >>> gt.nn.functional.rrelu(gt.tensor([-48.0, 3.0]))
    tensor([-11.,   3.])
    """
    _floats_only("rrelu", input)
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    slope: Tensor | float = (lower + upper) / 2
    if training:
        slope = _core.rand(input.shape, dtype=input.dtype) * (upper - lower) + lower
    x = _source(input, inplace)
    return _placed(input, _core.where(x > 0, x, x * slope), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half times the sigmoid of the second.

    >>> gt.nn.functional.glu(gt.tensor([4.0, 0.0]))
    tensor([2.])
    """
    _floats_only("glu", input)
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]} of shape {tuple(input.shape)}"
        )
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow.

    >>> gt.nn.functional.logsigmoid(gt.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.0000])
    """
    _floats_only("logsigmoid", input)
    if input.dtype in _HALVES:
        return logsigmoid(input.float()).to(input.dtype)
    # exp(60) is far inside the range of float32, and log(1 + exp(60)) is 60 in float64.
    return -softplus(-input, 1.0, 60.0)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent.

    >>> gt.nn.functional.tanh(gt.tensor([0.0]))
    tensor([0.])
    """
    return Tensor.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)).

    >>> gt.nn.functional.sigmoid(gt.tensor([0.0]))
    tensor([0.5000])
    """
    return Tensor.sigmoid(input)


def _in_place(of: Callable[..., Tensor], *needed: float) -> Callable[..., Tensor]:
    """The form whose name ends in an underscore; `needed` are arguments for its example."""

    def write(input: Tensor, *args: float, **kwargs: float) -> Tensor:
        return of(input, *args, inplace=True, **kwargs)

    write.__name__ = write.__qualname__ = of.__name__ + "_"
    arguments = "".join(f", {number}" for number in needed)
    write.__doc__ = f"""`{of.__name__}` in place.

    >>> x = gt.tensor([-1.0, 2.0])
    >>> gt.nn.functional.{of.__name__}_(x{arguments}) is x
    True
    """
    return write


hardtanh_ = _in_place(hardtanh)
leaky_relu_ = _in_place(leaky_relu)
elu_ = _in_place(elu)
selu_ = _in_place(selu)
celu_ = _in_place(celu)
threshold_ = _in_place(threshold, 0.0, 0.5)
rrelu_ = _in_place(rrelu)
