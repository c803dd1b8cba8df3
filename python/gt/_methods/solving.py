"""Systems of linear equations, and the factors and determinants of small matrices.

Everything is spelled out in tensor operations, one round for each row, so that nothing waits: for matrices of some tens
of rows, not for numerical work. Computed in float64.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad
from gt._methods._registry import function, method


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Tensor
    R: Tensor


def check_matrices(name: str, A: Tensor, square: bool = True) -> None:
    """Refuses what is not a batch of matrices of floats."""
    if A.dim() < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if square and A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )
    if not A.dtype.is_floating_point:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {A.dtype}")


class _Eliminated(NamedTuple):
    solution: Tensor
    pivots: Tensor
    sign: Tensor


def _eliminated(A: Tensor, B: Tensor) -> _Eliminated:
    """Gauss and Jordan's elimination of (b, n, n) and (b, n, m), each time with the largest element left in the column."""
    n = A.shape[1]
    rows = _core.cat([A, B], 2).double()
    order = _core.arange(n)
    sign = _core.ones(A.shape[0], dtype=_core.float64)
    pivots = []
    for k in range(n):
        best = rows[:, k:, k].abs().argmax(1).unsqueeze(1) + k
        swapped = _core.where(order == k, best, _core.where(order == best, k, order))
        rows = rows.gather(1, swapped.unsqueeze(2).expand(rows.shape))
        pivot = rows[:, k, k]
        sign = _core.where(best.squeeze(1) == k, sign, -sign)
        pivots.append(pivot)
        # Of a matrix without an inverse the rest is of no interest, but a determinant of zero is.
        row = rows[:, k : k + 1] / _core.where(pivot == 0, 1.0, pivot).reshape(-1, 1, 1)
        rows = _core.where((order == k).reshape(1, n, 1), row, rows - rows[:, :, k : k + 1] * row)
    found = _core.stack(pivots, 1) if pivots else _core.ones(A.shape[0], 0, dtype=_core.float64)
    return _Eliminated(rows[:, :, n:], found, sign)


def _make_functions() -> tuple[Any, Any, Any]:
    """The functions with gradients of their own. Made when first asked for: `gt.autograd` is loaded late."""
    from gt.autograd import Function

    class Solve(Function):
        """X of AX = B, of batches (b, n, n) and (b, n, m)."""

        @staticmethod
        def forward(ctx: Any, A: Tensor, B: Tensor) -> Tensor:
            found = _eliminated(A, B)
            X = found.solution.to(B.dtype)
            ctx.save_for_backward(A, X)
            return X

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            A, X = ctx.saved_tensors
            of_B = Solve.apply(A.mT, grad)
            return -(of_B @ X.mT), of_B

    class Det(Function):
        """The determinants of a batch (b, n, n)."""

        @staticmethod
        def forward(ctx: Any, A: Tensor) -> Tensor:
            found = _eliminated(A, A[:, :, :0])
            det = (found.pivots.prod(1) * found.sign).to(A.dtype)
            ctx.save_for_backward(A, det)
            return det

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            A, det = ctx.saved_tensors
            return (grad * det).unsqueeze(-1).unsqueeze(-1) * Solve.apply(A, _identity_like(A)).mT

    class LogAbsDet(Function):
        """The logarithms of the magnitudes of the determinants of a batch."""

        @staticmethod
        def forward(ctx: Any, A: Tensor) -> Tensor:
            ctx.save_for_backward(A)
            return _eliminated(A, A[:, :, :0]).pivots.abs().log().sum(1).to(A.dtype)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (A,) = ctx.saved_tensors
            return grad.unsqueeze(-1).unsqueeze(-1) * Solve.apply(A, _identity_like(A)).mT

    return Solve, Det, LogAbsDet


_made: tuple[Any, Any, Any] | None = None


def _functions() -> tuple[Any, Any, Any]:
    global _made
    if _made is None:
        _made = _make_functions()
    return _made


