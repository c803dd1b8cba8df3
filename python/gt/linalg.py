"""Norms and products of vectors and matrices, equations and factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gt._core import Tensor
from gt._methods.linear import chain_matmul
from gt._methods.linear import cross as _cross
from gt._methods.linear import matrix_power as _matrix_power
from gt._methods.solving import QRResult, SlogdetResult, check_matrices, solved
from gt._methods.solving import cholesky as _cholesky
from gt._methods.solving import det as _det
from gt._methods.solving import inverse as _inverse
from gt._methods.solving import matrix_exp as _matrix_exp
from gt._methods.solving import qr as _qr
from gt._methods.solving import slogdet as _slogdet
from gt._missing import names_missing_in

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "inv",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "vecdot",
    "vector_norm",
]

LinAlgError = RuntimeError

Dims = int | Sequence[int] | None


def vector_norm(x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The `ord`-norm of the elements along `dim`, or of all of them.

    >>> gt.linalg.vector_norm(gt.tensor([[3.0, 4.0]]))
    tensor(5.)
    """
    if dtype is not None:
        x = x.to(dtype)
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype}")
    return x.norm(ord, dim=dim, keepdim=keepdim)


def matrix_norm(
    A: Tensor, ord: float | str = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices: `"fro"`, or the largest (smallest) sum of magnitudes of a column, ±1, or of a row, ±inf.

    >>> gt.linalg.matrix_norm(gt.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    if dtype is not None:
        A = A.to(dtype)
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim)
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise NotImplementedError(f"linalg.matrix_norm: norm {ord!r} needs singular values, which GT does not have yet")
    rows, columns = (d % A.dim() for d in dim)
    summed, reduced = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = A.abs().sum(summed, keepdim=True)
    made = sums.amax(reduced, keepdim=True) if ord > 0 else sums.amin(reduced, keepdim=True)
    return made if keepdim else made.squeeze((rows, columns))


def norm(
    A: Tensor, ord: float | str | None = None, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of a vector or of matrices, as `ord` and `dim` say; by default of all elements.

    >>> gt.linalg.norm(gt.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    listed = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if isinstance(ord, str) or (listed is not None and len(listed) == 2) or (listed is None and A.dim() == 2):
        pair = (-2, -1) if listed is None else (listed[0], listed[1])
        return matrix_norm(A, ord, pair, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors along `dim`.

    >>> gt.linalg.cross(gt.tensor([1, 0, 0]), gt.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    return _cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices.

    >>> gt.linalg.diagonal(gt.eye(2))
    tensor([1., 1.])
    """
    return A.diagonal(offset, dim1, dim2)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """As `gt.matmul`.

    >>> gt.linalg.matmul(gt.ones(1, 2), gt.ones(2, 1))
    tensor([[2.]])
    """
    return input.matmul(other)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """As `gt.matrix_power`.

    >>> gt.linalg.matrix_power(gt.eye(1) * 2, 3)
    tensor([[8.]])
    """
    return _matrix_power(A, n)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices in the order that takes the fewest multiplications; ends may be vectors.

    >>> gt.linalg.multi_dot([gt.ones(2), gt.ones(2, 3), gt.ones(3)])
    tensor(6.)
    """
    parts = list(tensors)
    row, column = parts[0].dim() == 1, parts[-1].dim() == 1
    if row:
        parts[0] = parts[0].unsqueeze(0)
    if column:
        parts[-1] = parts[-1].unsqueeze(1)
    made = chain_matmul(*parts)
    if row:
        made = made.squeeze(0)
    return made.squeeze(-1) if column else made


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The dot products of vectors along `dim`.

    >>> gt.linalg.vecdot(gt.ones(2, 3), gt.ones(2, 3))
    tensor([3., 3.])
    """
    return (x * y).sum(dim)


def det(A: Tensor) -> Tensor:
    """The determinants of square matrices.

    >>> gt.linalg.det(gt.eye(2) * 3)
    tensor(9.)
    """
    return _det(A)


def slogdet(A: Tensor) -> SlogdetResult:
    """The signs of determinants and the logarithms of their magnitudes.

    >>> gt.linalg.slogdet(gt.eye(2)).logabsdet
    tensor(0.)
    """
    return _slogdet(A)


def inv(A: Tensor) -> Tensor:
    """The inverses of square matrices; where there is none, reading the result raises.

    >>> gt.linalg.inv(gt.eye(1) * 4)
    tensor([[0.2500]])
    """
    return _inverse(A)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of AX = B, or of XA = B with `left=False`. B holds matrices, or one vector for each matrix.

    >>> gt.linalg.solve(gt.tensor([[2.0, 0.0], [0.0, 4.0]]), gt.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    check_matrices("linalg.solve", A)
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    if vector and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False")
    right = B.unsqueeze(-1) if vector else B
    rows = right.shape[-2 if left else -1] if right.dim() >= 2 else 0
    if rows != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation AX = B: {tuple(A.shape)} and {tuple(B.shape)}"
        )
    if A.dtype != B.dtype:
        raise RuntimeError(f"linalg.solve: Expected A and B to have the same dtype, got {A.dtype} and {B.dtype}")
    if not left:
        return solved("linalg.solve", A.mT, right.mT).mT
    made = solved("linalg.solve", A, right)
    return made.squeeze(-1) if vector else made


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """As `solve`, of the upper or the lower triangle of A alone.

    >>> gt.linalg.solve_triangular(gt.ones(2, 2), gt.ones(2, 1), upper=True)
    tensor([[0.],
            [1.]])
    """
    check_matrices("linalg.solve_triangular", A)
    triangle = A.triu() if upper else A.tril()
    if unitriangular:
        diagonal_of_ones = triangle.diagonal(0, -2, -1) * 0 + 1
        triangle = triangle - triangle.diagonal(0, -2, -1).diag_embed() + diagonal_of_ones.diag_embed()
    return solve(triangle, B, left=left)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangles L with LLᵀ = A; where there is none, reading the result raises.

    >>> gt.linalg.cholesky(gt.eye(1) * 9)
    tensor([[3.]])
    """
    return _cholesky(A, upper)


def qr(A: Tensor, mode: str = "reduced") -> QRResult:
    """A as orthonormal columns times an upper triangle: `"reduced"`, `"complete"`, or `"r"` for the triangle alone.

    >>> gt.linalg.qr(gt.eye(1)).Q
    tensor([[1.]])
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced', 'r', or 'complete'")
    made = _qr(A, mode != "complete")
    return QRResult(made.Q.new_empty(0), made.R) if mode == "r" else made


def matrix_exp(A: Tensor) -> Tensor:
    """The exponentials of square matrices.

    >>> gt.linalg.matrix_exp(gt.zeros(1, 1))
    tensor([[1.]])
    """
    return _matrix_exp(A)


__path__: list[str] = []
__getattr__ = names_missing_in("gt.linalg")
