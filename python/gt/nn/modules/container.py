"""Modules and parameters in sequences and dictionaries."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gt.nn.modules.module import Module


def _place(index: Any, length: int) -> int:
    """An index from either end, checked."""
    place = operator.index(index)
    if not -length <= place < length:
        raise IndexError(f"index {place} is out of range")
    return place % length


class Sequential(Module):
    """Modules called one after the other.

    >>> net = gt.nn.Sequential(gt.nn.Flatten(), gt.nn.ReLU())
    >>> net(gt.tensor([[[-1.0, 2.0]]]))
    tensor([[0., 2.]])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], (OrderedDict, dict)):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        """Calls every module with what the one before it gave."""
        own = self.__dict__
        for name in self._module_names:
            input = own[name](input)
        return input

    def _name_at(self, index: Any) -> str:
        names = list(self._module_names)
        name: str = names[_place(index, len(names))]
        return name

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self.__dict__[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._module_names)
        for name in names[index] if isinstance(index, slice) else [self._name_at(index)]:
            delattr(self, name)
        # Numbered again, so that places and names agree.
        modules = list(self._modules.values())
        for name in list(self._module_names):
            delattr(self, name)
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def __len__(self) -> int:
        return len(self._module_names)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return type(self)(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        if not isinstance(times, int) or times <= 0:
            raise ValueError(f"a Sequential can be multiplied by a positive integer, not by {times!r}")
        return type(self)(*(list(self) * times))

    __rmul__ = __mul__

    def append(self, module: Module) -> Sequential:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Adds a module before a place."""
        modules = list(self)
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index % len(modules) if index < 0 else index, module)
        for i, each in enumerate(modules):
            setattr(self, str(i), each)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Adds modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        """Takes a module out."""
        module = self[key]
        del self[key]
        return module  # type: ignore[no-any-return]


class ModuleList(Module):
    """A list of modules that are registered.

    >>> layers = gt.nn.ModuleList([gt.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self.__dict__[str(_place(index, len(self)))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(_place(index, len(self))), module)

    def __delitem__(self, index: Any) -> None:
        modules = list(self)
        if not isinstance(index, slice):
            index = _place(index, len(self))
        del modules[index]
        self._replace(modules)

    def _replace(self, modules: list[Module]) -> None:
        for name in list(self._module_names):
            delattr(self, name)
        self.extend(modules)

    def __len__(self) -> int:
        return len(self._module_names)

    def __iter__(self) -> Iterator[Any]:
        own = self.__dict__
        return iter([own[name] for name in self._module_names])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return type(self)([*self, *other])

    def append(self, module: Module) -> ModuleList:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Adds a module before a place."""
        modules = list(self)
        modules.insert(index, module)
        self._replace(modules)

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any) -> Any:
        """Takes a module out."""
        module = self[key]
        del self[key]
        return module

    def __repr__(self) -> str:
        """Runs of equal modules are printed once, with their places."""
        if not len(self):
            return self._get_name() + "()"
        blocks: list[list[Any]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = i
            else:
                blocks.append([i, i, text])
        lines = []
        for start, end, text in blocks:
            label = f"({start})" if start == end else f"({start}-{end})"
            times = "" if start == end else f"{end - start + 1} x "
            lines.append(f"{label}: {times}{text}".replace("\n", "\n  "))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules that are registered.

    >>> heads = gt.nn.ModuleDict({"a": gt.nn.Linear(1, 2), "b": gt.nn.Linear(1, 3)})
    >>> heads["b"](gt.ones(1)).shape
    gt.Size([3])
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._module_names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._module_names)

    def __contains__(self, key: object) -> bool:
        return key in self._module_names

    def clear(self) -> None:
        """Removes all modules."""
        for name in list(self._module_names):
            delattr(self, name)

    def pop(self, key: str) -> Any:
        """Takes a module out."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping, or from pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleDict.update should be called with an iterable of key/value pairs, but got {type(modules).__name__}"
            )
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for pair in pairs:
            if len(pair) != 2:
                raise ValueError(f"a ModuleDict is updated by pairs of a name and a module, got {pair!r}")
            self[pair[0]] = pair[1]
