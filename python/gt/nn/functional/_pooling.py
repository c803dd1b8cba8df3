"""Maxima and means over windows.

POOLING-1: where two elements of a window are equally large, the first takes the gradient, as in PyTorch.
POOLING-2: windows are reduced one dimension after the other, by comparing (or adding) slices: these are element by element,
so they run as one loop, and nothing is copied for overlapping windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.functional._layer_norm import _HALVES
from gt.nn.functional._padding import pad
from gt.nn.functional._windows import per_dimension


def _batched(name: str, input: Tensor, rank: int) -> tuple[Tensor, bool]:
    if input.dim() not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D input tensor, but got shape {tuple(input.shape)}"
        )
    single = input.dim() == rank + 1
    return (input.unsqueeze(0) if single else input), single


class _Grid:
    """Where the windows of a pooling lie."""

    def __init__(
        self, name: str, input: Tensor, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
    ) -> None:
        self.rank = rank
        self.kernel = per_dimension("kernel_size", kernel, rank)
        empty = stride is None or (not isinstance(stride, int) and len(stride) == 0)
        self.stride = self.kernel if empty else per_dimension("stride", stride, rank)
        self.padding = per_dimension("padding", padding, rank)
        self.dilation = per_dimension("dilation", dilation, rank)
        self.size = tuple(input.shape[-rank:])
        if min(self.stride) < 1 or min(self.kernel) < 1 or min(self.dilation) < 1:
            raise RuntimeError(
                f"{name}: kernel size, stride and dilation should be greater than zero, got {self.kernel}, "
                f"{self.stride}, {self.dilation}"
            )
        if any(p < 0 or p > ((k - 1) * d + 1) // 2 for p, k, d in zip(self.padding, self.kernel, self.dilation)):
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={self.padding}, "
                f"kernel_size={self.kernel} and dilation={self.dilation}"
            )
        self.out = tuple(self._count(i, ceil) for i in range(rank))
        if min(self.out) < 1:
            raise RuntimeError(
                f"{name}: Given input size: {tuple(input.shape)}. Calculated output size: {self.out}. "
                "Output size is too small"
            )

    def _count(self, i: int, ceil: bool) -> int:
        span = self.size[i] + 2 * self.padding[i] - self.dilation[i] * (self.kernel[i] - 1) - 1
        count = (span + (self.stride[i] - 1 if ceil else 0)) // self.stride[i] + 1
        # The last window must start inside the input or the padding before it.
        if ceil and (count - 1) * self.stride[i] >= self.size[i] + self.padding[i]:
            count -= 1
        return count

    @property
    def tiles(self) -> bool:
        """Whether windows lie side by side and cover the input exactly."""
        return (
            self.kernel == self.stride
            and not any(self.padding)
            and all(d == 1 for d in self.dilation)
            and all(o * k == n for o, k, n in zip(self.out, self.kernel, self.size))
        )

    def padded(self, input: Tensor, value: float) -> Tensor:
        """The input with padding before and after, as far as the last window reaches."""
        sides: list[int] = []
        for i in reversed(range(self.rank)):
            reach = (self.out[i] - 1) * self.stride[i] + self.dilation[i] * (self.kernel[i] - 1) + 1
            sides += [self.padding[i], max(reach - self.padding[i] - self.size[i], 0)]
        return pad(input, sides, value=value) if any(sides) else input


def _along(axis: int, start: int, count: int, step: int) -> tuple[slice, ...]:
    """Every `step`-th element from `start` on, `count` of them."""
    return (slice(None),) * axis + (slice(start, start + (count - 1) * step + 1, step),)


def _largest_along(
    values: Tensor, index: Tensor | None, grid: _Grid, i: int, with_index: bool
) -> tuple[Tensor, Tensor | None]:
    """Maxima of windows along one dimension, and where they are in the flattened plane of the input."""
    axis, out, step, dilation = 2 + i, grid.out[i], grid.stride[i], grid.dilation[i]
    best: Tensor | None = None
    where: Tensor | None = None
    for place in range(grid.kernel[i]):
        part = _along(axis, place * dilation, out, step)
        candidate = values[part]
        place_of: Tensor | None = None
        if with_index:
            row = (_core.arange(out) * step + (place * dilation - grid.padding[i])) * math.prod(grid.size[i + 1 :])
            row = row.reshape(-1, *([1] * (grid.rank - 1 - i)))
            place_of = row.expand(candidate.shape) if index is None else index[part] + row
        if best is None:
            best, where = candidate, place_of
            continue
        # NaN wins, and what came first wins over its equals.
        wins = (candidate > best) | (candidate != candidate)
        best = _core.where(wins, candidate, best)
        if place_of is not None and where is not None:
            where = _core.where(wins, place_of, where)
    assert best is not None
    return best, where


def _max_pool(
    name: str,
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    x, single = _batched(name, input, rank)
    grid = _Grid(name, x, rank, kernel_size, stride, padding, dilation, ceil_mode)
    values = grid.padded(x, -math.inf if x.dtype.is_floating_point else _lowest(x))
    index: Tensor | None = None
    # From the last dimension to the first: the first of equals in a window is then the first in reading order.
    for i in reversed(range(rank)):
        values, index = _largest_along(values, index, grid, i, return_indices)
    values = values.contiguous()
    values = values.squeeze(0) if single else values
    if index is None:
        return values
    return values, (index.squeeze(0) if single else index)


def _lowest(x: Tensor) -> int:
    from gt._limits import iinfo

    return iinfo(x.dtype).min


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, L) or (C, L).

    >>> gt.nn.functional.max_pool1d(gt.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, H, W) or (C, H, W).

    >>> gt.nn.functional.max_pool2d(gt.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.functional.max_pool3d(gt.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    tensor([[[[[7.]]]]])
    """
    return _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _divisors(grid: _Grid, count_include_pad: bool) -> list[list[int]]:
    """How many elements each window counts, along each dimension."""
    counts = []
    for i in range(grid.rank):
        row = []
        for o in range(grid.out[i]):
            start = o * grid.stride[i] - grid.padding[i]
            end = min(start + grid.kernel[i], grid.size[i] + grid.padding[i])
            if not count_include_pad:
                start, end = max(start, 0), min(end, grid.size[i])
            row.append(end - start)
        counts.append(row)
    return counts


