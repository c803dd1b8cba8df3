"""Distances as modules."""

from __future__ import annotations

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.modules.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`.

    >>> gt.nn.CosineSimilarity()(gt.tensor([[1.0, 0.0]]), gt.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The cosines."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dimension.

    >>> gt.nn.PairwiseDistance()(gt.tensor([[3.0, 4.0]]), gt.zeros(1, 2))
    tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The distances."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
