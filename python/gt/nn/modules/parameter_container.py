"""Parameters in lists and dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gt._core import Tensor
from gt.nn.modules.container import _place
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter


def _as_parameter(value: Any) -> Any:
    """Tensors become parameters, as in PyTorch; other values are kept as they are."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(name: str, value: Any, kind_of: Callable[[Tensor], Any]) -> str:
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        size = "x".join(str(n) for n in value.shape)
        return f"  ({name}): {kind} containing: [{kind_of(value)} of size {size}]"
    return f"  ({name}): Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters that are registered.

    >>> weights = gt.nn.ParameterList([gt.ones(2), gt.zeros(3)])
    >>> [tuple(p.shape) for p in weights.parameters()]
    [(2,), (3,)]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, str(_place(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_place(index, len(self))), _as_parameter(value))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Adds a value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds values at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_described(str(i), value, lambda t: t.dtype) for i, value in enumerate(self))


class ParameterDict(Module):
    """A dictionary of parameters that are registered.

    >>> gt.nn.ParameterDict({"left": gt.ones(2)})["left"].requires_grad
    True
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"the key of a ParameterDict should be a string, got {type(key).__name__}")
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and parameters."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, or the default."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, which is set if it is not there."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Takes a parameter out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Takes the newest parameter out, with its name."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Removes all parameters."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """A new dictionary of the same parameters."""
        return ParameterDict(dict(self.items()))

    def update(self, parameters: Any) -> None:
        """Adds parameters from a mapping, or from pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                f"ParameterDict.update should be called with an iterable of pairs, but got {type(parameters).__name__}"
            )
        pairs = parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters
        for key, value in list(pairs):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_described(key, value, lambda t: t.type()) for key, value in self.items())
