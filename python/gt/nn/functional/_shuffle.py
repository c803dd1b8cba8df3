"""Moving elements between channels and space."""

from __future__ import annotations

import math

from gt._core import Tensor


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(…, C · r², H, W) as (…, C, H · r, W · r).

    >>> gt.nn.functional.pixel_shuffle(gt.ones(1, 8, 2, 3), 2).shape
    gt.Size([1, 2, 4, 6])
    """
    r = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(f"pixel_shuffle expects input to have at least 3 dimensions, got shape {tuple(input.shape)}")
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    split = input.reshape(math.prod(lead), channels // (r * r), r, r, height, width).permute(0, 1, 4, 2, 5, 3)
    return split.reshape(*lead, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(…, C, H · r, W · r) as (…, C · r², H, W).

    >>> gt.nn.functional.pixel_unshuffle(gt.ones(1, 2, 4, 6), 2).shape
    gt.Size([1, 8, 2, 3])
    """
    r = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, got shape {tuple(input.shape)}"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but input of shape "
            f"{tuple(input.shape)} is not divisible by {r}"
        )
    split = input.reshape(math.prod(lead), channels, height // r, r, width // r, r).permute(0, 1, 3, 5, 2, 4)
    return split.reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of (N, C, …) dealt out to groups in turn.

    >>> gt.nn.functional.channel_shuffle(gt.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    if input.dim() < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0 or input.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and {groups} groups."
        )
    shape = input.shape
    return input.reshape(shape[0], groups, shape[1] // groups, *shape[2:]).transpose(1, 2).reshape(shape)
