"""Functions whose backward pass the user writes.

FUNCTION-1: the node on the tape holds the context, and the context never holds an output of its own function: an
output that is saved is kept as a detached alias, so that a graph which is never walked is freed.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad

__all__ = ["Function", "FunctionCtx", "once_differentiable"]

_CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape "
    "{shape} saved by {name} is at version {now}; expected version {then} instead"
)
_RELEASED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Specify retain_graph=True if you need to backward through the graph a second time."
)


class FunctionCtx:
    """What a `Function` carries from its forward to its backward pass; attributes of your own may be set on it.

    >>> class Scale(gt.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, factor):
    ...         ctx.factor = factor
    ...         return x * factor
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * ctx.factor, None
    >>> x = gt.ones(2, requires_grad=True)
    >>> Scale.apply(x, 3.0).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self, name: str) -> None:
        self._name = name
        self._to_save: tuple[Tensor | None, ...] = ()
        self._saved: list[Callable[[], Tensor | None]] | None = None
        self._dirty: tuple[Tensor, ...] = ()
        self._non_differentiable: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps inputs or outputs for the backward pass, which finds them in `saved_tensors`."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_backward can only save tensors, but got {type(tensor).__name__}")
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        if self._saved is None:
            if self._to_save:
                # The forward pass is still running, or was not tracked.
                return self._to_save
            raise RuntimeError(_RELEASED)
        return tuple(load() for load in self._saved)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says which inputs the forward pass wrote to; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says which outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether outputs without a gradient come to the backward pass as zeros (the default) or as None."""
        self._materialize = value

    def name(self) -> str:
        """The name of the node on the tape."""
        return self._name

    def _release(self) -> None:
        self._saved = None
        self._to_save = ()


def _is_one_of(tensor: Tensor, among: tuple[Tensor, ...] | list[Tensor]) -> bool:
    return any(tensor is other for other in among)


def _pass_on(gradients: list[Tensor | None]) -> list[Tensor | None]:
    return gradients


def _stand_in(tensor: Tensor) -> Tensor:
    """Nothing but the place of `tensor` in the graph: gradients given to it arrive there; its value is not kept."""
    with no_grad():
        nothing = _core.zeros((), dtype=tensor.dtype)
    return _core.custom_node("Alias", [tensor], [nothing], [True], _pass_on, None)[0]


class _Call:
    """One use of a `Function`: the node's backward pass, and what it must know of the forward one."""

    def __init__(self, function: type[Function], context: FunctionCtx, args: tuple[Any, ...]) -> None:
        self.function = function
        self.context = context
        self.arity = len(args)
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.inputs = [(tuple(args[i].shape), args[i].dtype, args[i].requires_grad) for i in self.places]
        self.outputs: list[tuple[tuple[int, ...], Any] | None] = []
        self.slots: list[int] = []
        self.differentiable: list[bool] = []

    def tie(self, inputs: list[Tensor], outputs: list[Any]) -> list[Any]:
        """Makes the tensors among `outputs` results of this call on the tape."""
        context = self.context
        self.slots = [i for i, o in enumerate(outputs) if isinstance(o, Tensor)]
        self.outputs = [(tuple(o.shape), o.dtype) if isinstance(o, Tensor) else None for o in outputs]
        plain = [outputs[i] for i in self.slots]
        self.differentiable = [
            o.dtype.is_floating_point and not _is_one_of(o, context._non_differentiable) for o in plain
        ]
        for dirty in context._dirty:
            if not _is_one_of(dirty, plain):
                raise RuntimeError("an input that was marked dirty must be returned")
            if dirty.is_leaf and dirty.requires_grad:
                raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        own = [o for o in plain if not _is_one_of(o, inputs) or _is_one_of(o, context._dirty)]
        saves_output = any(s is not None and _is_one_of(s, own) for s in context._to_save)
        stand_ins = [_stand_in(t) if t.requires_grad else t.detach() for t in inputs] if saves_output else []
        versions = [None if s is None else s._version for s in context._to_save]
        aliases = [s.detach() if s is not None and _is_one_of(s, own) else None for s in context._to_save]
        tied = _core.custom_node(context._name, inputs, plain, self.differentiable, self.backward, context._release)
        results: list[Any] = list(outputs)
        for slot, before, after in zip(self.slots, plain, tied):
            # The tensor that was written to is itself the result, so that whoever holds it sees the new history.
            results[slot] = before.copy_(after) if _is_one_of(before, context._dirty) else after
        saved: list[Callable[[], Tensor | None]] = []
        for kept, version, alias in zip(context._to_save, versions, aliases):
            if alias is None:
                saved.append(functools.partial(self._load, kept, version))
            else:
                place = next(i for i, o in enumerate(plain) if o is kept)
                alive = weakref.ref(results[self.slots[place]])
                saved.append(functools.partial(self._load_output, alive, alias, alias._version, place, stand_ins))
        context._saved = saved
        context._to_save = context._dirty = context._non_differentiable = ()
        return results

    def _load(self, tensor: Tensor | None, version: int | None) -> Tensor | None:
        if tensor is not None and tensor._version != version:
            shape = tuple(tensor.shape)
            raise RuntimeError(_CHANGED.format(shape=shape, name=self.context._name, now=tensor._version, then=version))
        return tensor

    def _load_output(self, alive: Any, alias: Tensor, version: int, place: int, stand_ins: list[Tensor]) -> Tensor:
        self._load(alias, version)
        if not _core.is_grad_enabled() or not self.differentiable[place]:
            return alias
        output = alive()
        if output is not None:
            return output  # type: ignore[no-any-return]
        # The graph of the gradient needs the output's place in the graph, but nobody holds it: the call is tied anew.
        filler = [alias.detach() for _ in self.slots]
        return _core.custom_node(self.context._name, stand_ins, filler, self.differentiable, self.backward, None)[place]

    def backward(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """Gradients of the tensor inputs from those of the tensor outputs."""
        context = self.context
        full: list[Tensor | None] = [None] * len(self.outputs)
        for slot, gradient in zip(self.slots, gradients):
            described = self.outputs[slot]
            if gradient is None and context._materialize and described is not None:
                gradient = _core.zeros(described[0], dtype=described[1])
            full[slot] = gradient
        given = self.function.backward(context, *full)
        listed = list(given) if isinstance(given, (tuple, list)) else [given]
        if len(listed) > self.arity and all(g is None for g in listed[self.arity :]):
            del listed[self.arity :]
        if len(listed) != self.arity:
            raise RuntimeError(
                f"function {context._name} returned an incorrect number of gradients "
                f"(expected {self.arity}, got {len(listed)})"
            )
        for i, gradient in enumerate(listed):
            if gradient is not None and i not in self.places:
                raise RuntimeError(
                    f"function {context._name} returned a gradient different from None at position {i + 1}, "
                    "but the corresponding forward input was not a Variable"
                )
        return [self._fitted(i, listed[p], d) for i, (p, d) in enumerate(zip(self.places, self.inputs))]

    def _fitted(self, index: int, gradient: Any, described: tuple[tuple[int, ...], Any, bool]) -> Tensor | None:
        """The gradient in its input's shape and dtype; one of a larger shape was broadcast, so it is summed."""
        shape, dtype, needed = described
        if gradient is None or not needed:
            return None
        if not isinstance(gradient, Tensor):
            raise TypeError(f"expected a tensor or None as gradient, got {type(gradient).__name__}")
        made = tuple(gradient.shape)
        if made != shape:
            lead = len(made) - len(shape)
            if lead < 0 or any(n not in (1, m) for n, m in zip(shape, made[lead:])):
                raise RuntimeError(
                    f"Function {self.context._name} returned an invalid gradient at index {index} - "
                    f"got {list(made)} but expected shape compatible with {list(shape)}"
                )
            dims = [*range(lead), *(lead + i for i, n in enumerate(shape) if n != made[lead + i])]
            gradient = gradient.sum(dims, keepdim=True).reshape(shape)
        fitted: Tensor = gradient if gradient.dtype == dtype else gradient.to(dtype)
        return fitted


class Function:
    """A differentiable function with a backward pass of your own.

    >>> class Cube(gt.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x**2 * grad
    >>> x = gt.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the results: `forward(ctx, *args)`, or `forward(*args)` beside a `setup_context`."""
        raise NotImplementedError("a Function must define forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Prepares the context after `forward(*args)`."""
        raise NotImplementedError("setup_context is not defined")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the inputs from those of the outputs; None where there is none."""
        raise NotImplementedError("a Function must define backward to be differentiated")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls the function and puts it on the tape."""
        context = FunctionCtx(f"{cls.__name__}Backward")
        context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        tracked = _core.is_grad_enabled() and any(context.needs_input_grad)
        call = _Call(cls, context, args)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                made = cls.forward(context, *args)
            else:
                made = cls.forward(*args)
                cls.setup_context(context, args, made)
        if not tracked:
            return made
        outputs = list(made) if isinstance(made, (tuple, list)) else [made]
        inputs = [args[i] for i in call.places]
        results = call.tie(inputs, outputs)
        return tuple(results) if isinstance(made, (tuple, list)) else results[0]


def _twice(gradients: list[Tensor | None]) -> list[Tensor | None]:
    raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a `Function.backward` that cannot itself be differentiated: doing so raises.

    >>> class Half(gt.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x / 2
    ...     @staticmethod
    ...     @gt.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad / 2
    >>> x = gt.tensor(3.0, requires_grad=True)
    >>> Half.apply(x).backward()
    >>> x.grad
    tensor(0.5000)
    """

    @functools.wraps(backward)
    def untracked(context: Any, *gradients: Any) -> Any:
        with no_grad():
            made = backward(context, *gradients)
        sources = [g for g in gradients if isinstance(g, Tensor) and g.requires_grad]
        if not _core.is_grad_enabled() or not sources:
            return made
        listed = list(made) if isinstance(made, (tuple, list)) else [made]
        places = [i for i, m in enumerate(listed) if isinstance(m, Tensor)]
        tied = _core.custom_node("Error", sources, [listed[i] for i in places], [True] * len(places), _twice, None)
        for place, tensor in zip(places, tied):
            listed[place] = tensor
        return tuple(listed) if isinstance(made, (tuple, list)) else listed[0]

    return untracked
