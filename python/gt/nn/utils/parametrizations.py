"""Parametrizations that are ready to use."""

from __future__ import annotations

from typing import TypeVar

from gt import _core
from gt._core import Tensor
from gt.nn.functional import normalize
from gt.nn.modules.module import Module
from gt.nn.utils.parametrize import register_parametrization
from gt.nn.utils.singular_value import as_matrix, default_dim, iterate
from gt.nn.utils.weight_length import norm_except, scaled

_M = TypeVar("_M", bound=Module)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """The weight of that length and direction."""
        return scaled(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Length and direction."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: _M, name: str = "weight", dim: int = 0) -> _M:
    """Trains a weight as its length and its direction.

    >>> layer = gt.nn.utils.parametrizations.weight_norm(gt.nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(f"Dimension out of range (expected [-{weight.dim()}, {weight.dim() - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.dim()
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            height, width = matrix.shape
            self.register_buffer("_u", normalize(_core.randn(height, dtype=weight.dtype), dim=0, eps=eps))
            self.register_buffer("_v", normalize(_core.randn(width, dtype=weight.dtype), dim=0, eps=eps))
            iterate(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight over its largest singular value."""
        if weight.dim() == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            iterate(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
        # The graph keeps its own: the next call writes to these.
        u, v = self._u.clone(), self._v.clone()
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: what has the right norm already stays."""
        return value


def spectral_norm(
    module: _M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> _M:
    """Divides a weight by its largest singular value.

    >>> layer = gt.nn.utils.parametrizations.spectral_norm(gt.nn.Linear(2, 3))
    >>> list(layer.state_dict())[1]
    'parametrizations.weight.original'
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{type(module).__name__}' has no parameter or buffer with name '{name}'")
    dim = default_dim(module) if dim is None else dim
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
