"""Gradients on demand: `grad`, `backward`, functions with a backward pass of their own, and a check of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from gt._missing import names_missing_in
from gt.autograd.function import Function

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


Variable = Tensor


_NO_ANOMALIES = (
    "anomaly detection is not in GT yet. Errors name the line that recorded the failed op; with GT_BLOCKING=1 and "
    "GT_CLIENT_BATCH_SIZE=1 they are raised at that line. To find NaNs, use isnan()"
)


class set_detect_anomaly:
    """Switches anomaly detection off, as it always is. To switch it on is a `NotImplementedError`: GT does not have it yet.

    >>> with gt.autograd.set_detect_anomaly(False):
    ...     pass
    """

    # For docs/pytorch-compatibility.md.
    _is_refused = True

    def __init__(self, mode: bool = True, check_nan: bool = True) -> None:
        if mode:
            raise NotImplementedError(_NO_ANOMALIES)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class detect_anomaly(set_detect_anomaly):
    """As `set_detect_anomaly(True)`, which GT does not have yet.

    >>> gt.autograd.detect_anomaly()
    Traceback (most recent call last):
    NotImplementedError: anomaly detection is not in GT yet. Errors name the line that recorded the failed op; with GT_BLOCKING=1 and GT_CLIENT_BATCH_SIZE=1 they are raised at that line. To find NaNs, use isnan()
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)


def _as_list(tensors: Any, what: str) -> list[Any]:
    if isinstance(tensors, Tensor):
        return [tensors]
    listed = list(tensors)
    if not listed:
        raise RuntimeError(f"{what} received an empty list of tensors")
    return listed


def _gradients_of_roots(given: Any, roots: list[Tensor]) -> list[Tensor | None]:
    if given is None:
        return [None] * len(roots)
    listed = [given] if isinstance(given, Tensor) else list(given)
    if len(listed) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(listed)} gradients")
    return listed


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds the gradients of `tensors` to the `.grad` of the leaves they were computed from (or of `inputs` alone).

    >>> x = gt.tensor([1.0, 2.0], requires_grad=True)
    >>> gt.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    roots = _as_list(tensors, "backward")
    gradients = _gradients_of_roots(grad_tensors, roots)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        _core.backward(roots, gradients, retain, create_graph)
        return
    targets = _as_list(inputs, "inputs of backward")
    if not targets:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    found = _core.autograd_grad(roots, gradients, targets, retain, create_graph, True)
    for target, gradient in zip(targets, found):
        if gradient is None:
            continue
        if not target.is_leaf:
            target.retain_grad()
        if not create_graph:
            gradient = gradient.detach()
        with set_grad_enabled(create_graph):
            target.grad = gradient.clone() if target.grad is None else target.grad + gradient


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of `outputs` with respect to `inputs`, without touching any `.grad`.

    With `is_grads_batched` the first dimension of each of `grad_outputs` counts gradients, and so does that of each result.

    >>> x = gt.tensor(3.0, requires_grad=True)
    >>> (first,) = gt.autograd.grad(x**3, x, create_graph=True)
    >>> gt.autograd.grad(first, x)
    (tensor(18.),)
    >>> y = gt.tensor([1.0, 2.0], requires_grad=True)
    >>> (jacobian,) = gt.autograd.grad(y * y, y, gt.eye(2), is_grads_batched=True)
    >>> jacobian
    tensor([[2., 0.],
            [0., 4.]])
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("allow_unused cannot be False when materialize_grads is True")
    roots = _as_list(outputs, "grad")
    targets = _as_list(inputs, "inputs of grad")
    retain = create_graph if retain_graph is None else retain_graph
    unused_allowed = materialize_grads if allow_unused is None else allow_unused
    gradients = _gradients_of_roots(grad_outputs, roots)
    if is_grads_batched:
        found = _grad_of_batch(roots, gradients, targets, retain, create_graph, unused_allowed)
    else:
        found = _core.autograd_grad(roots, gradients, targets, retain, create_graph, unused_allowed)
    if materialize_grads:
        found = [_core.zeros_like(t) if g is None else g for t, g in zip(targets, found)]
    return tuple(found)  # type: ignore[arg-type]


