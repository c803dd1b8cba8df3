"""Weights as length times direction, in the form that computes them before each call."""

from __future__ import annotations

from typing import Any, TypeVar

from gt._core import Tensor
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter

_M = TypeVar("_M", bound=Module)


def norm_except(tensor: Tensor, dim: int | None) -> Tensor:
    """The length along all dimensions but one; of the whole tensor if there is none."""
    if dim is None or dim == -1:
        return tensor.norm()
    others = tuple(i for i in range(tensor.dim()) if i != dim % tensor.dim())
    return tensor.square().sum(others, keepdim=True).sqrt() if others else tensor.abs()


def scaled(direction: Tensor, length: Tensor, dim: int | None) -> Tensor:
    """The tensor of that direction and length."""
    return direction * (length / norm_except(direction, dim))


class WeightNorm:
    """Computes a module's weight from `…_g` and `…_v` before each of its calls."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def compute_weight(self, module: Any) -> Tensor:
        """The weight."""
        return scaled(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: _M, name: str = "weight", dim: int | None = 0) -> _M:
    """Trains a weight as its length and its direction; `dim` is the dimension whose rows have lengths of their own.

    >>> [n for n, _ in gt.nn.utils.weight_norm(gt.nn.Linear(2, 3)).named_parameters()]
    ['bias', 'weight_g', 'weight_v']
    """
    for found in _hooks_of(module):
        if found.name == name:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(norm_except(weight.detach(), dim)))
    module.register_parameter(name + "_v", Parameter(weight.detach().clone()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def _hooks_of(module: Module) -> list[WeightNorm]:
    tables = module._hook_tables
    return [] if tables is None else [hook for hook in tables.forward_pre.values() if isinstance(hook, WeightNorm)]


def remove_weight_norm(module: _M, name: str = "weight") -> _M:
    """Makes the weight an ordinary parameter again.

    >>> layer = gt.nn.utils.remove_weight_norm(gt.nn.utils.weight_norm(gt.nn.Linear(2, 3)))
    >>> [n for n, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    tables = module._hook_tables
    for hook in _hooks_of(module):
        if hook.name == name:
            assert tables is not None
            weight = hook.compute_weight(module).detach()
            delattr(module, name)
            delattr(module, name + "_g")
            delattr(module, name + "_v")
            setattr(module, name, Parameter(weight))
            for key in [key for key, value in tables.forward_pre.items() if value is hook]:
                del tables.forward_pre[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
