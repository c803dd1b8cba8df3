"""Weights divided by their largest singular value, in the form that computes them before each call."""

from __future__ import annotations

from typing import Any, TypeVar

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad
from gt.nn.functional import normalize
from gt.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter

_M = TypeVar("_M", bound=Module)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with `dim` in front and the rest in one dimension."""
    if dim != 0:
        weight = weight.permute(dim, *(i for i in range(weight.dim()) if i != dim))
    return weight.reshape(weight.shape[0], -1)


def iterate(matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float) -> None:
    """Moves u and v towards the first singular vectors, in place."""
    with no_grad():
        for _ in range(times):
            u.copy_(normalize(matrix.mv(v), dim=0, eps=eps))
            v.copy_(normalize(matrix.t().mv(u), dim=0, eps=eps))


def default_dim(module: Module) -> int:
    """The dimension of a weight that holds outputs."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


class SpectralNorm:
    """Computes a module's weight from `…_orig` before each of its calls; in training the vectors move along."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Tensor:
        """The weight."""
        weight: Tensor = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(normalize(matrix.mv(v), dim=0, eps=self.eps))
            # The graph keeps its own: the next call writes to these.
            u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def _hooks_of(module: Module) -> list[SpectralNorm]:
    tables = module._hook_tables
    return [] if tables is None else [hook for hook in tables.forward_pre.values() if isinstance(hook, SpectralNorm)]


def spectral_norm(
    module: _M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> _M:
    """Divides a weight by its largest singular value, which power iteration follows during training.

    >>> layer = gt.nn.utils.spectral_norm(gt.nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    for found in _hooks_of(module):
        if found.name == name:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    weight = getattr(module, name)
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    hook = SpectralNorm(name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    matrix = as_matrix(weight.detach(), hook.dim)
    height, width = matrix.shape
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    for suffix, size in (("_u", height), ("_v", width)):
        module.register_buffer(name + suffix, normalize(_core.randn(size, dtype=weight.dtype), dim=0, eps=eps))
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: _M, name: str = "weight") -> _M:
    """Makes the divided weight an ordinary parameter again.

    >>> layer = gt.nn.utils.remove_spectral_norm(gt.nn.utils.spectral_norm(gt.nn.Linear(2, 3)))
    >>> list(layer.state_dict())
    ['bias', 'weight']
    """
    tables = module._hook_tables
    for hook in _hooks_of(module):
        if hook.name == name:
            assert tables is not None
            with no_grad():
                weight = hook.compute_weight(module, do_power_iteration=False)
            for suffix in ("", "_u", "_v", "_orig"):
                delattr(module, name + suffix)
            module.register_parameter(name, Parameter(weight.detach()))
            for key in [key for key, value in tables.forward_pre.items() if value is hook]:
                del tables.forward_pre[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
