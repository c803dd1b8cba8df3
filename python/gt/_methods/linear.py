"""Products of vectors, matrices and larger tensors, and matrices made from diagonals."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods._dimension import check_dim
from gt._methods._registry import function, in_place, method, of_tensors


def _needs(condition: bool, message: str, *tensors: Tensor) -> None:
    if not condition:
        raise RuntimeError(f"{message}, got shapes {' and '.join(str(tuple(t.shape)) for t in tensors)}")


def _blend(name: str, input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta · input + alpha · product; with beta 0, `input` counts for nothing, not even its NaN, and its gradient is zero."""
    if not product.dtype.is_floating_point:
        # As in PyTorch factors are numbers of the dtype.
        alpha, beta = int(alpha), int(beta)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return _core.with_zero_gradient(product, name, [input])
    return (input if beta == 1 else input * beta) + product  # type: ignore[no-any-return]


@method
@of_tensors("input", "vec")
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector.

    >>> gt.mv(gt.tensor([[1.0, 2.0]]), gt.tensor([3.0, 4.0]))
    tensor([11.])
    """
    _needs(input.dim() == 2 and vec.dim() == 1, "mv() expects a matrix and a vector", input, vec)
    return input.matmul(vec)


@method
@of_tensors("input", "other")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product of two vectors.

    >>> gt.vdot(gt.tensor([1, 2]), gt.tensor([3, 4]))
    tensor(11)
    """
    return input.dot(other)


