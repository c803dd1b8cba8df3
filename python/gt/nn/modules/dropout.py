"""Dropout layers: active in training, still in evaluation."""

from __future__ import annotations

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.modules.module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeroes elements with probability `p` and scales up the others.

    >>> gt.nn.Dropout(0.5).eval()(gt.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with elements dropped."""
        return F.dropout(input, self.p, self.training, self.inplace) if self.training else input


class Dropout1d(_Dropout):
    """Zeroes whole channels of (N, C, L) or (C, L).

    >>> gt.nn.Dropout1d(0.5).eval()(gt.ones(1, 2, 1)).shape
    gt.Size([1, 2, 1])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with channels dropped."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Zeroes whole channels of (N, C, H, W) or (C, H, W).

    >>> gt.nn.Dropout2d(0.5).eval()(gt.ones(1, 2, 1, 1)).shape
    gt.Size([1, 2, 1, 1])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with channels dropped."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.Dropout3d(0.5).eval()(gt.ones(1, 2, 1, 1, 1)).shape
    gt.Size([1, 2, 1, 1, 1])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with channels dropped."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1, for networks with SELU.

    >>> gt.nn.AlphaDropout(0.5).eval()(gt.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with elements dropped."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels.

    >>> gt.nn.FeatureAlphaDropout(0.5).eval()(gt.ones(1, 2))
    tensor([[1., 1.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with channels dropped."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
