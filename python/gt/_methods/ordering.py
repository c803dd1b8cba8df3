"""Finding places in sorted sequences, and runs of equal elements."""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods._registry import function, method


@function
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where to insert values so that the last dimension stays sorted: before equal ones, or with `right` behind.

    >>> gt.searchsorted(gt.tensor([1, 3, 5]), gt.tensor([3, 4]))
    tensor([1, 2])
    """
    if side is not None:
        if side not in ("left", "right"):
            raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
        right = side == "right"
    values = _core.as_tensor(input)
    if sorter is not None:
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    size = sorted_sequence.shape[-1]
    low = _core.zeros(values.shape, dtype=_core.int64)
    if size == 0:
        return low.int() if out_int32 else low
    if sorted_sequence.dim() > 1 and tuple(sorted_sequence.shape[:-1]) != tuple(values.shape[:-1]):
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
            f"and input value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} and input "
            f"value tensor {list(values.shape)}"
        )
    high = low + size
    for _ in range(size.bit_length()):
        middle = (low + high) // 2
        place = middle.clamp(max=size - 1)
        seen = sorted_sequence[place] if sorted_sequence.dim() == 1 else sorted_sequence.gather(-1, place)
        # A NaN is behind all numbers: it is not larger than another, nor another than it.
        behind = ~(seen > values if right else seen >= values) & (low < high)
        low, high = _core.where(behind, middle + 1, low), _core.where(behind, high, middle)
    return low.int() if out_int32 else low


@function
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket between sorted `boundaries` that each value falls into.

    >>> gt.bucketize(gt.tensor([0.5, 3.0]), gt.tensor([1.0, 2.0]))
    tensor([0, 2])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def _needs_dimension(input: Tensor, dim: int | None) -> None:
    if dim is not None and input.dim() == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


@method
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements (or slices along `dim`). Waits, because its size depends on the data.

    >>> gt.unique_consecutive(gt.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    _needs_dimension(input, dim)
    source = input.reshape(-1) if dim is None else input.movedim(dim, 0)
    count = source.shape[0]
    rows = source.reshape(count, -1) if count else source
    if count:
        new = (rows.narrow(0, 1, count - 1) != rows.narrow(0, 0, count - 1)).any(-1)
        starts = _core.cat([_core.ones(1, dtype=_core.bool), new])
    else:
        starts = _core.zeros(0, dtype=_core.bool)
    where = starts.nonzero().reshape(-1)
    kept = source[where]
    made: list[Tensor] = [kept if dim is None else kept.movedim(0, dim)]
    if return_inverse:
        inverse = starts.long().cumsum(0) - 1
        made.append(inverse.reshape(input.shape) if dim is None else inverse)
    if return_counts:
        ends = _core.cat([where.narrow(0, min(1, where.shape[0]), max(where.shape[0] - 1, 0)), _core.tensor([count])])
        made.append(ends.narrow(0, 0, where.shape[0]) - where)
    return made[0] if len(made) == 1 else tuple(made)


@method
def msort(input: Tensor) -> Tensor:
    """The elements sorted along the first dimension.

    >>> gt.msort(gt.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return input.sort(0).values


# The extension finds the distinct elements of a tensor; distinct slices are found here.
_distinct_elements = Tensor.unique


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along `dim`), ascending. Waits, because its size depends on the data.

    >>> gt.unique(gt.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    _needs_dimension(input, dim)
    if dim is None or input.dim() <= 1:
        return _distinct_elements(input, sorted, return_inverse, return_counts)
    rows = input.movedim(dim, 0)
    if rows.shape[0] and not input.numel():
        raise RuntimeError(
            f"There are 0 sized dimensions beside dimension {dim} in shape {tuple(input.shape)}, so unique cannot be applied"
        )
    flat = rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
    # Sorting by the last column first, and stably, leaves the rows in the order of their first difference.
    order = _core.arange(flat.shape[0])
    for column in reversed(range(flat.shape[1])):
        order = order[flat[order, column].sort(dim=0, stable=True).indices]
    made = unique_consecutive(rows[order].movedim(0, dim), True, True, dim)
    values, places, counts = made
    inverse = _core.zeros_like(places).scatter(0, order, places)
    parts = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return parts[0] if len(parts) == 1 else tuple(parts)


Tensor.unique = unique  # type: ignore[method-assign, assignment]
function(unique)
