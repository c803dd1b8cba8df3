"""Maxima of windows at pseudo-random places, so that pooling shrinks by a factor that is not whole."""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.functional._pooling import _batched
from gt.nn.functional._windows import per_dimension


def _starts(sample: Tensor, extent: int, windows: int, kernel: int) -> Tensor:
    """Where windows begin, for each random number of `sample`: about evenly spaced, the last at the end."""
    last = extent - kernel
    if windows == 1:
        return _core.full((*sample.shape, 1), last)
    alpha = last / (windows - 1)
    shift = sample.unsqueeze(-1)
    count = _core.arange(windows)
    places = ((count + shift) * alpha).floor() - (shift * alpha).floor()
    return _core.where(count == windows - 1, last, places.long())


def _pooled(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    x, single = _batched(name, input, rank)
    kernels = per_dimension("kernel_size", kernel_size, rank)
    extents = x.shape[2:]
    if output_size is None:
        ratios = (output_ratio,) * rank if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
        sizes = [int(extent * ratio) for extent, ratio in zip(extents, ratios)]
    else:
        sizes = list(per_dimension("output_size", output_size, rank))
    for extent, size, kernel in zip(extents, sizes, kernels):
        # Of volumes PyTorch wants one element to spare.
        if size + kernel - 1 > extent - (rank == 3):
            raise RuntimeError(f"{name}(): pool size {kernel} too large relative to input size {extent}")
    lead = tuple(x.shape[:2])
    if samples is None:
        samples = _core.rand((*lead, rank), dtype=x.dtype)
    flat: Tensor | None = None
    for dim in range(rank):
        # PyTorch draws the columns of images before their rows, but the depths of volumes first.
        drawn = samples[..., rank - 1 - dim if rank == 2 else dim].reshape(lead)
        first = _starts(drawn, extents[dim], sizes[dim], kernels[dim])
        here = first.unsqueeze(-1) + _core.arange(kernels[dim])
        shape = [*lead, *([1] * (2 * rank))]
        shape[2 + dim], shape[2 + rank + dim] = sizes[dim], kernels[dim]
        here = here.reshape(shape)
        flat = here if flat is None else flat * extents[dim] + here
    assert flat is not None
    # Sizes are written out: a batch may be empty.
    flat = flat.expand(*lead, *sizes, *kernels).reshape(*lead, math.prod(sizes) * math.prod(kernels))
    found = x.reshape(*lead, math.prod(extents)).gather(2, flat).reshape(*lead, *sizes, math.prod(kernels))
    best, which = found.max(-1)
    where = flat.reshape(found.shape).gather(-1, which.unsqueeze(-1)).squeeze(-1)
    return (best.squeeze(0), where.squeeze(0)) if single else (best, where)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of windows at pseudo-random places of images (N, C, H, W) or (C, H, W).

    >>> gt.nn.functional.fractional_max_pool2d(gt.ones(1, 1, 5, 5), 2, output_size=3).shape
    gt.Size([1, 1, 3, 3])
    """
    best, where = _pooled(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return (best, where) if return_indices else best


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of windows at pseudo-random places of volumes (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.functional.fractional_max_pool3d(gt.ones(1, 1, 6, 6, 6), 2, output_ratio=0.5).shape
    gt.Size([1, 1, 3, 3, 3])
    """
    best, where = _pooled(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return (best, where) if return_indices else best
