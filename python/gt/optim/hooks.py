"""Functions that run around an optimizer's work, and the handles that take them away again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

Hooks = OrderedDict[int, Callable[..., Any]]


class RemovableHandle:
    """Takes a hook away: by `remove()`, or at the end of a `with` block.

    >>> opt = gt.optim.SGD([gt.ones(1, requires_grad=True)])
    >>> handle = opt.register_step_post_hook(lambda *call: print("stepped"))
    >>> opt.step()
    stepped
    >>> handle.remove()
    >>> opt.step()
    """

    _next_id = 0

    def __init__(self, hooks: Hooks) -> None:
        self.id = RemovableHandle._next_id
        RemovableHandle._next_id += 1
        self._hooks = hooks

    def remove(self) -> None:
        """Takes the hook away; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def add_hook(hooks: Hooks, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    """Adds a hook behind the others, or before them."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
