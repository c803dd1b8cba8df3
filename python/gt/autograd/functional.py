"""Derivatives of functions: Jacobians, Hessians, and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gt import _core, autograd
from gt._core import Tensor
from gt._grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_Inputs = Tensor | Sequence[Tensor]


def _leaves(inputs: _Inputs, create_graph: bool) -> list[Tensor]:
    """The inputs as tensors of their own, still tied to the given ones if the result is to be differentiated."""
    listed = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if create_graph:
        return [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in listed]
    return [t.detach().requires_grad_() for t in listed]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _ones_for(outputs: tuple[Tensor, ...], v: Any) -> tuple[Tensor, ...]:
    if v is not None:
        return _as_tuple(v)
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the function returns a single Tensor with a single element."
        )
    return (_core.ones_like(outputs[0]),)


def _gradients(outputs: Any, leaves: list[Tensor], v: Any, create_graph: bool) -> tuple[Tensor, ...]:
    pairs = [(o, g) for o, g in zip(outputs, v) if o.requires_grad]
    if not pairs:
        return tuple(_core.zeros_like(t) for t in leaves)
    roots, given = [o for o, _ in pairs], [g for _, g in pairs]
    return autograd.grad(roots, leaves, given, retain_graph=True, create_graph=create_graph, materialize_grads=True)


def vjp(
    func: Callable[..., Any], inputs: _Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's result, and the product of `v` with its Jacobian.

    >>> x = gt.tensor([1.0, 2.0])
    >>> gt.autograd.functional.vjp(lambda t: t**2, x, gt.ones(2))[1]
    tensor([2., 4.])
    """
    with enable_grad():
        leaves = _leaves(inputs, create_graph)
        made = func(*leaves)
        outputs = _as_tuple(made)
        found = _gradients(outputs, leaves, _ones_for(outputs, v), create_graph)
    if not create_graph:
        made = made.detach() if isinstance(made, Tensor) else tuple(o.detach() for o in outputs)
    return made, found[0] if isinstance(inputs, Tensor) else found


def jvp(
    func: Callable[..., Any], inputs: _Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's result, and the product of its Jacobian with `v`.

    >>> x = gt.tensor([1.0, 2.0])
    >>> gt.autograd.functional.jvp(lambda t: t**2, x, gt.ones(2))[1]
    tensor([2., 4.])
    """
    with enable_grad():
        leaves = _leaves(inputs, create_graph)
        made = func(*leaves)
        outputs = _as_tuple(made)
        given = _ones_for(tuple(leaves), v)
        # The product with the transposed Jacobian is linear in its vector; its own transposed derivative is what is asked.
        probes = [_core.zeros_like(o).requires_grad_() for o in outputs]
        through = _gradients(outputs, leaves, probes, True)
        found = _gradients(through, probes, given, create_graph)
    if not create_graph:
        made = made.detach() if isinstance(made, Tensor) else tuple(o.detach() for o in outputs)
        found = tuple(t.detach() for t in found)
    return made, found[0] if isinstance(made, Tensor) else found


def jacobian(
    func: Callable[..., Any],
    inputs: _Inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Every derivative of every output element by every input element, in the shape of output and then input.

    >>> gt.autograd.functional.jacobian(lambda t: t**2, gt.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    with enable_grad():
        leaves = _leaves(inputs, create_graph)
        made = func(*leaves)
        table = []
        for output in _as_tuple(made):
            rows = []
            for place in range(output.numel()):
                seed = _core.zeros(output.numel(), dtype=output.dtype)
                seed[place] = 1
                rows.append(_gradients([output], leaves, [seed.reshape(output.shape)], create_graph))
            shaped = []
            for i, leaf in enumerate(leaves):
                shape = [*output.shape, *leaf.shape]
                columns = [row[i] for row in rows]
                shaped.append(_core.stack(columns).reshape(shape) if columns else _core.zeros(shape, dtype=leaf.dtype))
            table.append(shaped[0] if isinstance(inputs, Tensor) else tuple(shaped))
    return table[0] if isinstance(made, Tensor) else tuple(table)


def hessian(
    func: Callable[..., Any], inputs: _Inputs, create_graph: bool = False, strict: bool = False, vectorize: bool = False
) -> Any:
    """The second derivatives of a function with a single number as result.

    >>> gt.autograd.functional.hessian(lambda t: (t**3).sum(), gt.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    def slope(*given: Tensor) -> Any:
        found = jacobian(func, given[0] if isinstance(inputs, Tensor) else given, create_graph=True)
        return found.reshape(given[0].shape) if isinstance(inputs, Tensor) else tuple(
            f.reshape(g.shape) for f, g in zip(found, given)
        )  # fmt: skip

    return jacobian(slope, inputs, create_graph=create_graph)


def vhp(
    func: Callable[..., Any], inputs: _Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's result, and the product of `v` with its Hessian.

    >>> gt.autograd.functional.vhp(lambda t: (t**3).sum(), gt.tensor([1.0, 2.0]), gt.ones(2))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        leaves = _leaves(inputs, create_graph)
        made = func(*leaves)
        slopes = _gradients([made], leaves, [_core.ones_like(made)], True)
        found = _gradients(slopes, leaves, _ones_for(tuple(leaves), v), create_graph)
    return made if create_graph else made.detach(), found[0] if isinstance(inputs, Tensor) else found


def hvp(
    func: Callable[..., Any], inputs: _Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's result, and the product of its Hessian with `v`.

    >>> gt.autograd.functional.hvp(lambda t: (t**3).sum(), gt.tensor([1.0, 2.0]), gt.ones(2))[1]
    tensor([ 6., 12.])
    """
    return vhp(func, inputs, v, create_graph, strict)
