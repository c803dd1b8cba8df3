"""Convolutions as modules."""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn import functional as F
from gt.nn import init
from gt.nn.functional._windows import per_dimension
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Weight, bias and geometry of a convolution."""

    _rank = 1
    _transposed = False

    def _build(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, got {groups}")
        if in_channels % groups:
            raise ValueError(f"in_channels must be divisible by groups, got {in_channels} and {groups}")
        if out_channels % groups:
            raise ValueError(f"out_channels must be divisible by groups, got {out_channels} and {groups}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'")
        rank = self._rank
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_dimension("kernel_size", kernel_size, rank)
        self.stride = per_dimension("stride", stride, rank)
        self.dilation = per_dimension("dilation", dilation, rank)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
            self.padding: Any = padding
        else:
            self.padding = per_dimension("padding", padding, rank)
        self.transposed = self._transposed
        self.output_padding = per_dimension("output_padding", output_padding, rank)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding = self._padding_for_pad()
        lead = (in_channels, out_channels // groups) if self._transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(_core.empty((*lead, *self.kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_core.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _padding_for_pad(self) -> list[int]:
        """The padding as `pad` counts it, for modes other than zeros."""
        sides: list[int] = []
        for i in reversed(range(self._rank)):
            if self.padding == "valid":
                sides += [0, 0]
            elif self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                sides += [total // 2, total - total // 2]
            else:
                sides += [self.padding[i]] * 2
        return sides

    def reset_parameters(self) -> None:
        """Uniform between ±1/√(inputs that an output sees)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._fans(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self._rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._rank:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    _function: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._build(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        """The convolved input."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding, self.padding_mode)
            padding = 0
        return getattr(F, self._function)(  # type: ignore[no-any-return]
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv1d(_Conv):
    """Convolution of (N, C, L) or (C, L).

    >>> gt.nn.Conv1d(2, 3, 3, padding=1)(gt.ones(4, 2, 5)).shape
    gt.Size([4, 3, 5])
    """

    _function = "conv1d"


class Conv2d(_Conv):
    """Convolution of (N, C, H, W) or (C, H, W).

    >>> gt.nn.Conv2d(2, 3, 3, stride=2)(gt.ones(4, 2, 7, 7)).shape
    gt.Size([4, 3, 3, 3])
    """

    _rank = 2
    _function = "conv2d"


class Conv3d(_Conv):
    """Convolution of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.Conv3d(1, 2, 2)(gt.ones(1, 1, 3, 3, 3)).shape
    gt.Size([1, 2, 2, 2, 2])
    """

    _rank = 3
    _function = "conv3d"


class _ConvTranspose(_ConvNd):
    _transposed = True
    _function: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}, got {padding_mode!r}')
        self._build(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """What must be added at the end to reach a size that was asked for."""
        if output_size is None:
            return self.output_padding
        rank = self._rank
        wanted = list(output_size)
        if len(wanted) == rank + 2 or (len(wanted) == rank + 1 and input.dim() == rank + 1):
            wanted = wanted[-rank:]
        if len(wanted) != rank:
            raise ValueError(f"{type(self).__name__}: output_size must have {rank} elements (got {len(wanted)})")
        extra = []
        for i, size in enumerate(input.shape[-rank:]):
            least = (size - 1) * self.stride[i] - 2 * self.padding[i] + self.dilation[i] * (self.kernel_size[i] - 1) + 1
            if not least <= wanted[i] < least + self.stride[i]:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes range from {least} to "
                    f"{least + self.stride[i] - 1} in dimension {i} (for an input of {list(input.shape[-rank:])})"
                )
            extra.append(wanted[i] - least)
        return tuple(extra)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """The adjoint of the convolution, applied to the input."""
        return getattr(F, self._function)(  # type: ignore[no-any-return]
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose):
    """The adjoint of a convolution of (N, C, L) or (C, L).

    >>> gt.nn.ConvTranspose1d(2, 3, 2, stride=2)(gt.ones(4, 2, 5)).shape
    gt.Size([4, 3, 10])
    """

    _function = "conv_transpose1d"


class ConvTranspose2d(_ConvTranspose):
    """The adjoint of a convolution of (N, C, H, W) or (C, H, W).

    >>> gt.nn.ConvTranspose2d(2, 3, 2, stride=2)(gt.ones(4, 2, 5, 5)).shape
    gt.Size([4, 3, 10, 10])
    """

    _rank = 2
    _function = "conv_transpose2d"


class ConvTranspose3d(_ConvTranspose):
    """The adjoint of a convolution of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.ConvTranspose3d(1, 2, 2)(gt.ones(1, 1, 2, 2, 2)).shape
    gt.Size([1, 2, 3, 3, 3])
    """

    _rank = 3
    _function = "conv_transpose3d"
