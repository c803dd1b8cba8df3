"""Element by element: logic, safe logarithms, signs, angles, and what else primitives compose to.

ELEMENTWISE-1: where a formula has no value at some elements, those are replaced before it is applied and not after:
otherwise their gradient would be NaN times zero.
"""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods._registry import function, in_place, method, method_only, of_tensors, of_two_tensors
from gt._methods.joining import broadcast_shapes
from gt.autograd.function import Function


def as_operand(value: Any, like: Tensor) -> Tensor:
    """A number as a 0-d tensor that does not change the dtype of `like`, unless it must (a float beside integers)."""
    if isinstance(value, Tensor):
        return value
    if like.dtype.is_floating_point and not isinstance(value, complex):
        return _core.tensor(value, dtype=like.dtype)
    return _core.tensor(value)


def truth(value: Any) -> Any:
    """Whether each element is not zero."""
    if not isinstance(value, Tensor):
        return bool(value)
    return value if value.dtype == _core.bool else value != 0


def promoted(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Both tensors in the dtype they have together."""
    dtype = _core.result_type(input, other)
    return input.to(dtype), other.to(dtype)


def _promoted_floats(name: str, input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    input, other = promoted(input, other)
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"{name} is not implemented for {input.dtype}")
    return input, other


def as_float(input: Tensor) -> Tensor:
    """Floats as they are, all else as the default dtype."""
    return input if input.dtype.is_floating_point else input.to(_core.get_default_dtype())


@method
@of_two_tensors
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Whether both elements are not zero.

    >>> gt.logical_and(gt.tensor([1, 0]), gt.tensor([2, 2]))
    tensor([ True, False])
    """
    return truth(input) & truth(other)  # type: ignore[no-any-return]


@method
@of_two_tensors
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """Whether one of the elements, or both, are not zero.

    >>> gt.logical_or(gt.tensor([1, 0]), gt.tensor([0, 0]))
    tensor([ True, False])
    """
    return truth(input) | truth(other)  # type: ignore[no-any-return]


@method
@of_two_tensors
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """Whether exactly one of the elements is not zero.

    >>> gt.logical_xor(gt.tensor([1, 1]), gt.tensor([0, 1]))
    tensor([ True, False])
    """
    return truth(input) ^ truth(other)  # type: ignore[no-any-return]


def _gap(input: Tensor, other: Tensor) -> Tensor:
    """Minus the distance of two numbers, zero for equal infinities."""
    same = (input == other) & input.isinf()
    return -(_core.where(same, 0.0, input) - _core.where(same, 0.0, other)).abs()


@method
@of_two_tensors
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)) without overflow.

    >>> gt.logaddexp(gt.tensor([1000.0]), gt.tensor([1000.0]))
    tensor([1000.6932])
    """
    input, other = _promoted_floats("logaddexp", input, other)
    return input.maximum(other) + _gap(input, other).exp().log1p()


@method
@of_two_tensors
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2**input + 2**other) without overflow.

    >>> gt.logaddexp2(gt.tensor([3.0]), gt.tensor([3.0]))
    tensor([4.])
    """
    input, other = _promoted_floats("logaddexp2", input, other)
    return input.maximum(other) + _gap(input, other).exp2().log1p() / math.log(2)


@method
@of_two_tensors
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """The length of the hypotenuse over two legs, without overflow on the way.

    >>> gt.hypot(gt.tensor([3.0]), gt.tensor([4.0]))
    tensor([5.])
    """
    input, other = _promoted_floats("hypot", input, other)
    scale = input.detach().abs().maximum(other.detach().abs())
    scale = _core.where((scale == 0) | scale.isinf(), 1.0, scale)
    length = ((input / scale).square() + (other / scale).square()).sqrt() * scale
    # An infinite leg is longer than any number, also than one that is not known.
    return _core.where(input.isinf() | other.isinf(), math.inf, length)


@method
def signbit(input: Tensor) -> Tensor:
    """Whether the sign bit is set: below zero, or minus zero.

    >>> gt.signbit(gt.tensor([-1.0, -0.0, 0.0]))
    tensor([ True,  True, False])
    """
    if not input.dtype.is_floating_point:
        return input < 0
    return (input < 0) | ((input == 0) & (input.reciprocal() < 0))


@method
@of_tensors("input")
def copysign(input: Tensor, other: Any) -> Tensor:
    """The magnitude of `input` with the sign of `other`.

    >>> gt.copysign(gt.tensor([1.0, -2.0]), gt.tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """
    if isinstance(other, Tensor):
        input = input.to(_core.result_type(input, other))
    input = as_float(input)
    negative: Any = signbit(other) if isinstance(other, Tensor) else math.copysign(1.0, other) < 0
    if isinstance(negative, bool):
        return -input.abs() if negative else input.abs()
    made: Tensor = _core.where(negative, -input.abs(), input.abs())
    # The sign has a slope of zero wherever it has one.
    if not made.requires_grad:
        return _core.with_zero_gradient(made, "Copysign", [other])
    if not other.requires_grad:
        return made
    zero = _core.with_zero_gradient(_core.zeros((), dtype=made.dtype), "Copysign", [other])
    return _core.where(_core.ones((), dtype=_core.bool), made, zero)


