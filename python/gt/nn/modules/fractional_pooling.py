"""Pooling at pseudo-random places as modules."""

from __future__ import annotations

from typing import Any

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.functional._windows import per_dimension
from gt.nn.modules.module import Module


class _FractionalMaxPool(Module):
    _rank: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        rank = self._rank
        self.kernel_size = tuple(per_dimension("kernel_size", kernel_size, rank))
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else tuple(per_dimension("output_size", output_size, rank))
        single = isinstance(output_ratio, (int, float))
        self.output_ratio = (output_ratio,) * rank if single else None if output_ratio is None else tuple(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """The maxima, and where they are if that was asked for."""
        return getattr(F, f"fractional_max_pool{self._rank}d")(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of windows at pseudo-random places of images.

    >>> gt.nn.FractionalMaxPool2d(2, output_ratio=0.5)(gt.ones(1, 1, 6, 6)).shape
    gt.Size([1, 1, 3, 3])
    """

    _rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest element of windows at pseudo-random places of volumes.

    >>> gt.nn.FractionalMaxPool3d(2, output_size=2)(gt.ones(1, 1, 4, 4, 4)).shape
    gt.Size([1, 1, 2, 2, 2])
    """

    _rank = 3
