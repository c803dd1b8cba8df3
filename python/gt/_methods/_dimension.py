"""Dimensions as users name them, where no primitive looks at them."""

from __future__ import annotations

from gt._core import Tensor


def check_dim(dim: int, rank: int) -> None:
    """Refuses a dimension that a tensor of that rank does not have; a 0-d tensor takes 0 and -1."""
    most = max(rank, 1)
    if not -most <= dim < most:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], but got {dim})")


def is_single(input: Tensor, dim: int) -> bool:
    """Whether the tensor has no dimensions, and `dim` is one that it takes all the same."""
    if input.dim() > 0:
        return False
    check_dim(dim, 0)
    return True
