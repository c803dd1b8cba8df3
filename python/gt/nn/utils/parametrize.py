"""Parameters that are computed from others: a weight becomes a function of what is trained in its place.

PARAMETRIZE-1: the class of the module becomes one of its own, with a property under the parameter's name; so code that
reads `module.weight` gets the computed one, and `isinstance` holds as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gt._core import Tensor
from gt._grad_mode import no_grad
from gt.nn.modules.container import ModuleDict, ModuleList
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter


class _Cache:
    """What was computed within a `cached` block."""

    depth = 0
    values: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """A block in which each parametrized tensor is computed once.

    >>> with gt.nn.utils.parametrize.cached():
    ...     pass
    """
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if _Cache.depth == 0:
            _Cache.values.clear()


class ParametrizationList(ModuleList):
    """The modules that one tensor goes through, and what it is computed from: `original`, or `original0`, `original1`, …

    >>> layer = gt.nn.utils.parametrizations.weight_norm(gt.nn.Linear(2, 3))
    >>> [name for name, _ in layer.parametrizations.weight.named_parameters()]
    ['original0', 'original1']
    """

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        for name, value in zip(self._names(), [new] if self.is_tensor else new):
            if isinstance(original, Parameter):
                self.register_parameter(name, Parameter(value.detach().clone(), original.requires_grad))
            else:
                self.register_buffer(name, value.detach().clone())

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Changes the originals so that `value` is what is computed from them."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse, so the parametrized "
                        "tensor cannot be assigned"
                    )
                new = module.right_inverse(new)
            for name, part in zip(self._names(), [new] if self.is_tensor else new):
                getattr(self, name).copy_(part)

    def forward(self) -> Tensor:
        """The tensor."""
        first, *rest = list(self)
        value: Tensor = first(*[getattr(self, name) for name in self._names()])
        for module in rest:
            value = module(value)
        return value


def _chains(module: Module) -> Any:
    """The `ParametrizationList` of every parametrized tensor, by name."""
    return module.__dict__["parametrizations"]


def _parametrized_class(module: Module) -> None:
    before = type(module)

    def of_copy(self: Any, memo: dict[int, Any]) -> Any:
        import copy

        made = self.__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    members = {"__deepcopy__": of_copy} if not hasattr(before, "__deepcopy__") else {}
    module.__class__ = type(f"Parametrized{before.__name__}", (before,), members)


def _add_property(module: Module, name: str) -> None:
    def read(self: Any) -> Tensor:
        found: Tensor
        if _Cache.depth:
            key = (id(self), name)
            if key not in _Cache.values:
                _Cache.values[key] = self.parametrizations[name]()
            found = _Cache.values[key]
        else:
            found = self.parametrizations[name]()
        return found

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Puts a parametrization before a parameter or buffer: reading it gives what the parametrization computes.

    >>> class Symmetric(gt.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = gt.nn.utils.parametrize.register_parametrization(gt.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain: Any = _chains(module)[tensor_name]
        if not unsafe and hasattr(parametrization, "right_inverse"):
            chain.right_inverse(parametrization.right_inverse(getattr(module, tensor_name).detach()))
        chain.append(parametrization)
        return module
    if tensor_name not in (*module._parameter_names, *module._buffer_names):
        raise ValueError(
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    chain = ParametrizationList([parametrization], original, unsafe)
    if not unsafe:
        made = chain()
        if not isinstance(made, Tensor) or made.dtype != original.dtype or made.shape != original.shape:
            what = f"{made.dtype} {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
            raise ValueError(
                f"Registering a parametrization may not change the dtype or the shape of the tensor, unless the `unsafe` "
                f"flag is enabled: {original.dtype} {tuple(original.shape)} would become {what}"
            )
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _parametrized_class(module)
        module.parametrizations = ModuleDict()
    _chains(module)[tensor_name] = chain
    _add_property(module, tensor_name)
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrized tensors, or this one.

    >>> gt.nn.utils.parametrize.is_parametrized(gt.nn.Linear(1, 1))
    False
    """
    chains = module.__dict__.get("parametrizations")
    if not isinstance(chains, ModuleDict):
        return False
    return len(chains) > 0 if tensor_name is None else tensor_name in chains


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a tensor an ordinary one again: the computed one, or the original with `leave_parametrized=False`.

    >>> layer = gt.nn.utils.parametrizations.weight_norm(gt.nn.Linear(2, 3))
    >>> type(gt.nn.utils.parametrize.remove_parametrizations(layer, "weight")).__name__
    'Linear'
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {type(module).__name__} does not have a parametrization on {tensor_name}")
    chains = _chains(module)
    chain = chains[tensor_name]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach().clone()
    elif chain.is_tensor:
        value = chain.original
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized by several"
        )
    trained = any(isinstance(getattr(chain, name), Parameter) for name in chain._names())
    requires_grad = any(getattr(chain, name).requires_grad for name in chain._names())
    delattr(type(module), tensor_name)
    del chains[tensor_name]
    if trained:
        module.register_parameter(
            tensor_name, value if isinstance(value, Parameter) else Parameter(value, requires_grad)
        )
    else:
        module.register_buffer(tensor_name, value)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized.

    >>> gt.nn.utils.parametrize.type_before_parametrizations(gt.nn.Linear(1, 1)).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)
