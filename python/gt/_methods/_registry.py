"""How a composed operation becomes a function of `gt` and a method of tensors.

METHODS-1: what the extension has by itself is never replaced from here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from gt._core import Tensor

_F = TypeVar("_F", bound=Callable[..., Any])


def function(made: _F) -> _F:
    """A function that `gt` exports: users know it by that name."""
    made.__module__ = "gt"
    return made


def method_only(made: _F) -> _F:
    """Makes a function of a tensor its method; `gt` has no function of that name."""
    if made.__name__ in Tensor.__dict__:
        raise ImportError(f"Tensor.{made.__name__} is part of the extension and composed in Python, too")
    setattr(Tensor, made.__name__, made)
    return made


def method(made: _F) -> _F:
    """A function of a tensor that is its method, too."""
    return function(method_only(made))


def of_tensors(*names: str) -> Callable[[_F], _F]:
    """Makes a function refuse what is not a tensor as its first arguments, which have these names."""

    def decorate(made: _F) -> _F:
        @wraps(made)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name, given in (*zip(names, args), *((n, kwargs[n]) for n in names[len(args) :] if n in kwargs)):
                if not isinstance(given, Tensor):
                    kind = type(given).__name__
                    raise TypeError(f"{made.__name__}(): argument '{name}' must be Tensor, not {kind}")
            return made(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


of_two_tensors = of_tensors("input", "other")


def in_place(name: str) -> None:
    """Gives tensors `name_`, which writes what the method `name` computes to the tensor itself."""
    compute = getattr(Tensor, name)

    def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._write(compute(self._before_write(), *args, **kwargs))

    write.__name__ = name + "_"
    write.__qualname__ = f"Tensor.{name}_"
    write.__doc__ = f"As `{name}`, and writes the result to the tensor itself."
    method_only(write)
