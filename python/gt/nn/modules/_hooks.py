"""Hooks of modules: handles to take them off again, and the calls that run them.

HOOKS-1: a module without hooks never comes here: `Module.__call__` goes straight to `forward`.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

from gt._core import Tensor
from gt.autograd.function import Function

_ids = itertools.count()


class RemovableHandle:
    """What registering a hook returns; `remove()`, or the end of a `with` block, takes the hook off.

    >>> layer = gt.nn.Linear(1, 1)
    >>> handle = layer.register_forward_hook(lambda module, args, output: gt.zeros(1))
    >>> layer(gt.ones(1)).tolist()
    [0.0]
    >>> handle.remove()
    """

    def __init__(self, hooks: OrderedDict[int, Any], *, options: tuple[dict[int, bool], ...] = ()) -> None:
        self.id = next(_ids)
        # Weak, so that a handle that somebody keeps does not keep the module's hooks alive.
        self._hooks = weakref.ref(hooks)
        self._options = options

    def remove(self) -> None:
        """Takes the hook off; a second call does nothing."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)
        for option in self._options:
            option.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def add_hook(
    hooks: OrderedDict[int, Any], hook: Any, prepend: bool = False, options: tuple[dict[int, bool], ...] = ()
) -> RemovableHandle:
    """Registers a hook, and marks it in the option tables it belongs to."""
    handle = RemovableHandle(hooks, options=options)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    for option in options:
        option[handle.id] = True
    return handle


class HookTables:
    """All hooks of one module."""

    def __init__(self) -> None:
        self.forward_pre: OrderedDict[int, Any] = OrderedDict()
        self.forward: OrderedDict[int, Any] = OrderedDict()
        self.backward_pre: OrderedDict[int, Any] = OrderedDict()
        self.backward: OrderedDict[int, Any] = OrderedDict()
        self.state_dict_pre: OrderedDict[int, Any] = OrderedDict()
        self.state_dict: OrderedDict[int, Any] = OrderedDict()
        self.load_pre: OrderedDict[int, Any] = OrderedDict()
        self.load_post: OrderedDict[int, Any] = OrderedDict()
        self.takes_kwargs: dict[int, bool] = {}
        self.always: dict[int, bool] = {}
        self.takes_module: dict[int, bool] = {}

    @property
    def on_call(self) -> bool:
        """Whether a call of the module has hooks to run."""
        return bool(self.forward_pre or self.forward or self.backward_pre or self.backward)


def call_with_hooks(module: Any, tables: HookTables, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The forward pass with everything that was registered around it."""
    ran: set[int] = set()
    try:
        args, kwargs = _before(module, tables, args, kwargs)
        boundary = _BackwardBoundary(module, tables) if tables.backward or tables.backward_pre else None
        if boundary is not None:
            args = boundary.watch_inputs(args)
        result = module.forward(*args, **kwargs)
        for key, hook in list(tables.forward.items()):
            ran.add(key)
            result = _after(module, tables, key, hook, args, kwargs, result)
        return result if boundary is None else boundary.watch_outputs(result)
    except Exception:
        # Hooks that asked to run always see a failed call too; what they raise must not hide the first error.
        for key, hook in list(tables.forward.items()):
            if key in tables.always and key not in ran:
                try:
                    _after(module, tables, key, hook, args, kwargs, None)
                except Exception as error:
                    import warnings

                    warnings.warn(
                        f"a forward hook with always_call=True raised {error!r} and was ignored", stacklevel=3
                    )
        raise


def _before(
    module: Any, tables: HookTables, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for key, hook in list(tables.forward_pre.items()):
        if key in tables.takes_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"a forward pre-hook with kwargs must return None or a tuple (args, kwargs), got {changed!r}"
                    )
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def _after(
    module: Any, tables: HookTables, key: int, hook: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    changed = hook(module, args, kwargs, result) if key in tables.takes_kwargs else hook(module, args, result)
    return result if changed is None else changed


class _Watched(Function):
    """The identity; its backward pass shows the gradients of all tensors at once and takes what comes back."""

    @staticmethod
    def forward(ctx: Any, see: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.see = see
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        return (None, *ctx.see(gradients))


class _BackwardBoundary:
    """One call of a module with backward hooks: gradients are seen as they enter and as they leave it."""

    def __init__(self, module: Any, tables: HookTables) -> None:
        self.module = module
        self.tables = tables
        self.inputs = 0
        self.watched: list[int] = []
        self.of_outputs: tuple[Any, ...] | None = None

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.inputs = len(args)
        self.watched = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
        if not self.watched:
            return args
        changed = list(args)
        seen = _Watched.apply(self.leave, *(args[i] for i in self.watched))
        for place, tensor in zip(self.watched, seen):
            changed[place] = tensor
        return tuple(changed)

    def watch_outputs(self, result: Any) -> Any:
        single = isinstance(result, Tensor)
        parts = [result] if single else list(result) if isinstance(result, (tuple, list)) else None
        if parts is None:
            import warnings

            warnings.warn(
                f"a module with backward hooks must return a tensor or a tuple of tensors, but forward returned {type(result).__name__}",
                stacklevel=4,
            )
            return result
        places = [i for i, p in enumerate(parts) if isinstance(p, Tensor) and p.requires_grad]
        if not places:
            return result
        self.width, self.places = len(parts), places
        for place, tensor in zip(places, _Watched.apply(self.enter, *(parts[i] for i in places))):
            parts[place] = tensor
        return parts[0] if single else type(result)(parts) if type(result) in (tuple, list) else tuple(parts)

    def enter(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        full: list[Any] = [None] * self.width
        for place, gradient in zip(self.places, gradients):
            full[place] = gradient
        of_outputs = tuple(full)
        for hook in list(self.tables.backward_pre.values()):
            changed = hook(self.module, of_outputs)
            if changed is not None:
                of_outputs = changed if isinstance(changed, tuple) else (changed,)
                if len(of_outputs) != self.width:
                    raise RuntimeError(
                        f"a backward pre-hook returned {len(of_outputs)} gradients where the module has {self.width} outputs"
                    )
        self.of_outputs = of_outputs
        if not self.watched:
            # Nothing will leave, so the hooks run here.
            self.run_hooks((None,) * self.inputs)
        return tuple(of_outputs[i] for i in self.places)

    def leave(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        full: list[Any] = [None] * self.inputs
        for place, gradient in zip(self.watched, gradients):
            full[place] = gradient
        changed = self.run_hooks(tuple(full))
        return tuple(changed[i] for i in self.watched)

    def run_hooks(self, of_inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self.tables.backward.values()):
            changed = hook(self.module, of_inputs, self.of_outputs)
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(of_inputs):
                    raise RuntimeError(
                        f"a backward hook returned {len(changed)} gradients where the module has {len(of_inputs)} inputs"
                    )
                of_inputs = changed
        self.of_outputs = None
        return of_inputs
