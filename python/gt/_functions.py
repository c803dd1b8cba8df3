"""Methods of tensors as functions: `gt.sum(x)` is `x.sum()`.

FUNCTIONS-1: a function does nothing but forward to the method of its name; what it does is defined there.
FUNCTIONS-2: each row below gives a function its signature, what it does, and an example that the tests run. The rows of
functions of one or two elements are in the extension (`crates/ir/src/rows/`).
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

_ELEMENTWISE: tuple[_Row, ...] = (
    ("nan_to_num(input, nan=0.0, posinf=None, neginf=None)", "NaN and infinities replaced by numbers",
     "gt.nan_to_num(gt.tensor([gt.nan, gt.inf]), posinf=9.0)", "tensor([0., 9.])"),
    ("round(input, *, decimals=0)", "Rounded to the nearest, halves to even", "gt.round(gt.tensor([0.5, 1.7]))", "tensor([0., 2.])"),
    ("add(input, other, *, alpha=1)", "input + alpha · other", "gt.add(gt.tensor([1, 2]), 10)", "tensor([11, 12])"),
    ("addcdiv(input, tensor1, tensor2, *, value=1)", "input + value · tensor1 / tensor2",
     "gt.addcdiv(gt.ones(1), gt.tensor([6.0]), gt.tensor([3.0]))", "tensor([3.])"),
    ("addcmul(input, tensor1, tensor2, *, value=1)", "input + value · tensor1 · tensor2",
     "gt.addcmul(gt.ones(1), gt.tensor([2.0]), gt.tensor([3.0]))", "tensor([7.])"),
    ("clamp(input, min=None, max=None)", "Kept between two bounds", "gt.clamp(gt.tensor([-1, 5]), 0, 3)", "tensor([0, 3])"),
    ("clip(input, min=None, max=None)", "As `clamp`", "gt.clip(gt.tensor([-1, 5]), 0, 3)", "tensor([0, 3])"),
    ("div(input, other, *, rounding_mode=None)", "The quotient; rounding_mode 'floor' or 'trunc' rounds it",
     "gt.div(gt.tensor([7.0]), 2, rounding_mode='floor')", "tensor([3.])"),
    ("divide(input, other, *, rounding_mode=None)", "As `div`", "gt.divide(gt.tensor([7.0]), 2)", "tensor([3.5000])"),
    ("isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)", "Whether elements are equal up to a tolerance",
     "gt.isclose(gt.tensor([1.0]), gt.tensor([1.0 + 1e-7]))", "tensor([True])"),
    ("lerp(input, end, weight)", "input + weight · (end - input)", "gt.lerp(gt.zeros(1), gt.ones(1), 0.25)", "tensor([0.2500])"),
    ("rsub(input, other, *, alpha=1)", "other - alpha · input", "gt.rsub(gt.tensor([1, 2]), 5)", "tensor([4, 3])"),
    ("sub(input, other, *, alpha=1)", "input - alpha · other", "gt.sub(gt.tensor([1, 2]), 1)", "tensor([0, 1])"),
    ("subtract(input, other, *, alpha=1)", "As `sub`", "gt.subtract(gt.tensor([1, 2]), 1)", "tensor([0, 1])"),
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


def _refused(name: str, input: Any) -> TypeError:
    kind = type(input).__name__
    return TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {kind}")


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
            raise _refused(name, input)
        return made if out is None else write_out(out, made)

    return _described(function, name, *row)


def _described(function: Callable[..., Any], name: str, *row: str) -> Callable[..., Any]:
    signature, summary, example, result = row
    shown = result.replace("\n", "\n    ")
    function.__name__ = function.__qualname__ = name
    function.__module__ = "gt"
    function.__doc__ = f"{signature}\n\n    {summary}.\n\n    >>> {example}\n    {shown}\n    "
    return function


def _of_one(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def function(input: Any, *, out: Any = None) -> Any:
        if not isinstance(input, Tensor):
            raise _refused(name, input)
        made = method(input)
        return made if out is None else write_out(out, made)

    return function


def _of_two(name: str, operand: str, method: Callable[..., Any]) -> Callable[..., Any]:
    reflected = _WITH_NUMBER_FIRST.get(name)

    def of_number(input: Any, other: Any) -> Any:
        if reflected is None or not isinstance(input, (int, float)):
            raise _refused(name, input)
        return reflected(input, other if isinstance(other, Tensor) else _core.tensor(other))

    def function(input: Any, other: Any, *, out: Any = None) -> Any:
        made = method(input, other) if isinstance(input, Tensor) else of_number(input, other)
        return made if out is None else write_out(out, made)

    def with_exponent(input: Any, exponent: Any, *, out: Any = None) -> Any:
        return function(input, exponent, out=out)

    return with_exponent if operand == "exponent" else function


def _of_row(row: Any, method: str, name: str) -> Callable[..., Any]:
    """The function of a row of the extension's table, under one of its names."""
    first = row.names[0][0]
    if row.operand:
        function = _of_two(name, row.operand, getattr(Tensor, method))
        signature = f"{name}(input, {row.operand})"
    else:
        function = _of_one(name, getattr(Tensor, method))
        signature = f"{name}(input)"
    call, result = row.example
    summary = row.says if method == first else f"As `{first}`"
    return _described(function, name, signature, summary, call.replace(f"gt.{first}(", f"gt.{name}("), result)


# The functions of `gt.special` that are rows.
of_special: dict[str, Callable[..., Any]] = {}
_forwarded: dict[str, Callable[..., Any]] = {}
for _row in _core._rows():
    if not _row.example[0]:
        continue
    for _name, _ in _row.names:
        if not _name.startswith("_"):
            _forwarded[_name] = _of_row(_row, _name, _name)
    for _name in _row.special:
        # The function of `gt` itself, if there is one: autocast replaces it everywhere.
        _method = _row.names[0][0]
        of_special[_name] = _forwarded.get(_method) or _of_row(_row, _method, _name)
_forwarded |= {
    row[0].partition("(")[0]: _forward(row[0].partition("(")[0], row)
    for family in (_ELEMENTWISE, _REDUCTIONS, _SHAPES, _PICKING, _PRODUCTS)
    for row in family
}
globals().update(_forwarded)
__all__ = list(_forwarded)
