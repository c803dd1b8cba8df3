"""Distances and angles between vectors."""

from __future__ import annotations

from gt._core import Tensor
from gt._methods.joining import broadcast_tensors
from gt._methods.linear import triu_indices


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`.

    >>> gt.nn.functional.cosine_similarity(gt.tensor([[1.0, 0.0]]), gt.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    if x1.shape != x2.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    length1 = x1.norm(2, dim, keepdim=True).clamp(min=eps)
    length2 = x2.norm(2, dim, keepdim=True).clamp(min=eps)
    return ((x1 / length1) * (x2 / length2)).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension.

    >>> gt.nn.functional.pairwise_distance(gt.tensor([[3.0, 4.0]]), gt.zeros(1, 2))
    tensor([5.0000])
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by the p-norm along `dim`.

    >>> gt.nn.functional.normalize(gt.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distance between every two rows.

    >>> gt.nn.functional.pdist(gt.tensor([[0.0], [1.0], [3.0]]))
    tensor([1., 3., 2.])
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    first, second = triu_indices(input.shape[0], input.shape[0], 1).unbind(0)
    return (input.index_select(0, first) - input.index_select(0, second)).norm(p, 1)