def _grad_of_batch(
    roots: list[Tensor],
    batches: list[Tensor | None],
    targets: list[Tensor],
    retain: bool,
    create_graph: bool,
    unused_allowed: bool,
) -> list[Tensor | None]:
    """One pass for each entry of the batches; the results are stacked as the entries were."""
    given = [batch for batch in batches if batch is not None]
    if len(given) < len(roots):
        raise RuntimeError("is_grads_batched=True needs grad_outputs for every output")
    if any(batch.dim() == 0 or batch.shape[0] == 0 for batch in given):
        raise IndexError(
            "is_grads_batched=True needs gradients whose first dimension is the number of gradients, at least 1"
        )
    counts = {batch.shape[0] for batch in given}
    if len(counts) > 1:
        raise ValueError(
            f"is_grads_batched=True needs the same number of gradients for every output, got {sorted(counts)}"
        )
    (count,) = counts
    passes = []
    for entry in range(count):
        gradients = [batch[entry] for batch in given]
        keep = retain or entry + 1 < count
        passes.append(_core.autograd_grad(roots, gradients, targets, keep, create_graph, unused_allowed))
    return [None if parts[0] is None else _core.stack(parts) for parts in zip(*passes)]


def gradcheck(
    func: Any,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether the backward pass of `func` agrees with finite differences; inputs should be float64.

    >>> x = gt.tensor([0.5, -1.0], dtype=gt.float64, requires_grad=True)
    >>> gt.autograd.gradcheck(lambda t: t.sin() * t, x)
    True
    """
    args = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    places = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    if not places:
        raise ValueError("gradcheck needs an input that requires gradients")

    def outputs_at(values: list[Any]) -> list[Tensor]:
        out = func(*values)
        return [t for t in ([out] if isinstance(out, Tensor) else out) if isinstance(t, Tensor)]

    outs = [o for o in outputs_at(args) if o.requires_grad]
    for number, out in enumerate(outs):
        # One row of the Jacobian per element of the output.
        rows = []
        for element in range(out.numel()):
            seed = _core.zeros_like(out).reshape(-1)
            seed[element] = 1
            rows.append(
                grad(out, [args[p] for p in places], seed.reshape(out.shape), retain_graph=True, materialize_grads=True)
            )
        for slot, place in enumerate(places):
            source = args[place].detach()
            flat = source.reshape(-1)
            for i in range(source.numel()):
                sides = []
                for step in (eps, -eps):
                    moved = flat.clone()
                    moved[i] = moved[i] + step
                    with enable_grad():
                        leaf = moved.reshape(source.shape).requires_grad_()
                        tried = [*args[:place], leaf, *args[place + 1 :]]
                        sides.append([o for o in outputs_at(tried) if o.requires_grad][number].detach().reshape(-1))
                numeric = ((sides[0] - sides[1]) / (2 * eps)).tolist()
                for element, expected in enumerate(numeric):
                    made = rows[element][slot].reshape(-1)[i].item()
                    if not abs(made - expected) <= atol + rtol * abs(expected):
                        if not raise_exception:
                            return False
                        raise RuntimeError(
                            f"output {number}, element {element}: its gradient with respect to element {i} of input "
                            f"{place} is {made}, finite differences give {expected}"
                        )
    return True


def gradgradcheck(
    func: Any,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether the gradient of `func` can itself be differentiated, and agrees with finite differences.

    >>> x = gt.tensor([0.5, -1.0], dtype=gt.float64, requires_grad=True)
    >>> gt.autograd.gradgradcheck(lambda t: t.sin() * t, x)
    True
    """
    args = [inputs] if isinstance(inputs, Tensor) else list(inputs)

    def slope(*given: Any) -> tuple[Tensor, ...]:
        out = func(*given)
        roots = [o for o in ([out] if isinstance(out, Tensor) else out) if isinstance(o, Tensor) and o.requires_grad]
        targets = [g for g in given if isinstance(g, Tensor) and g.requires_grad]
        weights = [_core.ones_like(r) for r in roots]
        return grad(roots, targets, weights, create_graph=True, materialize_grads=True)

    return gradcheck(slope, args, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)


from gt.autograd import functional  # noqa: E402  (it uses what is defined above)

__getattr__ = names_missing_in("gt.autograd")
