"""Methods of tensors as functions: `gt.sum(x)` is `x.sum()`.

FUNCTIONS-1: a function does nothing but forward to the method of its name; what it does is defined there.
FUNCTIONS-2: each row below gives a function its signature, what it does, and an example that the tests run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods.elementwise import as_operand

_Row = tuple[str, str, str, str]

# Where PyTorch takes a number in place of the first tensor, Python's operator with the number on its left.
_WITH_NUMBER_FIRST: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "subtract": operator.sub,
    "mul": operator.mul,
    "multiply": operator.mul,
    "div": operator.truediv,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_left_shift": operator.lshift,
    "bitwise_right_shift": operator.rshift,
}

# A method takes these sizes or dimensions one by one as well; the function takes them as one argument of this name.
_AS_ONE_ARGUMENT = {"broadcast_to": "size", "flip": "dims", "permute": "dims", "reshape": "shape", "tile": "dims"}

_UNARY: tuple[_Row, ...] = (
    ("abs(input)", "The absolute values", "gt.abs(gt.tensor([-1, 2]))", "tensor([1, 2])"),
    ("absolute(input)", "As `abs`", "gt.absolute(gt.tensor([-1, 2]))", "tensor([1, 2])"),
    ("acos(input)", "The inverse cosine", "gt.acos(gt.tensor([1.0]))", "tensor([0.])"),
    ("arccos(input)", "As `acos`", "gt.arccos(gt.tensor([1.0]))", "tensor([0.])"),
    ("acosh(input)", "The inverse hyperbolic cosine", "gt.acosh(gt.tensor([1.0]))", "tensor([0.])"),
    ("arccosh(input)", "As `acosh`", "gt.arccosh(gt.tensor([1.0]))", "tensor([0.])"),
    ("asin(input)", "The inverse sine", "gt.asin(gt.tensor([1.0]))", "tensor([1.5708])"),
    ("arcsin(input)", "As `asin`", "gt.arcsin(gt.tensor([1.0]))", "tensor([1.5708])"),
    ("asinh(input)", "The inverse hyperbolic sine", "gt.asinh(gt.tensor([1.0]))", "tensor([0.8814])"),
    ("arcsinh(input)", "As `asinh`", "gt.arcsinh(gt.tensor([1.0]))", "tensor([0.8814])"),
    ("atan(input)", "The inverse tangent", "gt.atan(gt.tensor([1.0]))", "tensor([0.7854])"),
    ("arctan(input)", "As `atan`", "gt.arctan(gt.tensor([1.0]))", "tensor([0.7854])"),
    ("atanh(input)", "The inverse hyperbolic tangent", "gt.atanh(gt.tensor([0.5]))", "tensor([0.5493])"),
    ("arctanh(input)", "As `atanh`", "gt.arctanh(gt.tensor([0.5]))", "tensor([0.5493])"),
    ("bitwise_not(input)", "All bits flipped", "gt.bitwise_not(gt.tensor([0, 1]))", "tensor([-1, -2])"),
    ("ceil(input)", "Rounded up", "gt.ceil(gt.tensor([1.2]))", "tensor([2.])"),
    ("cos(input)", "The cosine", "gt.cos(gt.tensor([0.0]))", "tensor([1.])"),
    ("cosh(input)", "The hyperbolic cosine", "gt.cosh(gt.tensor([0.0]))", "tensor([1.])"),
    ("erf(input)", "The error function", "gt.erf(gt.tensor([0.5]))", "tensor([0.5205])"),
    ("erfc(input)", "1 - erf(input), exact where that is small", "gt.erfc(gt.tensor([0.5]))", "tensor([0.4795])"),
    ("exp(input)", "e to the power of each element", "gt.exp(gt.tensor([0.0, 1.0]))", "tensor([1.0000, 2.7183])"),
    ("exp2(input)", "2 to the power of each element", "gt.exp2(gt.tensor([3.0]))", "tensor([8.])"),
    ("expm1(input)", "exp(input) - 1, exact near zero", "gt.expm1(gt.tensor([1.0]))", "tensor([1.7183])"),
    ("fix(input)", "As `trunc`", "gt.fix(gt.tensor([-1.7]))", "tensor([-1.])"),
    ("floor(input)", "Rounded down", "gt.floor(gt.tensor([1.7]))", "tensor([1.])"),
    ("isfinite(input)", "Whether an element is finite", "gt.isfinite(gt.tensor([1.0, gt.inf]))", "tensor([ True, False])"),
    ("isinf(input)", "Whether an element is infinite", "gt.isinf(gt.tensor([1.0, gt.inf]))", "tensor([False,  True])"),
    ("isnan(input)", "Whether an element is NaN", "gt.isnan(gt.tensor([1.0, gt.nan]))", "tensor([False,  True])"),
    ("log(input)", "The natural logarithm", "gt.log(gt.tensor([1.0]))", "tensor([0.])"),
    ("log10(input)", "The logarithm to base 10", "gt.log10(gt.tensor([100.0]))", "tensor([2.])"),
    ("log1p(input)", "log(1 + input), exact near zero", "gt.log1p(gt.tensor([1.0]))", "tensor([0.6931])"),
    ("log2(input)", "The logarithm to base 2", "gt.log2(gt.tensor([8.0]))", "tensor([3.])"),
    ("logical_not(input)", "Whether an element is zero", "gt.logical_not(gt.tensor([0, 2]))", "tensor([ True, False])"),
    ("nan_to_num(input, nan=0.0, posinf=None, neginf=None)", "NaN and infinities replaced by numbers",
     "gt.nan_to_num(gt.tensor([gt.nan, gt.inf]), posinf=9.0)", "tensor([0., 9.])"),
    ("neg(input)", "The negated elements", "gt.neg(gt.tensor([1, -2]))", "tensor([-1,  2])"),
    ("negative(input)", "As `neg`", "gt.negative(gt.tensor([1, -2]))", "tensor([-1,  2])"),
    ("reciprocal(input)", "1 / input", "gt.reciprocal(gt.tensor([4.0]))", "tensor([0.2500])"),
    ("relu(input)", "max(input, 0)", "gt.relu(gt.tensor([-1.0, 2.0]))", "tensor([0., 2.])"),
    ("round(input, *, decimals=0)", "Rounded to the nearest, halves to even", "gt.round(gt.tensor([0.5, 1.7]))", "tensor([0., 2.])"),
    ("rsqrt(input)", "1 / sqrt(input)", "gt.rsqrt(gt.tensor([4.0]))", "tensor([0.5000])"),
    ("sigmoid(input)", "1 / (1 + exp(-input))", "gt.sigmoid(gt.tensor([0.0]))", "tensor([0.5000])"),
    ("sign(input)", "-1, 0 or 1", "gt.sign(gt.tensor([-3.0, 0.0]))", "tensor([-1.,  0.])"),
    ("sin(input)", "The sine", "gt.sin(gt.tensor([0.0]))", "tensor([0.])"),
    ("sinh(input)", "The hyperbolic sine", "gt.sinh(gt.tensor([0.0]))", "tensor([0.])"),
    ("sqrt(input)", "The square root", "gt.sqrt(gt.tensor([4.0]))", "tensor([2.])"),
    ("square(input)", "The square", "gt.square(gt.tensor([3]))", "tensor([9])"),
    ("tan(input)", "The tangent", "gt.tan(gt.tensor([0.0]))", "tensor([0.])"),
    ("tanh(input)", "The hyperbolic tangent", "gt.tanh(gt.tensor([0.0]))", "tensor([0.])"),
    ("trunc(input)", "Rounded towards zero", "gt.trunc(gt.tensor([-1.7]))", "tensor([-1.])"),
)  # fmt: skip

_BINARY: tuple[_Row, ...] = (
    ("add(input, other, *, alpha=1)", "input + alpha · other", "gt.add(gt.tensor([1, 2]), 10)", "tensor([11, 12])"),
    ("addcdiv(input, tensor1, tensor2, *, value=1)", "input + value · tensor1 / tensor2",
     "gt.addcdiv(gt.ones(1), gt.tensor([6.0]), gt.tensor([3.0]))", "tensor([3.])"),
    ("addcmul(input, tensor1, tensor2, *, value=1)", "input + value · tensor1 · tensor2",
     "gt.addcmul(gt.ones(1), gt.tensor([2.0]), gt.tensor([3.0]))", "tensor([7.])"),
    ("atan2(input, other)", "The angle of the point (other, input)", "gt.atan2(gt.tensor([1.0]), gt.tensor([1.0]))", "tensor([0.7854])"),
    ("arctan2(input, other)", "As `atan2`", "gt.arctan2(gt.tensor([1.0]), gt.tensor([1.0]))", "tensor([0.7854])"),
    ("bitwise_and(input, other)", "input & other", "gt.bitwise_and(gt.tensor([6]), 3)", "tensor([2])"),
    ("bitwise_left_shift(input, other)", "input << other", "gt.bitwise_left_shift(gt.tensor([1]), 3)", "tensor([8])"),
    ("bitwise_or(input, other)", "input | other", "gt.bitwise_or(gt.tensor([6]), 3)", "tensor([7])"),
    ("bitwise_right_shift(input, other)", "input >> other", "gt.bitwise_right_shift(gt.tensor([8]), 3)", "tensor([1])"),
    ("bitwise_xor(input, other)", "input ^ other", "gt.bitwise_xor(gt.tensor([6]), 3)", "tensor([5])"),
    ("clamp(input, min=None, max=None)", "Kept between two bounds", "gt.clamp(gt.tensor([-1, 5]), 0, 3)", "tensor([0, 3])"),
    ("clip(input, min=None, max=None)", "As `clamp`", "gt.clip(gt.tensor([-1, 5]), 0, 3)", "tensor([0, 3])"),
    ("div(input, other, *, rounding_mode=None)", "The quotient; rounding_mode 'floor' or 'trunc' rounds it",
     "gt.div(gt.tensor([7.0]), 2, rounding_mode='floor')", "tensor([3.])"),
    ("divide(input, other, *, rounding_mode=None)", "As `div`", "gt.divide(gt.tensor([7.0]), 2)", "tensor([3.5000])"),
    ("eq(input, other)", "Whether elements are equal", "gt.eq(gt.tensor([1, 2]), 2)", "tensor([False,  True])"),
    ("floor_divide(input, other)", "The quotient rounded down", "gt.floor_divide(gt.tensor([7]), 2)", "tensor([3])"),
    ("fmod(input, other)", "The remainder, with the sign of `input`", "gt.fmod(gt.tensor([-7]), 3)", "tensor([-1])"),
    ("ge(input, other)", "Whether input >= other", "gt.ge(gt.tensor([1, 2]), 2)", "tensor([False,  True])"),
    ("greater_equal(input, other)", "As `ge`", "gt.greater_equal(gt.tensor([1, 2]), 2)", "tensor([False,  True])"),
    ("gt(input, other)", "Whether input > other", "gt.gt(gt.tensor([1, 2]), 1)", "tensor([False,  True])"),
    ("greater(input, other)", "As `gt`", "gt.greater(gt.tensor([1, 2]), 1)", "tensor([False,  True])"),
    ("isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)", "Whether elements are equal up to a tolerance",
     "gt.isclose(gt.tensor([1.0]), gt.tensor([1.0 + 1e-7]))", "tensor([True])"),
    ("le(input, other)", "Whether input <= other", "gt.le(gt.tensor([1, 2]), 1)", "tensor([ True, False])"),
    ("less_equal(input, other)", "As `le`", "gt.less_equal(gt.tensor([1, 2]), 1)", "tensor([ True, False])"),
    ("lerp(input, end, weight)", "input + weight · (end - input)", "gt.lerp(gt.zeros(1), gt.ones(1), 0.25)", "tensor([0.2500])"),
    ("lt(input, other)", "Whether input < other", "gt.lt(gt.tensor([1, 2]), 2)", "tensor([ True, False])"),
    ("less(input, other)", "As `lt`", "gt.less(gt.tensor([1, 2]), 2)", "tensor([ True, False])"),
    ("maximum(input, other)", "The larger elements", "gt.maximum(gt.tensor([1, 4]), gt.tensor([3, 2]))", "tensor([3, 4])"),
    ("minimum(input, other)", "The smaller elements", "gt.minimum(gt.tensor([1, 4]), gt.tensor([3, 2]))", "tensor([1, 2])"),
    ("mul(input, other)", "input · other", "gt.mul(gt.tensor([1, 2]), 10)", "tensor([10, 20])"),
    ("multiply(input, other)", "As `mul`", "gt.multiply(gt.tensor([1, 2]), 10)", "tensor([10, 20])"),
    ("ne(input, other)", "Whether elements differ", "gt.ne(gt.tensor([1, 2]), 2)", "tensor([ True, False])"),
    ("not_equal(input, other)", "As `ne`", "gt.not_equal(gt.tensor([1, 2]), 2)", "tensor([ True, False])"),
    ("pow(input, exponent)", "input to the power of `exponent`; a number may be first", "gt.pow(2, gt.tensor([3]))", "tensor([8])"),
    ("remainder(input, other)", "The remainder, with the sign of `other`", "gt.remainder(gt.tensor([-7]), 3)", "tensor([2])"),
    ("rsub(input, other, *, alpha=1)", "other - alpha · input", "gt.rsub(gt.tensor([1, 2]), 5)", "tensor([4, 3])"),
    ("sub(input, other, *, alpha=1)", "input - alpha · other", "gt.sub(gt.tensor([1, 2]), 1)", "tensor([0, 1])"),
    ("subtract(input, other, *, alpha=1)", "As `sub`", "gt.subtract(gt.tensor([1, 2]), 1)", "tensor([0, 1])"),
    ("true_divide(input, other)", "input / other", "gt.true_divide(gt.tensor([7]), 2)", "tensor([3.5000])"),
)  # fmt: skip

_REDUCTIONS: tuple[_Row, ...] = (
    ("all(input, dim=None, keepdim=False)", "Whether all elements are not zero", "gt.all(gt.tensor([True, False]))", "tensor(False)"),
    ("allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)", "Whether two tensors are equal up to a tolerance; waits",
     "gt.allclose(gt.ones(2), gt.ones(2) + 1e-7)", "True"),
    ("amax(input, dim=(), keepdim=False)", "The largest elements", "gt.amax(gt.tensor([[1, 4], [3, 2]]), 1)", "tensor([4, 3])"),
    ("amin(input, dim=(), keepdim=False)", "The smallest elements", "gt.amin(gt.tensor([[1, 4], [3, 2]]), 1)", "tensor([1, 2])"),
    ("any(input, dim=None, keepdim=False)", "Whether an element is not zero", "gt.any(gt.tensor([True, False]))", "tensor(True)"),
    ("argmax(input, dim=None, keepdim=False)", "Where the largest element is", "gt.argmax(gt.tensor([1, 4, 2]))", "tensor(1)"),
    ("argmin(input, dim=None, keepdim=False)", "Where the smallest element is", "gt.argmin(gt.tensor([1, 4, 2]))", "tensor(0)"),
    ("bincount(input, weights=None, minlength=0)", "How often each number occurs; waits for the largest",
     "gt.bincount(gt.tensor([0, 2, 2]))", "tensor([1, 0, 2])"),
    ("cumprod(input, dim, *, dtype=None)", "Products so far", "gt.cumprod(gt.tensor([1, 2, 3]), 0)", "tensor([1, 2, 6])"),
    ("cumsum(input, dim, *, dtype=None)", "Sums so far", "gt.cumsum(gt.tensor([1, 2, 3]), 0)", "tensor([1, 3, 6])"),
    ("equal(input, other)", "Whether two tensors have the same shape and elements; waits", "gt.equal(gt.ones(2), gt.ones(2))", "True"),
    ("log_softmax(input, dim, *, dtype=None)", "The logarithm of `softmax`, computed without loss",
     "gt.log_softmax(gt.zeros(2), 0)", "tensor([-0.6931, -0.6931])"),
    ("logsumexp(input, dim, keepdim=False)", "log(sum(exp(input))) without overflow", "gt.logsumexp(gt.zeros(2), 0)", "tensor(0.6931)"),
    ("max(input, dim=None, keepdim=False)", "The largest element; along `dim` also where it is; of two tensors the larger elements",
     "gt.max(gt.tensor([1, 4, 2]))", "tensor(4)"),
    ("mean(input, dim=None, keepdim=False, *, dtype=None)", "The mean", "gt.mean(gt.tensor([1.0, 2.0]))", "tensor(1.5000)"),
    ("min(input, dim=None, keepdim=False)", "The smallest element; along `dim` also where it is; of two tensors the smaller elements",
     "gt.min(gt.tensor([1, 4, 2]))", "tensor(1)"),
    ("norm(input, p='fro', dim=None, keepdim=False, dtype=None)", "The p-norm of the elements", "gt.norm(gt.tensor([3.0, 4.0]))", "tensor(5.)"),
    ("prod(input, dim=None, keepdim=False, *, dtype=None)", "The product", "gt.prod(gt.tensor([2, 3]))", "tensor(6)"),
    ("softmax(input, dim, *, dtype=None)", "exp(input) scaled so that it sums to 1 along `dim`", "gt.softmax(gt.zeros(2), 0)", "tensor([0.5000, 0.5000])"),
    ("std(input, dim=None, *, correction=1, keepdim=False)", "The standard deviation", "gt.std(gt.tensor([1.0, 2.0, 3.0]))", "tensor(1.)"),
    ("sum(input, dim=None, keepdim=False, *, dtype=None)", "The sum", "gt.sum(gt.tensor([[1, 2], [3, 4]]), 0)", "tensor([4, 6])"),
    ("var(input, dim=None, *, correction=1, keepdim=False)", "The variance", "gt.var(gt.tensor([1.0, 2.0, 3.0]))", "tensor(1.)"),
)  # fmt: skip

_SHAPES: tuple[_Row, ...] = (
    ("broadcast_to(input, size)", "Expanded to a shape", "gt.broadcast_to(gt.tensor([1, 2]), (2, 2))", "tensor([[1, 2],\n        [1, 2]])"),
    ("chunk(input, chunks, dim=0)", "At most `chunks` parts along `dim`", "gt.chunk(gt.arange(4), 2)", "(tensor([0, 1]), tensor([2, 3]))"),
    ("clone(input)", "A copy", "gt.clone(gt.tensor([1]))", "tensor([1])"),
    ("detach(input)", "The same elements, outside the graph", "gt.detach(gt.ones(1, requires_grad=True))", "tensor([1.])"),
    ("diagonal(input, offset=0, dim1=0, dim2=1)", "A diagonal, as a view", "gt.diagonal(gt.eye(2))", "tensor([1., 1.])"),
    ("flatten(input, start_dim=0, end_dim=-1)", "Dimensions joined into one", "gt.flatten(gt.eye(2))", "tensor([1., 0., 0., 1.])"),
    ("flip(input, dims)", "Reversed along dimensions", "gt.flip(gt.tensor([1, 2]), (0,))", "tensor([2, 1])"),
    ("moveaxis(input, source, destination)", "As `movedim`", "gt.moveaxis(gt.ones(1, 2), 0, 1).shape", "gt.Size([2, 1])"),
    ("movedim(input, source, destination)", "Dimensions moved to other places", "gt.movedim(gt.ones(1, 2, 3), 0, 2).shape", "gt.Size([2, 3, 1])"),
    ("narrow(input, dim, start, length)", "`length` elements along `dim`, as a view", "gt.narrow(gt.arange(5), 0, 1, 3)", "tensor([1, 2, 3])"),
    ("numel(input)", "The number of elements", "gt.numel(gt.ones(2, 3))", "6"),
    ("permute(input, dims)", "Dimensions in another order", "gt.permute(gt.ones(1, 2, 3), (2, 0, 1)).shape", "gt.Size([3, 1, 2])"),
    ("ravel(input)", "Flattened", "gt.ravel(gt.eye(2))", "tensor([1., 0., 0., 1.])"),
    ("repeat_interleave(input, repeats, dim=None)", "Each element several times", "gt.repeat_interleave(gt.tensor([1, 2]), 2)", "tensor([1, 1, 2, 2])"),
    ("reshape(input, shape)", "The same elements in another shape", "gt.reshape(gt.arange(4), (2, 2))", "tensor([[0, 1],\n        [2, 3]])"),
    ("roll(input, shifts, dims=None)", "Shifted around the end", "gt.roll(gt.arange(3), 1)", "tensor([2, 0, 1])"),
    ("select(input, dim, index)", "One slice along `dim`, as a view", "gt.select(gt.eye(2), 0, 1)", "tensor([0., 1.])"),
    ("split(input, split_size_or_sections, dim=0)", "Parts of a given size, or sizes, along `dim`",
     "gt.split(gt.arange(3), 2)", "(tensor([0, 1]), tensor([2]))"),
    ("squeeze(input, dim=None)", "Without dimensions of size 1", "gt.squeeze(gt.ones(1, 2)).shape", "gt.Size([2])"),
    ("swapaxes(input, axis0, axis1)", "As `transpose`", "gt.swapaxes(gt.ones(1, 2), 0, 1).shape", "gt.Size([2, 1])"),
    ("swapdims(input, dim0, dim1)", "As `transpose`", "gt.swapdims(gt.ones(1, 2), 0, 1).shape", "gt.Size([2, 1])"),
    ("t(input)", "The transpose of a matrix", "gt.t(gt.ones(1, 2)).shape", "gt.Size([2, 1])"),
    ("tile(input, dims)", "Repeated along each dimension", "gt.tile(gt.tensor([1, 2]), (2,))", "tensor([1, 2, 1, 2])"),
    ("transpose(input, dim0, dim1)", "Two dimensions exchanged", "gt.transpose(gt.ones(1, 2), 0, 1).shape", "gt.Size([2, 1])"),
    ("tril(input, diagonal=0)", "The lower triangle, zero elsewhere", "gt.tril(gt.ones(2, 2))", "tensor([[1., 0.],\n        [1., 1.]])"),
    ("triu(input, diagonal=0)", "The upper triangle, zero elsewhere", "gt.triu(gt.ones(2, 2))", "tensor([[1., 1.],\n        [0., 1.]])"),
    ("unbind(input, dim=0)", "The slices along `dim`", "gt.unbind(gt.tensor([1, 2]))", "(tensor(1), tensor(2))"),
    ("unflatten(input, dim, sizes)", "One dimension as several", "gt.unflatten(gt.arange(4), 0, (2, 2)).shape", "gt.Size([2, 2])"),
    ("unsqueeze(input, dim)", "With a new dimension of size 1", "gt.unsqueeze(gt.ones(2), 0).shape", "gt.Size([1, 2])"),
)  # fmt: skip

_PICKING: tuple[_Row, ...] = (
    ("argsort(input, dim=-1, descending=False, stable=False)", "The places that sort a tensor", "gt.argsort(gt.tensor([3, 1, 2]))", "tensor([1, 2, 0])"),
    ("bernoulli(input, *, generator=None)", "Ones that come with the probabilities in `input`, and zeros", "gt.bernoulli(gt.ones(2))", "tensor([1., 1.])"),
    ("gather(input, dim, index)", "Elements along `dim` by index", "gt.gather(gt.tensor([[1, 2]]), 1, gt.tensor([[1, 1]]))", "tensor([[2, 2]])"),
    ("index_add(input, dim, index, source, *, alpha=1)", "A copy with slices added at an index",
     "gt.index_add(gt.zeros(2), 0, gt.tensor([1, 1]), gt.ones(2))", "tensor([0., 2.])"),
    ("index_copy(input, dim, index, source)", "A copy with slices replaced at an index",
     "gt.index_copy(gt.zeros(2), 0, gt.tensor([1]), gt.ones(1))", "tensor([0., 1.])"),
    ("index_put(input, indices, values, accumulate=False)", "A copy with elements replaced, or added to",
     "gt.index_put(gt.zeros(2), (gt.tensor([1]),), gt.tensor([5.0]))", "tensor([0., 5.])"),
    ("index_select(input, dim, index)", "Slices along `dim` by index", "gt.index_select(gt.eye(2), 0, gt.tensor([1]))", "tensor([[0., 1.]])"),
    ("masked_fill(input, mask, value)", "A copy with `value` under the mask",
     "gt.masked_fill(gt.zeros(2), gt.tensor([True, False]), 1.0)", "tensor([1., 0.])"),
    ("masked_select(input, mask)", "The elements under the mask; waits for their number",
     "gt.masked_select(gt.tensor([1, 2]), gt.tensor([True, False]))", "tensor([1])"),
    ("multinomial(input, num_samples, replacement=False, *, generator=None)", "Indices drawn with the given weights",
     "gt.multinomial(gt.tensor([0.0, 1.0]), 1)", "tensor([1])"),
    ("nonzero(input, *, as_tuple=False)", "The places of what is not zero; waits for their number",
     "gt.nonzero(gt.tensor([0, 1, 1]))", "tensor([[1],\n        [2]])"),
    ("scatter(input, dim, index, src)", "A copy with elements along `dim` replaced by index",
     "gt.scatter(gt.zeros(2), 0, gt.tensor([1]), gt.tensor([5.0]))", "tensor([0., 5.])"),
    ("scatter_add(input, dim, index, src)", "A copy with elements added along `dim` by index",
     "gt.scatter_add(gt.zeros(2), 0, gt.tensor([1, 1]), gt.ones(2))", "tensor([0., 2.])"),
    ("sort(input, dim=-1, descending=False, stable=False)", "The elements sorted along `dim`, and where they were",
     "gt.sort(gt.tensor([3, 1, 2])).values", "tensor([1, 2, 3])"),
    ("take_along_dim(input, indices, dim=None)", "Elements along `dim` by index",
     "gt.take_along_dim(gt.tensor([[1, 2]]), gt.tensor([[1]]), 1)", "tensor([[2]])"),
    ("topk(input, k, dim=-1, largest=True, sorted=True)", "The `k` largest elements along `dim`, and where they are",
     "gt.topk(gt.tensor([3, 1, 2]), 2).values", "tensor([3, 2])"),
)  # fmt: skip

_PRODUCTS: tuple[_Row, ...] = (
    ("addmm(input, mat1, mat2, *, beta=1, alpha=1)", "beta · input + alpha · (mat1 @ mat2)",
     "gt.addmm(gt.ones(1), gt.ones(1, 2), gt.ones(2, 1))", "tensor([[3.]])"),
    ("bmm(input, mat2)", "The products of two batches of matrices", "gt.bmm(gt.ones(1, 1, 2), gt.ones(1, 2, 1))", "tensor([[[2.]]])"),
    ("dot(input, other)", "The dot product of two vectors", "gt.dot(gt.tensor([1, 2]), gt.tensor([3, 4]))", "tensor(11)"),
    ("matmul(input, other)", "The product of matrices, batches of them, or vectors", "gt.matmul(gt.ones(1, 2), gt.ones(2, 1))", "tensor([[2.]])"),
    ("mm(input, mat2)", "The product of two matrices", "gt.mm(gt.ones(1, 2), gt.ones(2, 1))", "tensor([[2.]])"),
    ("outer(input, vec2)", "Every product of elements of two vectors", "gt.outer(gt.tensor([1, 2]), gt.tensor([3, 4]))", "tensor([[3, 4],\n        [6, 8]])"),
    ("is_complex(input)", "Whether the elements are complex: never", "gt.is_complex(gt.ones(1))", "False"),
    ("is_floating_point(input)", "Whether the elements are floats", "gt.is_floating_point(gt.ones(1))", "True"),
)  # fmt: skip


def write_out(out: Any, made: Any) -> Any:
    """Copies a result into the tensor, or the tensors, given as `out=`."""
    if isinstance(out, Tensor):
        if out.shape != made.shape and not out.requires_grad:
            # As PyTorch: it takes the shape of the result.
            out.resize_(made.shape)
        return out._write(made)
    for target, part in zip(out, made):
        write_out(target, part)
    return out


def _with_one_argument(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    parameter = _AS_ONE_ARGUMENT[name]

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if parameter in kwargs:
            args = (kwargs.pop(parameter), *args)
        if not args:
            raise TypeError(f"{name}() missing 1 required positional argument: {parameter!r}")
        return method(input, *args, **kwargs)

    return call


def _forward(name: str, row: _Row) -> Callable[..., Any]:
    method = getattr(Tensor, name)
    if name in _AS_ONE_ARGUMENT:
        method = _with_one_argument(name, method)
    reflected = _WITH_NUMBER_FIRST.get(name)

    def function(input: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if isinstance(input, Tensor):
            made = method(input, *args, **kwargs)
        elif reflected is not None and isinstance(input, (int, float)) and args:
            other = args[0] if isinstance(args[0], Tensor) else _core.tensor(args[0])
            made = method(as_operand(input, other), *args, **kwargs) if kwargs else reflected(input, other)
        else:
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        return made if out is None else write_out(out, made)

    signature, summary, example, result = row
    shown = result.replace("\n", "\n    ")
    function.__name__ = function.__qualname__ = name
    function.__module__ = "gt"
    function.__doc__ = f"{signature}\n\n    {summary}.\n\n    >>> {example}\n    {shown}\n    "
    return function


_forwarded = {
    row[0].partition("(")[0]: _forward(row[0].partition("(")[0], row)
    for family in (_UNARY, _BINARY, _REDUCTIONS, _SHAPES, _PICKING, _PRODUCTS)
    for row in family
}
globals().update(_forwarded)
__all__ = list(_forwarded)