@method
@of_tensors("input", "values")
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, `values` at zero.

    >>> gt.heaviside(gt.tensor([-1.0, 0.0, 2.0]), gt.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if input.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return _core.with_zero_gradient(_core.where(input == 0, values, (input > 0).to(input.dtype)), "Heaviside", [input])


@method
def frac(input: Tensor) -> Tensor:
    """The part behind the point, with the sign of the number.

    >>> gt.frac(gt.tensor([1.25, -2.5]))
    tensor([ 0.2500, -0.5000])
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"frac is not implemented for {input.dtype}")
    return input - input.trunc()


@method
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians.

    >>> gt.deg2rad(gt.tensor([180.0]))
    tensor([3.1416])
    """
    return input * (math.pi / 180)


@method
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees.

    >>> gt.rad2deg(gt.tensor([gt.pi]))
    tensor([180.])
    """
    return input * (180 / math.pi)


@method
def sinc(input: Tensor) -> Tensor:
    """sin(πx) / (πx), 1 at zero.

    >>> gt.sinc(gt.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    input = as_float(input)
    # A rounded π would leave its mark on the zeros of the sine.
    wide = input.float() if input.dtype.itemsize < 4 else input
    angle = wide * math.pi
    # Near zero the slope of the quotient is the difference of two large numbers; there is a series.
    near = angle.abs() < 0.05
    square = _core.where(near, angle, 0.0).square()
    series = 1 - square * (1 / 6 - square * (1 / 120 - square / 5040))
    angle = _core.where(near, 1.0, angle)
    return _core.where(near, series, angle.sin() / angle).to(input.dtype)


@method
def positive(input: Tensor) -> Tensor:
    """The tensor itself.

    >>> gt.positive(gt.tensor([-1]))
    tensor([-1])
    """
    if input.dtype == _core.bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@method
def sgn(input: Tensor) -> Tensor:
    """-1, 0 or 1, as the sign says.

    >>> gt.sgn(gt.tensor([-3.0, 0.0]))
    tensor([-1.,  0.])
    """
    return input.sign()


@method
def float_power(input: Any, exponent: Any) -> Tensor:
    """The power, computed in float64. A number may be first.

    >>> gt.float_power(gt.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=gt.float64)
    """
    if isinstance(exponent, Tensor):
        exponent = exponent.double()
    base: Any = input.double() if isinstance(input, Tensor) else float(input)
    return base**exponent  # type: ignore[no-any-return]


@method_only
def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """As `float_power`, and writes the result to the tensor itself, which must be of float64.

    >>> gt.tensor([3.0], dtype=gt.float64).float_power_(2)
    tensor([9.], dtype=gt.float64)
    """
    if self.dtype != _core.float64:
        raise RuntimeError(f"float_power_() computes in float64, which does not fit a tensor of {self.dtype}")
    return self._write(float_power(self._before_write(), exponent))


class ProductWithLog(Function):
    """input · log(other + shift), zero where `input` is; of two tensors of one shape."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, other: Tensor, shift: int) -> Tensor:
        ctx.save_for_backward(input, other)
        ctx.shift = shift
        log = other.log1p() if shift else other.log()
        return _core.where((input == 0) & ~other.isnan(), 0.0, input * log)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        input, other = ctx.saved_tensors
        (grad,) = grad_outputs
        of_input = of_other = None
        if ctx.needs_input_grad[0]:
            log = other.log1p() if ctx.shift else other.log()
            of_input = grad * _core.where((input == 0) & (other <= -ctx.shift), 0.0, log)
        if ctx.needs_input_grad[1]:
            # Adding nothing would take the sign off a zero.
            of_other = grad * input / (other + ctx.shift if ctx.shift else other)
        return of_input, of_other, None


def product_with_log(input: Any, other: Any, shift: int) -> Tensor:
    """What `xlogy` and `xlog1py` are; one of the two may be a number."""
    if isinstance(input, Tensor):
        other = as_operand(other, input)
    elif not isinstance(other, Tensor):
        raise TypeError(f"one of the factors must be Tensor, got {type(input).__name__} and {type(other).__name__}")
    else:
        input = as_operand(input, other)
    dtype = _core.result_type(input, other)
    # Straight to floats: a 0-d operand may not fit the integers they have together.
    dtype = dtype if dtype.is_floating_point else _core.get_default_dtype()
    input, other = input.to(dtype), other.to(dtype)
    shape = broadcast_shapes(input.shape, other.shape)
    return ProductWithLog.apply(input.expand(shape), other.expand(shape), shift)  # type: ignore[no-any-return]


@method
def xlogy(input: Any, other: Any) -> Tensor:
    """input · log(other), zero where `input` is. A number may be first.

    >>> gt.xlogy(gt.tensor([0.0, 2.0]), gt.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    return product_with_log(input, other, 0)


@method
@of_two_tensors
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger element; a number beats NaN.

    >>> gt.fmax(gt.tensor([1.0, gt.nan]), gt.tensor([2.0, 3.0]))
    tensor([2., 3.])
    """
    return _number_of(input, other, input.maximum(other))


@method
@of_two_tensors
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller element; a number beats NaN.

    >>> gt.fmin(gt.tensor([1.0, gt.nan]), gt.tensor([2.0, 3.0]))
    tensor([1., 3.])
    """
    return _number_of(input, other, input.minimum(other))


def _number_of(input: Tensor, other: Tensor, extreme: Tensor) -> Tensor:
    """The extreme of two, or the one that is not NaN."""
    if not extreme.dtype.is_floating_point:
        return extreme
    return _core.where(other.isnan(), input, _core.where(input.isnan(), other, extreme))


@method
@of_two_tensors
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input · 2**other.

    >>> gt.ldexp(gt.tensor([1.0]), gt.tensor([3]))
    tensor([8.])
    """
    dtype = _core.result_type(input, other)
    factor = other.to(dtype) if dtype.is_floating_point else as_float(other)
    return input * factor.exp2()


@method
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); with `eps`, x is first kept that far from 0 and 1.

    >>> gt.logit(gt.tensor([0.5]))
    tensor([0.])
    """
    input = as_float(input)
    if eps is not None:
        below, above = input < eps, input > 1 - eps
        input = _core.where(below, eps, _core.where(above, 1 - eps, input))
    # There is no slope where there is no value: without this each of the logarithms would have one outside [0, 1].
    outside = (input < 0) | (input > 1)
    input = input * _core.where(outside, math.nan, _core.ones_like(input))
    return input.log() - (-input).log1p()


@method
def isposinf(input: Tensor) -> Tensor:
    """Whether an element is plus infinity.

    >>> gt.isposinf(gt.tensor([gt.inf, -gt.inf]))
    tensor([ True, False])
    """
    return input.isinf() & (input > 0)


@method
def isneginf(input: Tensor) -> Tensor:
    """Whether an element is minus infinity.

    >>> gt.isneginf(gt.tensor([gt.inf, -gt.inf]))
    tensor([False,  True])
    """
    return input.isinf() & (input < 0)


@method
def isreal(input: Tensor) -> Tensor:
    """Whether an element is a real number: all are.

    >>> gt.isreal(gt.tensor([1.0]))
    tensor([True])
    """
    return _core.ones_like(input, dtype=_core.bool)


@method
@of_two_tensors
def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor. Reads how far it has come after every step.

    >>> gt.gcd(gt.tensor([12, 7]), gt.tensor([18, 0]))
    tensor([6, 7])
    """
    input, other = promoted(input, other)
    if input.dtype.is_floating_point or input.dtype == _core.bool:
        raise RuntimeError(f"gcd is not implemented for {input.dtype}")
    a, b = input.abs() + 0 * other, other.abs() + 0 * input
    while bool((b != 0).any()):
        divisor = _core.where(b == 0, 1, b)
        a, b = _core.where(b == 0, a, b), _core.where(b == 0, 0, a % divisor)
    return a


@method
@of_two_tensors
def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple.

    >>> gt.lcm(gt.tensor([4]), gt.tensor([6]))
    tensor([12])
    """
    input, other = promoted(input, other)
    divisor = gcd(input, other)
    return (input // _core.where(divisor == 0, 1, divisor) * other).abs()


@function
def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order `n` of `digamma`. From order 171 on it is NaN.

    >>> gt.polygamma(1, gt.tensor([1.0]))
    tensor([1.6449])
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return input.digamma() if n == 0 else input._polygamma(n)


def _polygamma(self: Tensor, n: int) -> Tensor:
    """The derivative of order `n` of `digamma`."""
    return polygamma(n, self)


_polygamma.__name__ = "polygamma"
method_only(_polygamma)


@method
@of_tensors("input")
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Elements below `min` raised to it.

    >>> gt.clamp_min(gt.tensor([-1, 2]), 0)
    tensor([0, 2])
    """
    return input.clamp(min=min)


@method
@of_tensors("input")
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Elements above `max` lowered to it.

    >>> gt.clamp_max(gt.tensor([-1, 2]), 0)
    tensor([-1,  0])
    """
    return input.clamp(max=max)


@method
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference.

    >>> gt.dist(gt.tensor([3.0, 0.0]), gt.tensor([0.0, 4.0]))
    tensor(5.)
    """
    return (input - other).norm(p)


for _name in ("logical_and", "logical_or", "logical_xor", "hypot", "copysign", "heaviside", "frac", "deg2rad", "rad2deg",
              "sinc", "sgn", "xlogy", "ldexp", "logit", "gcd", "lcm", "polygamma", "clamp_min", "clamp_max",
              "clip", "lerp", "addcmul", "addcdiv", "nan_to_num", "subtract", "divide"):  # fmt: skip
    in_place(_name)
