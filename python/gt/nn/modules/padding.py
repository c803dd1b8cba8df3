"""Padding as modules: one class for each mode and number of dimensions."""

from __future__ import annotations

from typing import Any

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.modules.module import Module


class _Pad(Module):
    _mode = "constant"
    _rank = 1

    def __init__(self, padding: Any) -> None:
        super().__init__()
        sides = 2 * self._rank
        self.padding = (padding,) * sides if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != sides:
            raise ValueError(f"{type(self).__name__} takes one number or {sides}, got {self.padding}")

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        if self._mode == "circular" and input.dim() not in (self._rank + 1, self._rank + 2):
            raise ValueError(
                f"expected {self._rank + 1}D or {self._rank + 2}D input (got {input.dim()}D input of shape "
                f"{tuple(input.shape)})"
            )
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A number around the last dimension.

    >>> gt.nn.ConstantPad1d(1, 9.0)(gt.ones(1, 1))
    tensor([[9., 1., 9.]])
    """


class ConstantPad2d(_ConstantPad):
    """A number around the last two dimensions.

    >>> gt.nn.ConstantPad2d(1, 9.0)(gt.ones(1, 1, 1)).shape
    gt.Size([1, 3, 3])
    """

    _rank = 2


class ConstantPad3d(_ConstantPad):
    """A number around the last three dimensions.

    >>> gt.nn.ConstantPad3d(1, 9.0)(gt.ones(1, 1, 1, 1)).shape
    gt.Size([1, 3, 3, 3])
    """

    _rank = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Zeros around the last dimension.

    >>> gt.nn.ZeroPad1d(1)(gt.ones(1, 1))
    tensor([[0., 1., 0.]])
    """


class ZeroPad2d(_ZeroPad):
    """Zeros around the last two dimensions.

    >>> gt.nn.ZeroPad2d(1)(gt.ones(1, 1, 1)).shape
    gt.Size([1, 3, 3])
    """

    _rank = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around the last three dimensions.

    >>> gt.nn.ZeroPad3d(1)(gt.ones(1, 1, 1, 1)).shape
    gt.Size([1, 3, 3, 3])
    """

    _rank = 3


class ReflectionPad1d(_Pad):
    """The last dimension mirrored at its ends.

    >>> gt.nn.ReflectionPad1d(1)(gt.tensor([[1.0, 2.0]]))
    tensor([[2., 1., 2., 1.]])
    """

    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """The last two dimensions mirrored at their ends.

    >>> gt.nn.ReflectionPad2d(1)(gt.ones(1, 2, 2)).shape
    gt.Size([1, 4, 4])
    """

    _mode = "reflect"
    _rank = 2


class ReflectionPad3d(_Pad):
    """The last three dimensions mirrored at their ends.

    >>> gt.nn.ReflectionPad3d(1)(gt.ones(1, 2, 2, 2)).shape
    gt.Size([1, 4, 4, 4])
    """

    _mode = "reflect"
    _rank = 3


class ReplicationPad1d(_Pad):
    """The ends of the last dimension repeated.

    >>> gt.nn.ReplicationPad1d(1)(gt.tensor([[1.0, 2.0]]))
    tensor([[1., 1., 2., 2.]])
    """

    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """The ends of the last two dimensions repeated.

    >>> gt.nn.ReplicationPad2d(1)(gt.ones(1, 2, 2)).shape
    gt.Size([1, 4, 4])
    """

    _mode = "replicate"
    _rank = 2


class ReplicationPad3d(_Pad):
    """The ends of the last three dimensions repeated.

    >>> gt.nn.ReplicationPad3d(1)(gt.ones(1, 2, 2, 2)).shape
    gt.Size([1, 4, 4, 4])
    """

    _mode = "replicate"
    _rank = 3


class CircularPad1d(_Pad):
    """The last dimension as if it were a ring.

    >>> gt.nn.CircularPad1d(1)(gt.tensor([[1.0, 2.0]]))
    tensor([[2., 1., 2., 1.]])
    """

    _mode = "circular"


class CircularPad2d(_Pad):
    """The last two dimensions as if they were rings.

    >>> gt.nn.CircularPad2d(1)(gt.ones(1, 2, 2)).shape
    gt.Size([1, 4, 4])
    """

    _mode = "circular"
    _rank = 2


class CircularPad3d(_Pad):
    """The last three dimensions as if they were rings.

    >>> gt.nn.CircularPad3d(1)(gt.ones(1, 2, 2, 2)).shape
    gt.Size([1, 4, 4, 4])
    """

    _mode = "circular"
    _rank = 3
