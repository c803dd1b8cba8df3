"""Running results along a dimension, and differences between neighbours.

SCANNING-1: a scan by an operation without a primitive doubles its reach with every step, so it takes log2(n) of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gt import _core, return_types
from gt._core import Tensor
from gt._methods._dimension import is_single
from gt._methods._registry import function, in_place, method
from gt._methods.elementwise import logaddexp


def _doubling(input: Tensor, dim: int, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """`out[i] = join(out[i - 1], input[i])` for an associative `join`."""
    size = input.shape[dim]
    reach = 1
    while reach < size:
        rest = size - reach
        later = join(input.narrow(dim, 0, rest), input.narrow(dim, reach, rest))
        input = _core.cat([input.narrow(dim, 0, reach), later], dim)
        reach *= 2
    return input


def _running_extreme(input: Tensor, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    if is_single(input, dim):
        return input.clone(), _core.zeros((), dtype=_core.int64)
    source = input.detach()
    shape = [1] * input.dim()
    shape[dim] = -1
    index = _core.arange(input.shape[dim]).reshape(shape).expand(input.shape)
    floating = input.dtype.is_floating_point

    def later(first: Tensor, second: Tensor) -> Tensor:
        a, b = source.gather(dim, first), source.gather(dim, second)
        wins = b >= a if largest else b <= a
        if floating:
            wins = b.isnan() | (~a.isnan() & wins)
        return _core.where(wins, second, first)

    index = _doubling(index, dim, later)
    return input.gather(dim, index), index


@method
def cummax(input: Tensor, dim: int) -> return_types.values_and_indices:
    """The largest element so far along a dimension, and where it was last.

    >>> gt.cummax(gt.tensor([1, 3, 2]), 0).values
    tensor([1, 3, 3])
    """
    return return_types.cummax(*_running_extreme(input, dim, largest=True))


@method
def cummin(input: Tensor, dim: int) -> return_types.values_and_indices:
    """The smallest element so far along a dimension, and where it was last.

    >>> gt.cummin(gt.tensor([3, 1, 2]), 0).values
    tensor([3, 1, 1])
    """
    return return_types.cummin(*_running_extreme(input, dim, largest=False))


@method
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log(cumsum(exp(input))) without overflow.

    >>> gt.logcumsumexp(gt.tensor([1000.0, 1000.0]), 0)
    tensor([1000.0000, 1000.6932])
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"logcumsumexp is not implemented for {input.dtype}")
    return input.clone() if is_single(input, dim) else _doubling(input, dim, logaddexp)


@method
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along a dimension, `n` times over.

    >>> gt.diff(gt.tensor([1, 3, 6]))
    tensor([2, 3])
    """
    if input.dim() == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    parts = [t for t in (prepend, input, append) if t is not None]
    if len(parts) > 1:
        input = _core.cat(parts, dim)
    for _ in range(min(n, input.shape[dim])):
        rest = max(input.shape[dim] - 1, 0)
        start = min(1, input.shape[dim])
        later, earlier = input.narrow(dim, start, rest), input.narrow(dim, 0, rest)
        input = later ^ earlier if input.dtype == _core.bool else later - earlier
    return input


def _panels(y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    if y.shape[dim] == 0:
        # No points, so no panels.
        return y
    rest = y.shape[dim] - 1
    sums: Tensor = y.narrow(dim, 1, rest) + y.narrow(dim, 0, rest)
    if x is None:
        half: float = dx / 2
        return sums * half
    if x.dim() == 1 and y.dim() > 1:
        shape = [1] * y.dim()
        shape[dim] = -1
        x = x.reshape(shape)
    return sums * diff(x, dim=dim) / 2


@function
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of `y` by the trapezoidal rule, over points `x` or ones that are `dx` apart.

    >>> gt.trapezoid(gt.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    return _panels(y, x, 1 if dx is None else dx, dim).sum(dim)


@function
def trapz(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """As `trapezoid`.

    >>> gt.trapz(gt.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    return trapezoid(y, x, dx=dx, dim=dim)


@function
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of `y` so far, by the trapezoidal rule.

    >>> gt.cumulative_trapezoid(gt.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    return _panels(y, x, 1 if dx is None else dx, dim).cumsum(dim)


for _name in ("cumsum", "cumprod"):
    in_place(_name)
