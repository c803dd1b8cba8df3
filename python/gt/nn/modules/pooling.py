"""Pooling as modules."""

from __future__ import annotations

from typing import Any

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.functional._windows import per_dimension
from gt.nn.modules.module import Module


class _MaxPool(Module):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The maxima, and where they are if that was asked for."""
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of (N, C, L) or (C, L).

    >>> gt.nn.MaxPool1d(2)(gt.ones(1, 2, 6)).shape
    gt.Size([1, 2, 3])
    """

    _function = "max_pool1d"


class MaxPool2d(_MaxPool):
    """The largest element of each window of (N, C, H, W) or (C, H, W).

    >>> gt.nn.MaxPool2d(2)(gt.ones(1, 2, 6, 6)).shape
    gt.Size([1, 2, 3, 3])
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPool):
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.MaxPool3d(2)(gt.ones(1, 2, 4, 4, 4)).shape
    gt.Size([1, 2, 2, 2, 2])
    """

    _function = "max_pool3d"


class _MaxUnpool(Module):
    _function: str
    _rank = 1

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = per_dimension("kernel_size", kernel_size, self._rank)
        self.stride = per_dimension("stride", stride if stride is not None else kernel_size, self._rank)
        self.padding = per_dimension("padding", padding, self._rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """The larger plane, zero where no maximum was."""
        return getattr(F, self._function)(  # type: ignore[no-any-return]
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Maxima at the places that `MaxPool1d` gave.

    >>> gt.nn.MaxUnpool1d(2)(gt.tensor([[[3.0]]]), gt.tensor([[[1]]]))
    tensor([[[0., 3.]]])
    """

    _function = "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    """Maxima at the places that `MaxPool2d` gave.

    >>> gt.nn.MaxUnpool2d(2)(gt.tensor([[[[3.0]]]]), gt.tensor([[[[1]]]])).sum().item()
    3.0
    """

    _function = "max_unpool2d"
    _rank = 2


class MaxUnpool3d(_MaxUnpool):
    """Maxima at the places that `MaxPool3d` gave.

    >>> gt.nn.MaxUnpool3d(2)(gt.ones(1, 1, 1, 1, 1), gt.zeros(1, 1, 1, 1, 1, dtype=gt.int64)).sum().item()
    1.0
    """

    _function = "max_unpool3d"
    _rank = 3


class AvgPool1d(Module):
    """The mean of each window of (N, C, L) or (C, L).

    >>> gt.nn.AvgPool1d(2)(gt.ones(1, 2, 6)).shape
    gt.Size([1, 2, 3])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = per_dimension("kernel_size", kernel_size, 1)
        self.stride = per_dimension("stride", stride if stride is not None else kernel_size, 1)
        self.padding = per_dimension("padding", padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return getattr(F, self._function)(  # type: ignore[no-any-return]
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W) or (C, H, W).

    >>> gt.nn.AvgPool2d(2)(gt.ones(1, 2, 6, 6)).shape
    gt.Size([1, 2, 3, 3])
    """

    _function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.AvgPool3d(2)(gt.ones(1, 2, 4, 4, 4)).shape
    gt.Size([1, 2, 2, 2, 2])
    """

    _function = "avg_pool3d"


class _LPPool(Module):
    _function: str

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """The norms."""
        return getattr(F, self._function)(  # type: ignore[no-any-return]
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The p-norm of each window of (N, C, L) or (C, L).

    >>> gt.nn.LPPool1d(2, 2)(gt.tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    _function = "lp_pool1d"


class LPPool2d(_LPPool):
    """The p-norm of each window of (N, C, H, W) or (C, H, W).

    >>> gt.nn.LPPool2d(2, (1, 2))(gt.tensor([[[[3.0, 4.0]]]]))
    tensor([[[[5.]]]])
    """

    _function = "lp_pool2d"


class LPPool3d(_LPPool):
    """The p-norm of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.LPPool3d(2, (2, 2, 1))(gt.ones(1, 1, 2, 2, 1)).item()
    2.0
    """

    _function = "lp_pool3d"


class _AdaptiveAvgPool(Module):
    _function: str

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return getattr(F, self._function)(input, self.output_size)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means over windows, so many that the last dimension becomes `output_size`.

    >>> gt.nn.AdaptiveAvgPool1d(2)(gt.ones(1, 2, 5)).shape
    gt.Size([1, 2, 2])
    """

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over windows, so many that the last two dimensions become `output_size`.

    >>> gt.nn.AdaptiveAvgPool2d(1)(gt.ones(1, 2, 5, 5)).shape
    gt.Size([1, 2, 1, 1])
    """

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means over windows, so many that the last three dimensions become `output_size`.

    >>> gt.nn.AdaptiveAvgPool3d(1)(gt.ones(1, 2, 3, 3, 3)).shape
    gt.Size([1, 2, 1, 1, 1])
    """

    _function = "adaptive_avg_pool3d"


class _AdaptiveMaxPool(Module):
    _function: str

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """The maxima, and where they are if that was asked for."""
        return getattr(F, self._function)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Maxima over windows, so many that the last dimension becomes `output_size`.

    >>> gt.nn.AdaptiveMaxPool1d(2)(gt.ones(1, 2, 5)).shape
    gt.Size([1, 2, 2])
    """

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima over windows, so many that the last two dimensions become `output_size`.

    >>> gt.nn.AdaptiveMaxPool2d(2)(gt.ones(1, 2, 5, 5)).shape
    gt.Size([1, 2, 2, 2])
    """

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Maxima over windows, so many that the last three dimensions become `output_size`.

    >>> gt.nn.AdaptiveMaxPool3d(1)(gt.ones(1, 2, 3, 3, 3)).shape
    gt.Size([1, 2, 1, 1, 1])
    """

    _function = "adaptive_max_pool3d"
