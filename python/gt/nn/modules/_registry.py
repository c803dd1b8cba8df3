"""A module's parameters, buffers and submodules, seen as mappings.

REGISTRY-1: the members themselves are ordinary attributes of the module, so that reading `self.weight` in a forward pass
costs what reading any attribute costs. A registry only knows their names, in the order of registration.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any


class Members:
    """The names of a module's members, by kind; `Module.__init__` makes them."""

    _parameter_names: dict[str, None]
    _buffer_names: dict[str, None]
    _module_names: dict[str, None]
    _non_persistent_buffers_set: set[str]

    @property
    def _parameters(self) -> Registry:
        return Registry(self._parameter_names, self.__dict__)

    @property
    def _buffers(self) -> Registry:
        return Registry(self._buffer_names, self.__dict__)

    @property
    def _modules(self) -> Registry:
        return Registry(self._module_names, self.__dict__)


class Registry(MutableMapping[str, Any]):
    """The members of one kind: reads and writes go to the module's attributes."""

    __slots__ = ("_attributes", "_names")

    def __init__(self, names: dict[str, None], attributes: dict[str, Any]) -> None:
        self._names = names
        self._attributes = attributes

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self._attributes[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._names[name] = None
        self._attributes[name] = value

    def __delitem__(self, name: str) -> None:
        del self._names[name]
        del self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __repr__(self) -> str:
        return repr(dict(self))
