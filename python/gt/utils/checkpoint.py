"""Activation checkpointing: what a function computed on the way is dropped, and computed again for its gradient.

CHECKPOINT-1: the forward pass is recorded as any other, then all of its tape is let go but the edges that leave it, so
every tensor that the function uses gets its gradient: arguments, and what the function reaches by itself.
CHECKPOINT-2: the second run draws the random numbers of the first, and leaves the thread's stream where it was; it
computes in the precision of the first, under the signal of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._grad_mode import enable_grad

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not give what the first one gave.

    >>> sizes = iter([2, 3])
    >>> out = gt.utils.checkpoint.checkpoint(lambda x: x[: next(sizes)].exp(), gt.ones(3, requires_grad=True))
    >>> try:
    ...     out.sum().backward()
    ... except gt.utils.checkpoint.CheckpointError as error:
    ...     print(type(error).__name__)
    CheckpointError
    """


def _tensors(nested: Any, found: list[Tensor]) -> list[Tensor]:
    if isinstance(nested, Tensor):
        found.append(nested)
    elif isinstance(nested, (tuple, list)):
        for inner in nested:
            _tensors(inner, found)
    elif isinstance(nested, dict):
        for inner in nested.values():
            _tensors(inner, found)
    return found


def _replaced(nested: Any, by: dict[int, Tensor]) -> Any:
    """The same nest with other tensors in it."""
    if isinstance(nested, Tensor):
        return by.get(id(nested), nested)
    if isinstance(nested, tuple):
        parts = [_replaced(inner, by) for inner in nested]
        return type(nested)(*parts) if hasattr(nested, "_fields") else tuple(parts)
    if isinstance(nested, list):
        return [_replaced(inner, by) for inner in nested]
    if isinstance(nested, dict):
        return {name: _replaced(inner, by) for name, inner in nested.items()}
    return nested


class _Piece:
    """One checkpointed call: enough to run it again and to walk it back."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, preserve_rng_state: bool) -> None:
        self.call: tuple[Callable[..., Any], Any, Any] | None = (function, args, kwargs)
        self.random = _core.rng_state() if preserve_rng_state else None
        from gt.amp.mode import current  # Here, since mixed precision is loaded when it is used.

        self.precision = current()
        self.scope = _core.signal_scope()
        self.edges: list[Tensor] = []
        self.shapes: list[tuple[Any, ...]] = []

    def run(self) -> tuple[Any, list[Tensor]]:
        """The function's result, and the tensors in it that gradients flow to."""
        assert self.call is not None
        function, args, kwargs = self.call
        with enable_grad():
            out = function(*args, **kwargs)
        return out, [t for t in _tensors(out, []) if t.requires_grad]

    def first(self) -> Any:
        assert self.call is not None
        self.versions = [(t, t._version) for t in _tensors(self.call[1:], [])]
        since = _core.tape_position()
        out, tracked = self.run()
        if not tracked:
            return out
        self.edges = _core.captured(tracked, since)
        self.shapes = [(tuple(t.shape), t.dtype) for t in tracked]
        cut = [t.detach() for t in tracked]
        tied = _core.custom_node("CheckpointBackward", self.edges, cut, [True] * len(cut), self.backward, self.release)
        return _replaced(out, {id(old): new for old, new in zip(tracked, tied)})

    def backward(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        for tensor, version in self.versions:
            if tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: an "
                    f"argument of a checkpointed function, of shape {tuple(tensor.shape)}, is at version "
                    f"{tensor._version}; expected version {version} instead"
                )
        create_graph = _core.is_grad_enabled()
        now = _core.rng_state()
        if self.random is not None:
            _core.set_rng_state_raw(*self.random)
        since = _core.tape_position()
        # What is computed again is forward work, also where gradients are under a signal of their own.
        around = _core.set_signal_scope(self.scope)
        try:
            with self.precision:
                _, tracked = self.run()
        finally:
            _core.set_signal_scope(around)
            if self.random is not None:
                _core.set_rng_state_raw(*now)
        shapes = [(tuple(t.shape), t.dtype) for t in tracked]
        if shapes != self.shapes:
            raise CheckpointError(
                "a checkpointed function returned different tensors when it was recomputed for its gradient: "
                f"first {self.shapes}, then {shapes}"
            )
        pairs = [(t, g) for t, g in zip(tracked, gradients) if g is not None]
        roots, given = [t for t, _ in pairs], [g for _, g in pairs]
        return _core.grad_of_piece(roots, given, self.edges, since, create_graph)

    def release(self) -> None:
        self.call = None
        self.versions = []


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls `function(*args, **kwargs)` and forgets what it computed on the way; the backward pass calls it again.

    Random numbers are the same in both runs (unless `preserve_rng_state=False`). `use_reentrant` is accepted and makes
    no difference: gradients reach arguments, parameters and captured tensors either way.

    >>> from gt.utils.checkpoint import checkpoint
    >>> x = gt.tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint(lambda t: t.exp().log() * t, x)
    >>> y.sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    if not _core.is_grad_enabled():
        return function(*args, **kwargs)
    return _Piece(function, args, kwargs, preserve_rng_state).first()


def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Calls a chain of functions in `segments` checkpointed groups; the last group is run as usual.

    >>> from gt.utils.checkpoint import checkpoint_sequential
    >>> checkpoint_sequential([gt.exp, gt.log, gt.neg], 2, gt.ones(2))
    tensor([-1., -1.])
    """
    chain = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = max(1, len(chain) // segments)

    def group(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for function in chain[start:end]:
                value = function(value)
            return value

        return run

    start = 0
    for _ in range(segments - 1):
        input = checkpoint(group(start, start + size), input, preserve_rng_state=preserve_rng_state)
        start += size
    return group(start, len(chain))(input)
