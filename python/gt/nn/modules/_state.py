"""Saving a module's state to a dict and loading it back.

STATE-1: `load_state_dict` looks at everything before it writes anything: a checkpoint that does not fit leaves the module
as it was, and the error names every key, shape and dtype that is wrong.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gt._core import Tensor
from gt._core import bool as _bool
from gt._grad_mode import no_grad
from gt.nn.modules._hooks import HookTables, RemovableHandle, add_hook
from gt.nn.modules._registry import Members
from gt.nn.parameter import Buffer, Parameter


class IncompatibleKeys(NamedTuple):
    """The keys that a module lacked in a checkpoint, and those it had no use for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class _Checkpoint(OrderedDict):  # type: ignore[type-arg]
    """A checkpoint being loaded, and the writes it will do if nothing is wrong with it."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.writes: list[Callable[[], None]] = []

    def apply(self) -> None:
        """Does the writes, once."""
        for write in self.writes:
            write()
        self.writes = []


def _kind(tensor: Tensor) -> str:
    if tensor.dtype.is_floating_point:
        return "float"
    return "bool" if tensor.dtype == _bool else "integer"


def _write_copy(target: Tensor, value: Tensor) -> Callable[[], None]:
    def write() -> None:
        with no_grad():
            target.copy_(value)

    return write


def _write_assign(module: Any, name: str, target: Tensor, value: Tensor) -> Callable[[], None]:
    def write() -> None:
        made: Tensor = value.detach()
        if isinstance(target, Parameter):
            made = value if isinstance(value, Parameter) else type(target)(made, target.requires_grad)
            made.requires_grad_(target.requires_grad)
        elif isinstance(target, Buffer):
            made = Buffer(made, persistent=target.persistent)
        setattr(module, name, made)

    return write


def _run_load_post_hooks(module: Any, missing: list[str], unexpected: list[str]) -> None:
    for hook in module._hook_tables.load_post.values():
        if hook(module, IncompatibleKeys(missing, unexpected)) is not None:
            raise AssertionError("a load_state_dict post hook must change the lists of keys in place and return None")


class StateMixin(Members):
    """`state_dict`, `load_state_dict` and their hooks."""

    _version = 1
    # None until the first hook is registered.
    _hook_tables: HookTables | None = None

    def _hooks(self) -> HookTables:
        if self._hook_tables is None:
            self._hook_tables = HookTables()
        return self._hook_tables

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers by name; detached unless `keep_vars`.

        The tensors are the module's own: what training writes later is seen in them.
        """
        if args:
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        tables = self._hook_tables
        if tables is not None:
            for hook in tables.state_dict_pre.values():
                hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        if tables is not None:
            for hook in tables.state_dict.values():
                changed = hook(self, destination, prefix, metadata)
                destination = destination if changed is None else changed
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        own = self.__dict__
        for name in self._parameter_names:
            value = own[name]
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        for name in self._buffer_names:
            value = own[name]
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not StateMixin.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """What a subclass wants stored beside its tensors."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define get_extra_state and set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Takes back what `get_extra_state` gave."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define get_extra_state and set_extra_state")

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Takes over parameters and buffers by name; nothing is changed when something does not fit.

        Floats of another width are cast. With `assign` the checkpoint's tensors become the module's own.

        >>> gt.nn.Linear(2, 1).load_state_dict({"weight": gt.ones(1, 2), "bias": gt.zeros(1)})
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        checkpoint = _Checkpoint(state_dict)
        loaded: list[Any] = []

        def visit(module: Any, prefix: str) -> None:
            local = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(checkpoint, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    visit(child, f"{prefix}{name}.")
            loaded.append(module)

        visit(self, "")
        hooked = [module for module in loaded if module._hook_tables is not None and module._hook_tables.load_post]
        if hooked and not errors:
            # Hooks after loading see the new values, and may take keys off the lists: they decide what is an error.
            checkpoint.apply()
        for module in hooked:
            _run_load_post_hooks(module, missing, unexpected)
        if strict:
            if unexpected:
                errors.insert(
                    0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected))
                )
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        checkpoint.apply()
        return IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this module's own entries, not those of its children. Subclasses that rename keys override it."""
        tables = self._hook_tables
        if tables is not None:
            for hook_id, hook in tables.load_pre.items():
                given = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
                hook(self, *given) if hook_id in tables.takes_module else hook(*given)
        own = self.__dict__
        names = [*self._parameter_names, *(n for n in self._buffer_names if n not in self._non_persistent_buffers_set)]
        writes: list[Callable[[], None]] = []
        for name in names:
            target = own[name]
            if target is None:
                continue
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
                continue
            self._plan_write(name, target, key, state_dict[key], local_metadata, writes, error_msgs)
        extra = prefix + "_extra_state"
        if type(self).set_extra_state is not StateMixin.set_extra_state:
            if extra in state_dict:
                state = state_dict[extra]
                writes.append(lambda: self.set_extra_state(state))
            else:
                missing_keys.append(extra)
        elif extra in state_dict:
            unexpected_keys.append(extra)
        self._collect_unexpected(state_dict, prefix, {*names}, extra, unexpected_keys)
        if isinstance(state_dict, _Checkpoint):
            state_dict.writes.extend(writes)
        else:
            for write in writes:
                write()

    def _plan_write(
        self,
        name: str,
        target: Tensor,
        key: str,
        value: Any,
        local_metadata: dict[str, Any],
        writes: list[Callable[[], None]],
        error_msgs: list[str],
    ) -> None:
        assign = local_metadata.get("assign_to_params_buffers", False)
        if not isinstance(value, Tensor):
            error_msgs.append(f"{key}: expected a gt.Tensor in the checkpoint, but it holds {type(value)}.")
            return
        # PyTorch once stored single numbers as vectors of one element.
        if target.dim() == 0 and tuple(value.shape) == (1,):
            value = value[0]
        if value.shape != target.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {target.shape}."
            )
        if _kind(value) != _kind(target):
            error_msgs.append(
                f"dtype mismatch for {key}: the checkpoint holds {value.dtype}, the model has {target.dtype}; "
                "convert the checkpoint's tensor if that is meant."
            )
        writes.append(_write_assign(self, name, target, value) if assign else _write_copy(target, value))

    def _collect_unexpected(
        self, state_dict: Any, prefix: str, names: set[str], extra: str, unexpected_keys: list[str]
    ) -> None:
        """Keys under this module's prefix that belong neither to it nor to a child."""
        absent = {n for n in (*self._parameter_names, *self._buffer_names) if self.__dict__[n] is None}
        known = (names - absent) | set(self._modules)
        for key in state_dict:
            if key.startswith(prefix) and key != extra:
                first, _, rest = key[len(prefix) :].partition(".")
                if first not in known or (rest and first not in self._modules):
                    unexpected_keys.append(key)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before `state_dict` collects this module."""
        return add_hook(self._hooks().state_dict_pre, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after `state_dict` collected this module."""
        return add_hook(self._hooks().state_dict, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, …)` before this module's entries are loaded; it may rename keys."""
        tables = self._hooks()
        return add_hook(tables.load_pre, hook, options=(tables.takes_module,))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        tables = self._hooks()
        return add_hook(tables.load_pre, hook, options=(tables.takes_module,) if with_module else ())

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after loading; it may take keys off the lists."""
        return add_hook(self._hooks().load_post, hook)
