"""Moving elements between channels and space, as modules."""

from __future__ import annotations

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.modules.module import Module


class PixelShuffle(Module):
    """(…, C · r², H, W) as (…, C, H · r, W · r).

    >>> gt.nn.PixelShuffle(2)(gt.ones(1, 8, 2, 3)).shape
    gt.Size([1, 2, 4, 6])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The larger image."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(…, C, H · r, W · r) as (…, C · r², H, W).

    >>> gt.nn.PixelUnshuffle(2)(gt.ones(1, 2, 4, 6)).shape
    gt.Size([1, 8, 2, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The smaller image."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels dealt out to groups in turn.

    >>> gt.nn.ChannelShuffle(2)(gt.arange(4).reshape(1, 4, 1)).flatten()
    tensor([0, 2, 1, 3])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The same channels in another order."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
