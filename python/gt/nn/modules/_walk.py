"""Walking through a module's members and those of its submodules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gt._core import Tensor
from gt.nn.modules._registry import Members


class WalkMixin(Members):
    """`named_parameters`, `modules`, `get_submodule` and the like."""

    def _named_members(
        self, members: Callable[[Any], Any], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        places = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in places:
            for name, value in members(module):
                if value is None:
                    continue
                if remove_duplicate:
                    if id(value) in seen:
                        continue
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Every parameter with its name; one that is used twice is given once, unless `remove_duplicate=False`."""
        return self._named_members(_parameters_of, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """Every parameter, once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Every buffer with its name."""
        return self._named_members(_buffers_of, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer, once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The direct submodules with their names, each once."""
        seen: set[int] = set()
        own = self.__dict__
        for name in self._module_names:
            module = own[name]
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Any]:
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and every one below it, with their paths; this one's is empty."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        own = self.__dict__
        for name in self._module_names:
            module = own[name]
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Any]:
        """This module and every one below it, each once."""
        for _, module in self.named_modules():
            yield module

    def get_submodule(self, target: str) -> Any:
        """The submodule at a dotted path; the empty path is this module."""
        module: Any = self
        for part in target.split(".") if target else ():
            if part not in module._module_names:
                known = part in module.__dict__
                what = f"`{part}` is not an nn.Module" if known else f"has no attribute `{part}`"
                raise AttributeError(f"{type(module).__name__} {what} (looking for {target!r})")
            module = module.__dict__[part]
        return module

    def get_parameter(self, target: str) -> Any:
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module.__dict__.get(name) is None or name not in module._parameter_names:
            raise AttributeError(f"{type(module).__name__} has no parameter `{name}` (looking for {target!r})")
        return module.__dict__[name]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module.__dict__.get(name) is None or name not in module._buffer_names:
            raise AttributeError(f"{type(module).__name__} has no buffer `{name}` (looking for {target!r})")
        return module.__dict__[name]  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Any) -> None:
        """Replaces the submodule at a dotted path."""
        path, _, name = target.rpartition(".")
        setattr(self.get_submodule(path), name, module)


def _parameters_of(module: Any) -> Iterator[tuple[str, Any]]:
    own = module.__dict__
    return ((name, own[name]) for name in module._parameter_names)


def _buffers_of(module: Any) -> Iterator[tuple[str, Any]]:
    own = module.__dict__
    return ((name, own[name]) for name in module._buffer_names)