@method
@of_tensors("input", "other")
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The products of vectors in the last dimensions.

    >>> gt.inner(gt.tensor([1, 2]), gt.tensor([3, 4]))
    tensor(11)
    """
    if input.dim() == 0 or other.dim() == 0:
        return input * other
    _needs(input.shape[-1] == other.shape[-1], "inner() the last dimensions must match", input, other)
    return tensordot(input, other, ([-1], [-1]))


@method
@of_tensors("input", "vec2")
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """As `outer`.

    >>> gt.ger(gt.tensor([1, 2]), gt.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    return input.outer(vec2)


@method
@of_tensors("input", "mat", "vec")
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · (mat @ vec).

    >>> gt.addmv(gt.tensor([1.0]), gt.tensor([[1.0, 2.0]]), gt.tensor([3.0, 4.0]))
    tensor([12.])
    """
    return _blend("Addmv", input, mv(mat, vec), beta, alpha)


@method
@of_tensors("input", "vec1", "vec2")
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · outer(vec1, vec2).

    >>> gt.addr(gt.zeros(1, 2), gt.tensor([2.0]), gt.tensor([3.0, 4.0]))
    tensor([[6., 8.]])
    """
    product = vec1.outer(vec2)
    dtype = _core.result_type(input, product)
    if dtype == _core.bool:
        # Sums of products of truths; a factor says whether its term is there at all.
        made = product & bool(alpha)
        return made | input if beta else made
    # Factors are numbers of the dtype of the result.
    return _blend("Addr", input, product.to(dtype), beta, alpha)


@method
@of_tensors("input", "batch1", "batch2")
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · bmm(batch1, batch2).

    >>> gt.baddbmm(gt.ones(1, 1, 1), gt.ones(1, 1, 2), gt.ones(1, 2, 1))
    tensor([[[3.]]])
    """
    return _blend("Baddbmm", input, batch1.bmm(batch2), beta, alpha)


@method
@of_tensors("input", "batch1", "batch2")
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · the sum of bmm(batch1, batch2) over the batch.

    >>> gt.addbmm(gt.zeros(1, 1), gt.ones(3, 1, 2), gt.ones(3, 2, 1))
    tensor([[6.]])
    """
    return _blend("Addbmm", input, batch1.bmm(batch2).sum(0, dtype=batch1.dtype), beta, alpha)


@function
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the order that takes the fewest multiplications.

    >>> gt.chain_matmul(gt.ones(1, 2), gt.ones(2, 3), gt.ones(3, 1))
    tensor([[6.]])
    """
    sizes = [matrices[0].shape[0], *(m.shape[1] for m in matrices)]

    @functools.cache
    def best(i: int, j: int) -> tuple[int, int]:
        """The multiplications for matrices i to j, and after which to split."""
        if i == j:
            return 0, i
        splits = ((best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))
        return min(splits)

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return matrices[i]
        split = best(i, j)[1]
        return product(i, split).mm(product(split + 1, j))

    return product(0, len(matrices) - 1)


@function
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The sum of products over dimensions of `a` and `b`: the last and first `dims`, or two lists of them.

    >>> gt.tensordot(gt.ones(2, 3, 4), gt.ones(4, 3, 5), dims=([1, 2], [1, 0])).shape
    gt.Size([2, 5])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    left, right = [d % a.dim() for d in left], [d % b.dim() for d in right]
    for d, e in zip(left, right):
        # One element is shared by all of the other side.
        if a.shape[d] == 1 != b.shape[e]:
            b = b.sum(e, keepdim=True, dtype=b.dtype)
        elif b.shape[e] == 1 != a.shape[d]:
            a = a.sum(d, keepdim=True, dtype=a.dtype)
        _needs(a.shape[d] == b.shape[e], f"tensordot() contracted dimensions {d} and {e} need to match", a, b)
    free_a = [d for d in range(a.dim()) if d not in left]
    free_b = [d for d in range(b.dim()) if d not in right]
    shared = math.prod(a.shape[d] for d in left)
    rows, columns = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    matrix = a.permute(*free_a, *left).reshape(math.prod(rows), shared)
    other = b.permute(*right, *free_b).reshape(shared, math.prod(columns))
    return matrix.mm(other).reshape([*rows, *columns])


@method
@of_tensors("input", "other")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product.

    >>> gt.kron(gt.tensor([1, 10]), gt.tensor([1, 2]))
    tensor([ 1,  2, 10, 20])
    """
    rank = max(input.dim(), other.dim())
    a = [1] * (rank - input.dim()) + list(input.shape)
    b = [1] * (rank - other.dim()) + list(other.shape)
    left = input.reshape([n for size in a for n in (size, 1)])
    right = other.reshape([n for size in b for n in (1, size)])
    return (left * right).reshape([n * m for n, m in zip(a, b)])


@method
@of_tensors("input", "other")
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors along `dim`, by default the first of size 3.

    >>> gt.cross(gt.tensor([1, 0, 0]), gt.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    if dim is None:
        found = [d for d, n in enumerate(input.shape) if n == 3]
        _needs(bool(found), "cross() no dimension of size 3", input, other)
        dim = found[0]
    _needs(input.shape[dim] == 3 and other.shape[dim] == 3, f"cross() dimension {dim} must have size 3", input, other)
    return input.roll(-1, dim) * other.roll(-2, dim) - input.roll(-2, dim) * other.roll(-1, dim)


@method
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    >>> gt.trace(gt.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    _needs(input.dim() == 2, "trace() expects a matrix", input)
    return input.diagonal().sum()


@method
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices in `dim1` and `dim2` whose diagonals are the last dimension of `input`.

    >>> gt.diag_embed(gt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    rank = input.dim() + 1
    check_dim(dim1, rank)
    check_dim(dim2, rank)
    if dim1 % rank == dim2 % rank:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    rows = _core.arange(size).unsqueeze(1)
    columns = _core.arange(size).unsqueeze(0)
    # Row r of the diagonal is element r, or r + offset below the main one.
    start = max(-offset, 0)
    spread = _core.cat([input.new_zeros(*input.shape[:-1], start), input], -1)
    spread = _core.cat([spread, input.new_zeros(*input.shape[:-1], size - spread.shape[-1])], -1)
    made = _core.where(columns - rows == offset, spread.unsqueeze(-1), spread.new_zeros(()))
    return made.movedim((-2, -1), (dim1, dim2))


@method
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The matrix with a vector as diagonal, or the diagonal of a matrix.

    >>> gt.diag(gt.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.dim() == 1:
        return diag_embed(input, diagonal)
    _needs(input.dim() == 2, "diag() expects a vector or a matrix", input)
    return input.diagonal(diagonal).clone()


@method
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of `input` as diagonal.

    >>> gt.diagflat(gt.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(input.reshape(-1), offset)


@method
def matrix_power(input: Tensor, n: int) -> Tensor:
    """A square matrix multiplied `n` times with itself.

    >>> gt.matrix_power(gt.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    if n < 0:
        from gt._methods.solving import inverse

        return matrix_power(inverse(input), -n)
    made: Tensor | None = None
    square = input
    while n:
        if n & 1:
            made = square if made is None else made.matmul(square)
        n >>= 1
        if n:
            square = square.matmul(square)
    if made is None:
        one = _core.eye(input.shape[-1], dtype=input.dtype).expand(input.shape).clone()
        return _core.with_zero_gradient(one, "MatrixPower", [input])
    return made.clone() if made is input else made


@function
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element of a vector, as rows; descending unless `increasing`.

    >>> gt.vander(gt.tensor([1, 2, 3]), increasing=True)
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    count = x.shape[-1] if N is None else N
    powers = _core.arange(count)
    made = x.unsqueeze(-1).pow(powers if increasing else powers.flip(0))
    return made


def triangle_indices(row: int, col: int, offset: int, upper: bool, dtype: Any) -> Tensor:
    """Rows and columns of a triangle's elements, in order; computed here, so nothing is read back."""
    rows: list[int] = []
    columns: list[int] = []
    for r in range(row):
        edge = min(max(r + offset + (0 if upper else 1), 0), col)
        span: Sequence[int] = range(edge, col) if upper else range(edge)
        rows.extend([r] * len(span))
        columns.extend(span)
    return _core.tensor([rows, columns], dtype=_core.int64 if dtype is None else dtype)


@function
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The rows and columns of the elements on and below a diagonal.

    >>> gt.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return triangle_indices(row, col, offset, False, dtype)


@function
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The rows and columns of the elements on and above a diagonal.

    >>> gt.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return triangle_indices(row, col, offset, True, dtype)


for _name in ("addmv", "addr", "baddbmm", "addbmm", "addmm", "tril", "triu"):
    in_place(_name)
