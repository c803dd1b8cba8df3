"""Switching gradient tracking on and off, as context managers and as decorators.

MODE-1: the mode belongs to the thread and is set back when the block ends, also when it ends by an exception.
"""

from __future__ import annotations

import functools
from _thread import _local
from collections.abc import Callable
from typing import Any, TypeVar, overload

from gt import _core

_F = TypeVar("_F", bound=Callable[..., Any])

# The flag of a generator function's code. Asking the inspect module would make importing gt half as slow again.
_GENERATOR = 0x20

is_grad_enabled = _core.is_grad_enabled


class _GradMode:
    """A block, or a function, that runs with tracking on or off."""

    _on = False

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_core.set_grad_enabled_raw(self._on))

    def __exit__(self, *error: object) -> None:
        _core.set_grad_enabled_raw(self._before.pop())

    def _clone(self) -> _GradMode:
        return type(self)()

    def __call__(self, function: _F) -> _F:
        return _wrapped(function, self._clone)


def _wrapped(function: _F, mode: Callable[[], _GradMode]) -> _F:
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & _GENERATOR:
        return _wrapped_generator(function, mode)

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return function(*args, **kwargs)

    return inside  # type: ignore[return-value]


def _wrapped_generator(function: _F, mode: Callable[[], _GradMode]) -> _F:
    """The mode holds while the generator runs, and not while its user does."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        try:
            with mode():
                item = next(generator)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    with mode():
                        generator.close()
                    raise
                except BaseException as error:
                    with mode():
                        item = generator.throw(error)
                else:
                    with mode():
                        item = generator.send(sent)
        except StopIteration as end:
            return end.value

    return inside  # type: ignore[return-value]


class _Undecorated(_GradMode):
    """A mode that may decorate a function without parentheses, too."""

    @overload
    def __new__(cls, function: None = None) -> _Undecorated: ...
    @overload
    def __new__(cls, function: _F) -> _F: ...  # type: ignore[misc]
    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else _wrapped(function, cls)

    def __init__(self, function: Any = None) -> None:
        super().__init__()


class no_grad(_Undecorated):
    """Nothing in the block is tracked.

    >>> x = gt.ones(2, requires_grad=True)
    >>> with gt.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """


class enable_grad(_Undecorated):
    """The block is tracked, also inside `no_grad`.

    >>> x = gt.ones(2, requires_grad=True)
    >>> with gt.no_grad(), gt.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    _on = True


class _Inference(_local):
    """How many blocks of inference mode the thread is in."""

    depth = 0


_inference = _Inference()


class inference_mode(_GradMode):
    """As `no_grad`: results are ordinary tensors. `inference_mode(False)` turns tracking on.

    >>> @gt.inference_mode()
    ... def double(x):
    ...     return x * 2
    >>> double(gt.ones(2, requires_grad=True)).requires_grad
    False
    """

    @overload
    def __new__(cls, mode: bool = True) -> inference_mode: ...
    @overload
    def __new__(cls, mode: _F) -> _F: ...  # type: ignore[misc]
    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else _wrapped(mode, cls)

    def __init__(self, mode: Any = True) -> None:
        super().__init__()
        self.mode = mode
        self._on = not mode
        self._depths: list[int] = []

    def __enter__(self) -> None:
        super().__enter__()
        self._depths.append(_inference.depth)
        _inference.depth = _inference.depth + 1 if self.mode else 0

    def __exit__(self, *error: object) -> None:
        _inference.depth = self._depths.pop()
        super().__exit__(*error)

    def _clone(self) -> inference_mode:
        return inference_mode(self.mode)


class set_grad_enabled(_GradMode):
    """Turns tracking on or off at once; as a context manager, until the block ends.

    >>> x = gt.ones(2, requires_grad=True)
    >>> with gt.set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._on = bool(mode)
        self._entry = _core.set_grad_enabled_raw(self._on)

    def __enter__(self) -> None:
        self._before.append(self._entry)
        _core.set_grad_enabled_raw(self._on)

    def __call__(self, function: _F) -> _F:
        # Decorating is not entering: the function's mode is set when it is called.
        _core.set_grad_enabled_raw(self._entry)
        return super().__call__(function)

    def _clone(self) -> set_grad_enabled:
        return set_grad_enabled(self._on)


def is_inference_mode_enabled() -> bool:
    """Whether the thread is in a block of inference mode.

    >>> with gt.inference_mode():
    ...     gt.is_inference_mode_enabled()
    True
    """
    return _inference.depth > 0
