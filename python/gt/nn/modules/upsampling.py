"""Resizing images as modules."""

from __future__ import annotations

from typing import Any

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.modules.module import Module


class Upsample(Module):
    """Resizes (N, C, …) to a size or by a factor.

    >>> gt.nn.Upsample(scale_factor=2)(gt.ones(1, 1, 2, 2)).shape
    gt.Size([1, 1, 4, 4])
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The resized input."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes (N, C, H, W) by repeating elements.

    >>> gt.nn.UpsamplingNearest2d(scale_factor=2)(gt.ones(1, 1, 2, 2)).shape
    gt.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes (N, C, H, W) linearly between corners that stay.

    >>> gt.nn.UpsamplingBilinear2d(scale_factor=2)(gt.ones(1, 1, 2, 2)).shape
    gt.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
