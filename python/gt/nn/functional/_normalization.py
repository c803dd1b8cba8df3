"""Normalisation over batches, groups of channels, single planes and neighbouring channels."""

from __future__ import annotations

import math

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad
from gt.nn.functional._layer_norm import _HALVES


def _per_channel(tensor: Tensor, rank: int) -> Tensor:
    """One number for every channel, shaped to meet an input of that rank."""
    return tensor.reshape(1, -1, *([1] * (rank - 2)))


def _affine(out: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        out = out * _per_channel(weight, out.dim())
    if bias is not None:
        out = out + _per_channel(bias, out.dim())
    return out


def _check_channels(name: str, input: Tensor, **tensors: Tensor | None) -> None:
    channels = input.shape[1]
    for what, tensor in tensors.items():
        if tensor is not None and tensor.numel() != channels:
            raise RuntimeError(
                f"{name}: {what} should contain {channels} elements not {tensor.numel()}: "
                f"input shape {tuple(input.shape)}, {what} shape {tuple(tensor.shape)}"
            )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 for every channel over the batch; in training the running statistics move along.

    >>> gt.nn.functional.batch_norm(gt.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if input.dim() == 1 and not input.shape[0]:
        return input.clone()
    if input.dim() < 2:
        raise ValueError(f"batch_norm expects an input of at least 2 dimensions, got shape {tuple(input.shape)}")
    _check_channels("batch_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    dtype = input.dtype
    x = input.float() if dtype in _HALVES else input
    if training:
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
        count = input.numel() // max(input.shape[1], 1)
        if count == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
        dims = (0, *range(2, input.dim()))
        mean = x.mean(dims, keepdim=True)
        centered = x - mean
        variance = (centered * centered).mean(dims, keepdim=True)
        # An empty batch says nothing about the data.
        if count:
            _move(running_mean, mean, momentum)
            _move(running_var, variance, momentum, count / (count - 1))
    else:
        if running_mean is None or running_var is None:
            raise RuntimeError("batch_norm: running_mean and running_var are needed when not training")
        centered = x - _per_channel(running_mean, x.dim())
        variance = _per_channel(running_var, x.dim())
    out = _affine(centered * (variance + eps).rsqrt(), weight, bias)
    return out.to(dtype) if dtype in _HALVES else out


def _move(running: Tensor | None, now: Tensor, momentum: float | Tensor, correction: float = 1.0) -> None:
    """Moves a running statistic towards that of this batch, in place."""
    if running is None:
        return
    with no_grad():
        seen = now.detach().reshape(running.shape).to(running.dtype)
        if correction != 1.0:
            seen = seen * correction
        running.copy_(running * (1 - momentum) + seen * momentum)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over each group of channels of each sample.

    >>> gt.nn.functional.group_norm(gt.tensor([[1.0, 3.0]]), 1)
    tensor([[-1.0000,  1.0000]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    if input.shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{tuple(input.shape)} and num_groups={num_groups}"
        )
    _check_channels("group_norm", input, weight=weight, bias=bias)
    size = math.prod(input.shape[1:]) // num_groups
    if input.shape[0] * size == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(input.shape)} "
            f"in {num_groups} groups"
        )
    dtype = input.dtype
    x = input.float() if dtype in _HALVES else input
    grouped = x.reshape(x.shape[0], num_groups, size)
    centered = grouped - grouped.mean(-1, keepdim=True)
    variance = (centered * centered).mean(-1, keepdim=True)
    out = _affine((centered * (variance + eps).rsqrt()).reshape(x.shape), weight, bias)
    return out.to(dtype) if dtype in _HALVES else out


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 for every channel of each sample.

    >>> gt.nn.functional.instance_norm(gt.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if input.dim() < 3:
        raise ValueError(f"instance_norm expects (batch, channels, …), got shape {tuple(input.shape)}")
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(input.shape[2:])
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    _check_channels("instance_norm", input, weight=weight, bias=bias)
    dtype = input.dtype
    x = input.float() if dtype in _HALVES else input
    dims = tuple(range(2, input.dim()))
    mean = x.mean(dims, keepdim=True)
    centered = x - mean
    variance = (centered * centered).mean(dims, keepdim=True)
    if input.numel():
        _move(running_mean, mean.detach().mean(0), momentum)
        _move(running_var, variance.detach().mean(0), momentum, count / (count - 1))
    out = _affine(centered * (variance + eps).rsqrt(), weight, bias)
    return out.to(dtype) if dtype in _HALVES else out


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divided by a power of the mean square over `size` neighbouring channels.

    >>> gt.nn.functional.local_response_norm(gt.ones(1, 2, 1), 2).shape
    gt.Size([1, 2, 1])
    """
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    channels = input.shape[1]
    square = input.square()
    before = size // 2
    total: Tensor | None = None
    for shift in range(-before, size - before):
        start, end = max(shift, 0), min(channels + shift, channels)
        if start >= end:
            continue
        part = square.narrow(1, start, end - start)
        missing = (*input.shape[:1], abs(shift), *input.shape[2:])
        if shift < 0:
            part = _core.cat([square.new_zeros(missing), part], 1)
        elif shift > 0:
            part = _core.cat([part, square.new_zeros(missing)], 1)
        total = part if total is None else total + part
    assert total is not None
    return input / (total * (alpha / size) + k).pow(beta)
