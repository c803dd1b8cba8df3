"""Convolution, as one matrix product over the windows of the input.

CONV-1: channels and window places come first in the matrix of windows, samples and positions last: so the product, and
that of the weight's gradient, is one for the whole batch, for each group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.functional._padding import pad
from gt.nn.functional._windows import add_windows, per_dimension, positions, window_slices


def _batched(name: str, input: Tensor, weight: Tensor, rank: int) -> tuple[Tensor, bool]:
    if weight.dim() != rank + 2:
        raise RuntimeError(f"{name}: expected a weight of {rank + 2} dimensions, got shape {tuple(weight.shape)}")
    if input.dim() not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}"
        )
    if input.dtype != weight.dtype:
        raise RuntimeError(
            f"Input type ({input.dtype}) and weight type ({weight.dtype}) should be the same: "
            f"shapes {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    single = input.dim() == rank + 1
    return (input.unsqueeze(0) if single else input), single


def _check_bias(name: str, bias: Tensor | None, channels: int, weight: Tensor) -> None:
    if (
        bias is not None
        and bias.dtype != weight.dtype
        and not (bias.dtype.is_floating_point and weight.dtype.is_floating_point)
    ):
        raise RuntimeError(f"{name}: Input type ({weight.dtype}) and bias type ({bias.dtype}) should be the same")
    if bias is not None and tuple(bias.shape) != (channels,):
        raise RuntimeError(
            f"{name}: given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {channels} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )


def _padding_sides(
    name: str, padding: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    """Elements before and after each dimension."""
    rank = len(kernel)
    if isinstance(padding, str):
        if padding == "valid":
            return [(0, 0)] * rank
        if padding != "same":
            raise RuntimeError(f"Invalid padding string: {padding!r}: 'valid' or 'same' is expected")
        if any(s != 1 for s in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        totals = [d * (k - 1) for d, k in zip(dilation, kernel)]
        return [(t // 2, t - t // 2) for t in totals]
    sides = per_dimension("padding", padding, rank)
    if min(sides) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported, got {list(sides)}")
    return [(p, p) for p in sides]


def _convolved(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    x, single = _batched(name, input, weight, rank)
    step, dil = per_dimension("stride", stride, rank), per_dimension("dilation", dilation, rank)
    if min(step) < 1 or min(dil) < 1:
        raise RuntimeError(f"{name}: non-positive stride {list(step)} or dilation {list(dil)} is not supported")
    if groups < 1:
        raise RuntimeError(f"non-positive groups is not supported, got {groups}")
    channels, outputs, kernel = x.shape[1], weight.shape[0], tuple(weight.shape[2:])
    if channels != weight.shape[1] * groups or outputs % groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[1] * groups} channels, but got {channels} channels instead"
        )
    _check_bias(name, bias, outputs, weight)
    sides = _padding_sides(name, padding, kernel, step, dil)
    # Channels first of all: the matrix of windows is then ready by a reshape.
    planes = x.transpose(0, 1)
    if any(a or b for a, b in sides):
        planes = pad(planes, [n for side in reversed(sides) for n in side])
    out = tuple(positions(planes.shape[2 + i], kernel[i], step[i], dil[i]) for i in range(rank))
    if min(out) < 1:
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(str(n) for n in planes.shape[2:])}). Kernel size: "
            f"({' x '.join(str(d * (k - 1) + 1) for k, d in zip(kernel, dil))}). Kernel size can't be greater than "
            f"actual input size: input shape {tuple(input.shape)}, weight shape {tuple(weight.shape)}"
        )
    slices = window_slices(planes, kernel, step, dil, out)
    windows = slices[0] if len(slices) == 1 else _core.stack(slices, 1)
    places, samples = math.prod(kernel), x.shape[0]
    columns = samples * math.prod(out)
    if groups == 1:
        product = weight.reshape(outputs, channels * places).matmul(windows.reshape(channels * places, columns))
    else:
        grouped = windows.reshape(groups, channels // groups * places, columns)
        product = weight.reshape(groups, outputs // groups, channels // groups * places).matmul(grouped)
    made = product.reshape(outputs, samples, *out).transpose(0, 1)
    # Adding the bias lays the result out in rows; without one it is copied.
    made = made.contiguous() if bias is None else made + bias.reshape(-1, *([1] * rank))
    return made.squeeze(0) if single else made


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of (N, C, L) or (C, L) with a weight (outputs, C / groups, k).

    >>> gt.nn.functional.conv1d(gt.tensor([[[1.0, 2.0, 3.0]]]), gt.ones(1, 1, 2))
    tensor([[[3., 5.]]])
    """
    return _convolved("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of (N, C, H, W) or (C, H, W) with a weight (outputs, C / groups, kh, kw).

    >>> gt.nn.functional.conv2d(gt.ones(1, 1, 3, 3), gt.ones(1, 1, 2, 2), padding="same").shape
    gt.Size([1, 1, 3, 3])
    """
    return _convolved("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of (N, C, D, H, W) or (C, D, H, W) with a weight (outputs, C / groups, kd, kh, kw).

    >>> gt.nn.functional.conv3d(gt.ones(1, 1, 2, 2, 2), gt.ones(1, 1, 2, 2, 2))
    tensor([[[[[8.]]]]])
    """
    return _convolved("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _transposed(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """The adjoint of a convolution: every input element adds a window, weighted by it, to the output."""
    x, single = _batched(name, input, weight, rank)
    step, dil = per_dimension("stride", stride, rank), per_dimension("dilation", dilation, rank)
    around, extra = per_dimension("padding", padding, rank), per_dimension("output_padding", output_padding, rank)
    if any(e >= max(s, d) for e, s, d in zip(extra, step, dil)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding {list(extra)}, "
            f"stride {list(step)}, dilation {list(dil)}"
        )
    channels, per_group, kernel = weight.shape[0], weight.shape[1], tuple(weight.shape[2:])
    if x.shape[1] != channels or channels % groups:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{channels} channels, but got {x.shape[1]} channels instead"
        )
    outputs = per_group * groups
    _check_bias(name, bias, outputs, weight)
    full = [
        (x.shape[2 + i] - 1) * step[i] + dil[i] * (kernel[i] - 1) + 1 + max(extra[i] - around[i], 0)
        for i in range(rank)
    ]
    size = [
        (x.shape[2 + i] - 1) * step[i] - 2 * around[i] + dil[i] * (kernel[i] - 1) + extra[i] + 1 for i in range(rank)
    ]
    if min(size) < 1:
        raise RuntimeError(
            f"Given input size per channel: {tuple(x.shape[2:])}. Calculated output size per channel: {tuple(size)}. "
            "Output size is too small"
        )
    samples, places = x.shape[0], math.prod(kernel)
    flat = x.transpose(0, 1).reshape(groups, channels // groups, -1)
    columns = weight.reshape(groups, channels // groups, per_group * places).transpose(1, 2).matmul(flat)
    columns = columns.reshape(outputs, places, samples, *x.shape[2:])
    # Samples take the place of a second leading dimension, which `add_windows` leaves alone.
    made = add_windows(columns.transpose(1, 2), full, step, dil, kernel).transpose(0, 1)
    made = made[(slice(None), slice(None), *(slice(a, a + n) for a, n in zip(around, size)))]
    made = made.contiguous() if bias is None else made + bias.reshape(-1, *([1] * rank))
    return made.squeeze(0) if single else made


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The adjoint of `conv1d`, with a weight (C, outputs / groups, k).

    >>> gt.nn.functional.conv_transpose1d(gt.tensor([[[1.0, 2.0]]]), gt.ones(1, 1, 2))
    tensor([[[1., 3., 2.]]])
    """
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The adjoint of `conv2d`, with a weight (C, outputs / groups, kh, kw).

    >>> gt.nn.functional.conv_transpose2d(gt.ones(1, 1, 2, 2), gt.ones(1, 1, 2, 2), stride=2).shape
    gt.Size([1, 1, 4, 4])
    """
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The adjoint of `conv3d`, with a weight (C, outputs / groups, kd, kh, kw).

    >>> gt.nn.functional.conv_transpose3d(gt.ones(1, 1, 1, 1, 1), gt.ones(1, 1, 2, 2, 2)).shape
    gt.Size([1, 1, 2, 2, 2])
    """
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)