def _avg_pool(
    name: str,
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if not input.is_floating_point() and input.dtype != _core.int64:
        raise NotImplementedError(f"{name} is not defined on {input.dtype}: convert the input first, x.float()")
    if input.dtype in _HALVES:
        # The total of a large window may be too large for the dtype although its mean is not.
        wide = input.float()
        options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return _avg_pool(name, rank, wide, *options).to(input.dtype)
    x, single = _batched(name, input, rank)
    grid = _Grid(name, x, rank, kernel_size, stride, padding, 1, ceil_mode)
    counts = _divisors(grid, count_include_pad)
    if grid.tiles:
        dims = tuple(3 + 2 * i for i in range(rank))
        shape = [*x.shape[:2], *(n for pair in zip(grid.out, grid.kernel) for n in pair)]
        total = x.reshape(shape).sum(dims)
    else:
        # One dimension after the other: a sum over k by k places is 2k additions, not k².
        total = grid.padded(x, 0.0)
        for i in range(rank):
            parts = [total[_along(2 + i, p, grid.out[i], grid.stride[i])] for p in range(grid.kernel[i])]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
    # Means of integers are integers, cut off towards zero.
    rounding = None if x.is_floating_point() else "trunc"
    if divisor_override is not None:
        made = total.div(divisor_override, rounding_mode=rounding)
    elif all(len(set(row)) == 1 for row in counts):
        made = total.div(math.prod(row[0] for row in counts), rounding_mode=rounding)
    else:
        made = total
        for i, row in enumerate(counts):
            divisors = _core.tensor(row, dtype=x.dtype).reshape(-1, *([1] * (rank - 1 - i)))
            made = made.div(divisors, rounding_mode=rounding)
    return made.squeeze(0) if single else made


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of (N, C, L) or (C, L).

    >>> gt.nn.functional.avg_pool1d(gt.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of (N, C, H, W) or (C, H, W).

    >>> gt.nn.functional.avg_pool2d(gt.arange(4.0).reshape(1, 1, 2, 2), 2)
    tensor([[[[1.5000]]]])
    """
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.functional.avg_pool3d(gt.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    tensor([[[[[3.5000]]]]])
    """
    return _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _lp_pool(rank: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    pools: Sequence[Any] = (avg_pool1d, avg_pool2d, avg_pool3d)
    kernel = per_dimension("kernel_size", kernel_size, rank)
    mean: Tensor = pools[rank - 1](input.pow(norm_type), kernel, stride, 0, ceil_mode)
    # The sign, so that the root of a negative mean (odd powers) is zero and not NaN.
    return ((mean.sign() * mean.abs().relu()) * math.prod(kernel)).pow(1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of (N, C, L) or (C, L).

    >>> gt.nn.functional.lp_pool1d(gt.tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of (N, C, H, W) or (C, H, W).

    >>> gt.nn.functional.lp_pool2d(gt.tensor([[[[3.0, 4.0]]]]), 2, (1, 2))
    tensor([[[[5.]]]])
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.functional.lp_pool3d(gt.ones(1, 1, 2, 2, 1), 2, (2, 2, 1)).item()
    2.0
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
