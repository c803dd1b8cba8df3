"""Putting pooled elements back where they came from."""

from __future__ import annotations

import math
from typing import Any

from gt._core import Tensor
from gt.nn.functional._pooling import _batched
from gt.nn.functional._windows import per_dimension


def _unpooled(
    name: str, rank: int, input: Tensor, indices: Tensor, kernel: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    if indices.shape != input.shape:
        raise RuntimeError(
            f"{name}: expected shape of indices to be same as that of the input tensor ({tuple(input.shape)}) "
            f"but got {tuple(indices.shape)}"
        )
    x, single = _batched(name, input, rank)
    kernels = per_dimension("kernel_size", kernel, rank)
    steps = kernels if stride is None else per_dimension("stride", stride, rank)
    around = per_dimension("padding", padding, rank)
    default = [(x.shape[2 + i] - 1) * steps[i] - 2 * around[i] + kernels[i] for i in range(rank)]
    size = default if output_size is None else list(output_size)[-rank:]
    for i, (wanted, usual) in enumerate(zip(size, default)):
        if not usual - steps[i] < wanted < usual + steps[i]:
            raise ValueError(
                f'invalid output_size "{tuple(size)}" (dim {i} must be near {usual} by less than {steps[i]})'
            )
    lead = x.shape[:2]
    flat = x.new_zeros((*lead, math.prod(size)))
    made = flat.scatter(2, indices.reshape(*lead, -1), x.reshape(*lead, -1)).reshape(*lead, *size)
    return made.squeeze(0) if single else made


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Maxima at the places that `max_pool1d` gave, zero elsewhere.

    >>> gt.nn.functional.max_unpool1d(gt.tensor([[[3.0]]]), gt.tensor([[[1]]]), 2)
    tensor([[[0., 3.]]])
    """
    return _unpooled("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Maxima at the places that `max_pool2d` gave, zero elsewhere.

    >>> gt.nn.functional.max_unpool2d(gt.tensor([[[[3.0]]]]), gt.tensor([[[[1]]]]), 2).tolist()
    [[[[0.0, 3.0], [0.0, 0.0]]]]
    """
    return _unpooled("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Maxima at the places that `max_pool3d` gave, zero elsewhere.

    >>> gt.nn.functional.max_unpool3d(gt.ones(1, 1, 1, 1, 1), gt.zeros(1, 1, 1, 1, 1, dtype=gt.int64), 2).sum().item()
    1.0
    """
    return _unpooled("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)
