"""Modules without the work of initialising them."""

from __future__ import annotations

from typing import Any, TypeVar

from gt.nn.modules.module import Module

_M = TypeVar("_M", bound=Module)


def skip_init(module_cls: type[_M], *args: Any, **kwargs: Any) -> _M:
    """A module whose parameters will be loaded. Initial values that nobody reads are never computed, so it is a plain call.

    >>> gt.nn.utils.skip_init(gt.nn.Linear, 2, 3).weight.shape
    gt.Size([3, 2])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    return module_cls(*args, **kwargs)
