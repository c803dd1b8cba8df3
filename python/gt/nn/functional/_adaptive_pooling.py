"""Pooling to an output of a given size: windows are as even as the sizes allow.

ADAPTIVE-1: output i covers the elements from floor(i · n / m) to ceil((i + 1) · n / m), so neighbours may overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.functional._layer_norm import _HALVES
from gt.nn.functional._pooling import _batched, avg_pool1d, avg_pool2d, avg_pool3d


def _sizes(name: str, output_size: Any, x: Tensor, rank: int) -> tuple[int, ...]:
    given = (output_size,) * rank if isinstance(output_size, int) or output_size is None else tuple(output_size)
    if len(given) != rank:
        raise RuntimeError(f"{name}: output_size must be 1 number or {rank}, got {output_size}")
    made = tuple(x.shape[-rank + i] if n is None else int(n) for i, n in enumerate(given))
    if min(made) < 0:
        raise RuntimeError(f"{name}: elements of output_size must be greater than or equal to 0, got {list(made)}")
    return made


def _windows(size: int, out: int) -> list[tuple[int, int]]:
    return [(i * size // out, -(-((i + 1) * size) // out)) for i in range(out)]


def _spread(x: Tensor, axis: int, windows: list[tuple[int, int]]) -> tuple[Tensor, list[list[bool]]]:
    """Windows as a new dimension after `axis`, short ones filled up with their last element; and what is no filling."""
    width = max(end - start for start, end in windows)
    index = [min(start + i, end - 1) for start, end in windows for i in range(width)]
    there = [[start + i < end for i in range(width)] for start, end in windows]
    spread = x.index_select(axis, _core.tensor(index, dtype=_core.int64))
    return spread.unflatten(axis, (len(windows), width)), there


def _mean_along(x: Tensor, axis: int, out: int) -> Tensor:
    windows = _windows(x.shape[axis], out)
    spread, there = _spread(x, axis, windows)
    trailing = [1] * (x.dim() - axis - 1)
    kept = _core.tensor(there).reshape(out, -1, *trailing)
    count = _core.tensor([end - start for start, end in windows], dtype=x.dtype).reshape(out, *trailing)
    return _core.where(kept, spread, 0.0).sum(axis + 1) / count


def _adaptive_avg(name: str, rank: int, input: Tensor, output_size: Any) -> Tensor:
    if input.dim() <= rank and not isinstance(output_size, int):
        raise ValueError(f"Input dimension should be at least {rank + 1}, got shape {tuple(input.shape)}")
    if not input.is_floating_point():
        raise NotImplementedError(f"{name} is not defined on {input.dtype}: convert the input first, x.float()")
    if input.dtype in _HALVES:
        return _adaptive_avg(name, rank, input.float(), output_size).to(input.dtype)
    x, single = _batched(name, input, rank)
    sizes = _sizes(name, output_size, x, rank)
    if 0 in sizes:
        return input.new_zeros((*input.shape[:-rank], *sizes))
    if all(n % m == 0 for n, m in zip(x.shape[-rank:], sizes)):
        pools: Sequence[Any] = (avg_pool1d, avg_pool2d, avg_pool3d)
        made: Tensor = pools[rank - 1](x, tuple(n // m for n, m in zip(x.shape[-rank:], sizes)))
    else:
        made = x
        for i, size in enumerate(sizes):
            made = _mean_along(made, 2 + i, size)
    return made.squeeze(0) if single else made


def _adaptive_max(name: str, rank: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    if input.dim() <= rank and not isinstance(output_size, int):
        raise ValueError(f"Input dimension should be at least {rank + 1}, got shape {tuple(input.shape)}")
    x, single = _batched(name, input, rank)
    sizes = _sizes(name, output_size, x, rank)
    if 0 in sizes:
        empty = input.new_zeros((*input.shape[:-rank], *sizes))
        return (empty, empty.long()) if return_indices else empty
    # Filling repeats an element of the same window, behind it: the first of equals is still the one it was.
    spread = x
    place: Tensor | None = None
    for i, size in enumerate(sizes):
        windows = _windows(x.shape[2 + i], size)
        spread, _ = _spread(spread, 2 + 2 * i, windows)
        width = spread.shape[3 + 2 * i]
        covered = [min(start + k, end - 1) for start, end in windows for k in range(width)]
        own = _core.tensor(covered, dtype=_core.int64) * math.prod(x.shape[3 + i :])
        shape = [1] * (2 * rank)
        shape[2 * i], shape[2 * i + 1] = size, width
        own = own.reshape(shape)
        place = own if place is None else place + own
    assert place is not None
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    window = math.prod(spread.shape[3::2])
    flat = spread.permute(0, 1, *(2 + o for o in order)).reshape(*x.shape[:2], *sizes, window)
    best = flat.max(-1)
    values = best[0].squeeze(0) if single else best[0]
    if not return_indices:
        return values
    places = place.permute(order).reshape(*sizes, window).expand(*x.shape[:2], *sizes, window)
    index = places.gather(-1, best[1].unsqueeze(-1)).squeeze(-1)
    return values, (index.squeeze(0) if single else index)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows, so many that the last dimension becomes `output_size`.

    >>> gt.nn.functional.adaptive_avg_pool1d(gt.tensor([[[1.0, 2.0, 3.0]]]), 2)
    tensor([[[1.5000, 2.5000]]])
    """
    return _adaptive_avg("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows, so many that the last two dimensions become `output_size`.

    >>> gt.nn.functional.adaptive_avg_pool2d(gt.ones(1, 2, 5, 7), (1, 3)).shape
    gt.Size([1, 2, 1, 3])
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows, so many that the last three dimensions become `output_size`.

    >>> gt.nn.functional.adaptive_avg_pool3d(gt.ones(1, 2, 3, 4, 5), 1).shape
    gt.Size([1, 2, 1, 1, 1])
    """
    return _adaptive_avg("adaptive_avg_pool3d", 3, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over windows, so many that the last dimension becomes `output_size`.

    >>> gt.nn.functional.adaptive_max_pool1d(gt.tensor([[[1.0, 2.0, 3.0]]]), 2)
    tensor([[[2., 3.]]])
    """
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over windows, so many that the last two dimensions become `output_size`.

    >>> gt.nn.functional.adaptive_max_pool2d(gt.ones(1, 2, 5, 7), (1, 3)).shape
    gt.Size([1, 2, 1, 3])
    """
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over windows, so many that the last three dimensions become `output_size`.

    >>> gt.nn.functional.adaptive_max_pool3d(gt.ones(1, 2, 3, 4, 5), 1).shape
    gt.Size([1, 2, 1, 1, 1])
    """
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices)
