"""Windows as columns and back."""

from __future__ import annotations

from typing import Any

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.modules.module import Module


class Unfold(Module):
    """Windows of (N, C, H, W) as columns: (N, C · kernel, windows).

    >>> gt.nn.Unfold(2)(gt.ones(1, 2, 4, 4)).shape
    gt.Size([1, 8, 9])
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """The columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Columns added up to (N, C, H, W): the adjoint of `Unfold`.

    >>> gt.nn.Fold((4, 4), 2)(gt.ones(1, 8, 9)).shape
    gt.Size([1, 2, 4, 4])
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """The planes."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