def _identity_like(A: Tensor) -> Tensor:
    return _core.eye(A.shape[-1], dtype=A.dtype).expand(A.shape)


def _batched(A: Tensor) -> Tensor:
    return A.reshape(math.prod(A.shape[:-2]), *A.shape[-2:])


def _singular(A: Tensor) -> Tensor:
    with no_grad():
        pivots = _eliminated(_batched(A.detach()), _batched(A.detach())[:, :, :0]).pivots
        return (pivots == 0).any()


def solved(name: str, A: Tensor, B: Tensor) -> Tensor:
    """X of AX = B for matrices B, which fails where it is read if A has no inverse."""
    lead = _core_broadcast(A.shape[:-2], B.shape[:-2])
    A = A.expand(*lead, *A.shape[-2:])
    B = B.expand(*lead, *B.shape[-2:])
    X = _functions()[0].apply(_batched(A), _batched(B)).reshape(B.shape)
    return _core.checked(X, _singular(A), "singular")


def _core_broadcast(a: Any, b: Any) -> tuple[int, ...]:
    from gt._methods.joining import broadcast_shapes

    return tuple(broadcast_shapes(tuple(a), tuple(b)))


@method
def inverse(input: Tensor) -> Tensor:
    """The inverses of square matrices.

    >>> gt.inverse(gt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_matrices("linalg.inv", input)
    return solved("linalg.inv", input, _identity_like(input))


@method
def det(input: Tensor) -> Tensor:
    """The determinants of square matrices.

    >>> gt.det(gt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    check_matrices("linalg.det", input)
    return _functions()[1].apply(_batched(input)).reshape(input.shape[:-2])  # type: ignore[no-any-return]


@method
def slogdet(input: Tensor) -> SlogdetResult:
    """The signs of determinants and the logarithms of their magnitudes.

    >>> gt.slogdet(gt.tensor([[2.0]])).sign
    tensor(1.)
    """
    check_matrices("linalg.slogdet", input)
    with no_grad():
        found = _eliminated(_batched(input.detach()), _batched(input.detach())[:, :, :0])
        sign = (found.pivots.sign().prod(1) * found.sign).to(input.dtype).reshape(input.shape[:-2])
    log = _functions()[2].apply(_batched(input)).reshape(input.shape[:-2])
    return SlogdetResult(_core.with_zero_gradient(sign, "LinalgSlogdet", [input]), log)


@method
def logdet(input: Tensor) -> Tensor:
    """The logarithms of determinants; NaN for negative ones.

    >>> gt.logdet(gt.eye(2))
    tensor(0.)
    """
    sign, log = slogdet(input)
    return _core.where(sign < 0, float("nan"), log)


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The lower triangles whose products with their transposes are the given matrices."""
    check_matrices("linalg.cholesky", input)
    A, n = _batched(input).double(), input.shape[-1]
    # Symmetric as it should be, and its gradient with it.
    A = (A + A.mT) / 2
    columns: list[Tensor] = []
    wrong = _core.tensor(False)
    for j in range(n):
        rest = A[:, j:, j]
        if columns:
            before = _core.stack(columns, 2)
            rest = rest - before[:, j:].matmul(before[:, j].unsqueeze(2)).squeeze(2)
        wrong = wrong | ~(rest[:, 0].detach() > 0).all()
        column = rest / rest[:, :1].sqrt()
        columns.append(_core.cat([A.new_zeros(A.shape[0], j), column], 1) if j else column)
    made = _core.stack(columns, 2) if columns else A
    made = (made.mT if upper else made).to(input.dtype).reshape(input.shape)
    return _core.checked(made, wrong, "not_positive_definite")


def qr(input: Tensor, some: bool = True) -> QRResult:
    """Matrices as products of orthonormal columns and an upper triangle, by Householder's reflections."""
    check_matrices("linalg.qr", input, square=False)
    m, n = input.shape[-2:]
    R = _batched(input).double()
    Q = _core.eye(m, dtype=_core.float64).expand(R.shape[0], m, m)
    for j in range(min(m - 1, n)):
        column = R[:, j:, j]
        first, size = column[:, :1], column.square().sum(1, keepdim=True).sqrt()
        # Away from zero, so that no digits are lost.
        v = _core.cat([first + _core.where(first >= 0, size, -size), column[:, 1:]], 1)
        length = v.square().sum(1, keepdim=True)
        # A column that is done already is left as it is.
        done = (column[:, 1:].detach() == 0).all(1, keepdim=True)
        factor = _core.where(done, 0.0, 2 / _core.where(done, 1.0, length)).unsqueeze(2)
        v = v.unsqueeze(2)
        low = R[:, j:] - factor * v.matmul(v.mT.matmul(R[:, j:]))
        R = _core.cat([R[:, :j], low], 1) if j else low
        right = Q[:, :, j:] - factor * Q[:, :, j:].matmul(v).matmul(v.mT)
        Q = _core.cat([Q[:, :, :j], right], 2) if j else right
    R = R.triu()
    if some:
        Q, R = Q[:, :, : min(m, n)], R[:, : min(m, n)]
    lead = input.shape[:-2]
    return QRResult(Q.to(input.dtype).reshape(*lead, *Q.shape[1:]), R.to(input.dtype).reshape(*lead, *R.shape[1:]))


@method
def matrix_exp(input: Tensor) -> Tensor:
    """The exponentials of square matrices: halved often, as a series, and squared again.

    >>> gt.matrix_exp(gt.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_matrices("linalg.matrix_exp", input)
    halvings = 10
    A = input.double() / 2**halvings
    one = _identity_like(A)
    made = one
    for i in range(12, 0, -1):
        made = one + A.matmul(made) / i
    for _ in range(halvings):
        made = made.matmul(made)
    return made.to(input.dtype)


@function
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Differences of neighbours on both sides, along each dimension, over their distance; one-sided at the ends.

    >>> gt.gradient(gt.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    spacing = 1 if spacing is None else spacing
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if len({d % input.dim() for d in dims}) != len(dims):
        raise RuntimeError(f"a dim appears multiple times in the list of dims: {dims}")
    if isinstance(spacing, Tensor) and spacing.dim() == 0:
        spacing = spacing.item()
    steps = [spacing] * len(dims) if isinstance(spacing, (int, float)) else list(spacing)
    if len(steps) != len(dims):
        raise RuntimeError(f"gradient: expected one spacing for each of {len(dims)} dimensions, got {len(steps)}")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient only supports edge_order=1 and edge_order=2, got {edge_order}")
    return tuple(_slope(input, d, step, edge_order) for d, step in zip(dims, steps))


def _slope(input: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    n = input.shape[dim]
    if n < edge_order + 1:
        raise RuntimeError(f"gradient expected each dimension size to be at least {edge_order + 1}")
    x = input.movedim(dim, -1)
    wide = x.dtype if x.dtype.is_floating_point else _core.get_default_dtype()
    if isinstance(step, Tensor):
        gap = step[1:] - step[:-1]
    else:
        # A distance is a number: it does not change the dtype.
        gap = _core.full((n - 1,), step, dtype=wide)
    rise = (x[..., 1:] - x[..., :-1]) / gap
    first, last = rise[..., :1], rise[..., -1:]
    before, after = gap[:-1], gap[1:]
    if isinstance(step, Tensor):
        inner = (rise[..., :-1] * after + rise[..., 1:] * before) / (before + after)
    else:
        # At one distance the element in the middle does not count, not even as NaN.
        inner = (x[..., 2:] - x[..., :-2]) / (before + after)
    if edge_order == 2:
        first = first + (first - rise[..., 1:2]) * gap[0] / (gap[0] + gap[1])
        last = last + (last - rise[..., -2:-1]) * gap[-1] / (gap[-1] + gap[-2])
    return _core.cat([first, inner, last], -1).movedim(-1, dim)
