"""What every optimizer has: parameter groups, state, hooks, and a `state_dict` in PyTorch's layout.

OPTIM-1: an update never reads a value. Counters that PyTorch keeps as tensors (`step`, and those in `_counters`) are
         Python numbers inside and tensors to those who look (`ParameterState`); `load_state_dict` takes either.
OPTIM-2: `step` runs between the hooks, whichever class defines it.
"""

from __future__ import annotations

import copy
import functools
import sys
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from types import CodeType
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.optim.hooks import Hooks, RemovableHandle, add_hook
from gt.optim.parameter_state import ParameterState

Closure = Callable[[], Any]

_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class _Required:
    """Stands for a default that every parameter group must give itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _between_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        for hook in tuple(self._optimizer_step_pre_hooks.values()):
            changed = hook(self, (self, *args), kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"a step pre hook must return None or a tuple of (new_args, new_kwargs), but got {changed!r}"
                    )
                (_, *args), kwargs = changed
        # A scheduler puts it there, to warn when it is stepped first.
        if "_opt_called" in self.__dict__:
            self._opt_called = True
        caller = sys._getframe(1)
        self._stepped_at = (caller.f_code, caller.f_lasti)
        out = step(self, *args, **kwargs)
        for hook in tuple(self._optimizer_step_post_hooks.values()):
            hook(self, (self, *args), kwargs)
        return out

    run._between_hooks = True  # type: ignore[attr-defined]
    return run


class Optimizer:
    """The base of optimizers. A subclass gives its options in `defaults` and defines `step`.

    >>> class SignDescent(gt.optim.Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...     @gt.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.sub_(p.grad.sign() * group["lr"])
    >>> x = gt.tensor([1.0, -2.0], requires_grad=True)
    >>> x.square().sum().backward()
    >>> SignDescent([x]).step()
    >>> x.detach()
    tensor([ 0.9000, -1.9000])
    """

    # State that PyTorch keeps in tensors of one element and GT in numbers (OPTIM-1); a subclass of a user has none.
    _counters: frozenset[str] = frozenset()

    _opt_called: bool
    # The call of the last step, to tell optimizers apart whose parameters have the same shapes.
    _stepped_at: tuple[CodeType, int] | None = None
    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _between_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got one Tensor"
            )
        if isinstance(params, (set, frozenset)):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        left_out = (*_HOOKS, "_opt_called", "_stepped_at", "_last_updates")
        return {key: value for key, value in self.__dict__.items() if key not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with options of their own; what the group does not say is taken from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, (set, frozenset)):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        given = [given] if isinstance(given, Tensor) else list(given)
        names = [item[0] for item in given if isinstance(item, tuple)]
        if names and len(names) != len(given):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        params = [item[1] if isinstance(item, tuple) else item for item in given]
        for param in params:
            if not isinstance(param, Tensor):
                kind = f"{type(param).__module__}.{type(param).__qualname__}"
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {kind}")
            if not self.defaults.get("differentiable") and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        ids = {id(param) for param in params}
        if len(ids) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters: each of them is updated twice a step",
                stacklevel=3,
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                with_names = "with names" if names else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {with_names} to the optimizer"
                )
            if not ids.isdisjoint(id(param) for param in group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or makes them zero with `set_to_none=False`."""
        for group in self.param_groups:
            for param in group["params"]:
                grad = None if set_to_none else param.grad
                if grad is None:
                    param.grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                grad.requires_grad_(False).zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Updates the parameters from their gradients; `closure`, if given, computes the loss and its gradients first."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def state_dict(self) -> dict[str, Any]:
        """The state by the index of each parameter, and the groups, in the layout that PyTorch writes.

        >>> gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=0.5).state_dict()["param_groups"][0]["params"]
        [0]
        """
        for hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        index: dict[int, int] = {}
        for param in chain.from_iterable(group["params"] for group in self.param_groups):
            index.setdefault(id(param), len(index))
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": [index[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {
            index[id(key)] if isinstance(key, Tensor) else key: self._shown(value) for key, value in self.state.items()
        }
        out: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            changed = hook(self, out)
            out = out if changed is None else changed
        return out

    def _shown(self, state: Any) -> Any:
        if not isinstance(state, dict):
            return state
        return {
            # A copy, which does not count along.
            key: _core.full((), float(value), dtype=_core.get_default_dtype())
            if key in self._counters and isinstance(value, (int, float))
            else value
            for key, value in dict.items(state)
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over groups and state. Tensors are copied, and floats take the dtype of their parameter.

        >>> x = gt.ones(1, requires_grad=True)
        >>> a, b = gt.optim.Adam([x], lr=0.5), gt.optim.Adam([x])
        >>> b.load_state_dict(a.state_dict())
        >>> b.param_groups[0]["lr"]
        0.5
        """
        state_dict = dict(state_dict)
        for hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in self.param_groups]
        saved_sizes = [len(group["params"]) for group in saved]
        if len(sizes) != len(saved_sizes):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"it has {len(saved_sizes)}, the optimizer {len(sizes)}"
            )
        if sizes != saved_sizes:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                f"its groups have {saved_sizes} parameters, the optimizer's {sizes}"
            )
        ours = chain.from_iterable(group["params"] for group in self.param_groups)
        by_key = dict(zip(chain.from_iterable(group["params"] for group in saved), ours))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            param = by_key.get(key)
            state[key if param is None else param] = value if param is None else _fitted(param, value, self._counters)
        _read_counters(list(state.values()), self._counters)
        if self._counters:
            for param in by_key.values():
                if param in state:
                    state[param] = ParameterState(self._counters, state[param])
        groups = [_loaded_group(old, new) for old, new in zip(self.param_groups, saved)]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step; it may return other arguments."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before a state dict is made."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after a state dict is made; it may return another."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before a state dict is loaded; it may return another."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` after a state dict is loaded."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _loaded_group(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    group = {key: copy.deepcopy(value) for key, value in new.items() if key != "params"}
    if "param_names" in old:
        group.setdefault("param_names", old["param_names"])
    return {"params": old["params"], **group}


def _fitted(param: Tensor, value: Any, counters: frozenset[str], key: str | None = None) -> Any:
    """A copy of loaded state as the parameter needs it."""
    if isinstance(value, Tensor):
        if key in counters:
            return value
        dtype = param.dtype if param.dtype.is_floating_point else value.dtype
        copy = value.detach().to(dtype=dtype, device=param.device).clone()
        copy._mark_state()
        return copy
    if isinstance(value, dict):
        return {name: _fitted(param, inner, counters, name) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fitted(param, inner, counters) for inner in value)
    return value


def _read_counters(states: Iterable[Any], counters: frozenset[str]) -> None:
    """Makes numbers of counters that were loaded as tensors: one read for all of them."""
    found = [
        (state, key)
        for state in states
        if isinstance(state, dict)
        for key in state
        if key in counters and isinstance(dict.__getitem__(state, key), Tensor)
    ]
    if not found:
        return
    numbers = _core.stack([state[key].detach().double().reshape(()) for state, key in found]).tolist()
    for (state, key), number in zip(found, numbers):
        state[key] = number
