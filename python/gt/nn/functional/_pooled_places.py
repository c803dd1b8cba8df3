"""Maxima together with the places they were found at, under PyTorch's names for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gt._core import Tensor
from gt.nn.functional._adaptive_pooling import adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d
from gt.nn.functional._pooling import max_pool1d, max_pool2d, max_pool3d


def _with_indices(of: Callable[..., Any], shape: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def pool(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        kwargs["return_indices"] = True
        made: tuple[Tensor, Tensor] = of(*args, **kwargs)
        return made

    pool.__name__ = pool.__qualname__ = f"{of.__name__}_with_indices"
    pool.__doc__ = f"""`{of.__name__}` with `return_indices=True`.

    >>> [tuple(t.shape) for t in gt.nn.functional.{pool.__name__}(gt.ones{shape}, 2)]
    [{shape.replace("4", "2")}, {shape.replace("4", "2")}]
    """
    return pool


max_pool1d_with_indices = _with_indices(max_pool1d, "(1, 1, 4)")
max_pool2d_with_indices = _with_indices(max_pool2d, "(1, 1, 4, 4)")
max_pool3d_with_indices = _with_indices(max_pool3d, "(1, 1, 4, 4, 4)")
adaptive_max_pool1d_with_indices = _with_indices(adaptive_max_pool1d, "(1, 1, 4)")
adaptive_max_pool2d_with_indices = _with_indices(adaptive_max_pool2d, "(1, 1, 4, 4)")
adaptive_max_pool3d_with_indices = _with_indices(adaptive_max_pool3d, "(1, 1, 4, 4, 4)")
