"""Sliding windows over the last dimensions: how convolution and pooling see their input.

WINDOWS-1: a window position is one strided slice of the padded input, so windows of k places are k slices and one stack;
their gradients come from the core.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.functional._padding import pad


def per_dimension(name: str, value: Any, rank: int) -> tuple[int, ...]:
    """One number for all dimensions, or one for each."""
    if isinstance(value, int):
        return (value,) * rank
    made = tuple(int(v) for v in value)
    if len(made) == 1:
        return made * rank
    if len(made) != rank:
        raise RuntimeError(f"{name} must be a single integer or {rank} of them, got {list(made)}")
    return made


def positions(size: int, kernel: int, stride: int, dilation: int) -> int:
    """How many windows fit into a padded dimension."""
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def window_slices(
    padded: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], out: Sequence[int]
) -> list[Tensor]:
    """One tensor for every place in the window, each as large as the output."""
    lead = (slice(None),) * (padded.dim() - len(kernel))
    slices = []
    for place in itertools.product(*(range(k) for k in kernel)):
        where = tuple(slice(p * d, p * d + s * (o - 1) + 1, s) for p, d, s, o in zip(place, dilation, stride, out))
        slices.append(padded[lead + where])
    return slices


def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Windows of (N, C, H, W) as columns: (N, C · kernel, windows).

    >>> gt.nn.functional.unfold(gt.ones(1, 2, 4, 4), 2).shape
    gt.Size([1, 8, 9])
    """
    if input.dim() not in (3, 4):
        raise RuntimeError(f"Expected 3D or 4D (batch mode) tensor for input, got shape {tuple(input.shape)}")
    kernel, dil, around, step = (
        per_dimension(n, v, 2)
        for n, v in (("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride))
    )
    single = input.dim() == 3
    x = input.unsqueeze(0) if single else input
    if any(around):
        x = pad(x, (around[1], around[1], around[0], around[0]))
    out = tuple(positions(x.shape[2 + i], kernel[i], step[i], dil[i]) for i in range(2))
    if min(out) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(input.shape[-2:])}, kernel_size={kernel}, dilation={dil}, "
            f"padding={around}, stride={step}, calculated shape of the array of sliding blocks as {out}, "
            "but its components must be at least one."
        )
    columns = _core.stack(window_slices(x, kernel, step, dil, out), 2)
    made = columns.reshape(x.shape[0], x.shape[1] * kernel[0] * kernel[1], out[0] * out[1])
    return made.squeeze(0) if single else made


def add_windows(
    columns: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    kernel: Sequence[int],
) -> Tensor:
    """The adjoint of `window_slices`: (N, C, kernel places, *windows) added up where they came from."""
    rank = len(kernel)
    out = columns.new_zeros((*columns.shape[:2], *size))
    counts = columns.shape[3:]
    lead = (slice(None), slice(None))
    for i, place in enumerate(itertools.product(*(range(k) for k in kernel))):
        where = tuple(
            slice(place[a] * dilation[a], place[a] * dilation[a] + stride[a] * (counts[a] - 1) + 1, stride[a])
            for a in range(rank)
        )
        out[lead + where] += columns.select(2, i)
    return out


def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Columns (N, C · kernel, windows) added up to (N, C, H, W): the adjoint of `unfold`.

    >>> gt.nn.functional.fold(gt.ones(1, 4, 4), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    size, kernel, dil, around, step = (
        per_dimension(n, v, 2)
        for n, v in (
            ("output_size", output_size),
            ("kernel_size", kernel_size),
            ("dilation", dilation),
            ("padding", padding),
            ("stride", stride),
        )
    )
    if input.dim() not in (2, 3):
        raise RuntimeError(f"Expected 2D or 3D (batch mode) tensor for input, got shape {tuple(input.shape)}")
    single = input.dim() == 2
    x = input.unsqueeze(0) if single else input
    places = kernel[0] * kernel[1]
    padded = tuple(size[i] + 2 * around[i] for i in range(2))
    counts = tuple(positions(padded[i], kernel[i], step[i], dil[i]) for i in range(2))
    if x.shape[1] % places or x.shape[2] != counts[0] * counts[1]:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={dil}, padding={around}, stride={step}, expected "
            f"input of shape (N, C * {places}, {counts[0] * counts[1]}), but got input of shape {tuple(input.shape)}"
        )
    columns = x.reshape(x.shape[0], x.shape[1] // places, places, *counts)
    out = add_windows(columns, padded, step, dil, kernel)
    out = out[:, :, around[0] : around[0] + size[0], around[1] : around[1] + size[1]]
    made = out.contiguous() if any(around) else out
    return made.squeeze(0) if single else made
