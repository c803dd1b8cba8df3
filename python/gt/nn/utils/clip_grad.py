"""Keeping gradients small.

CLIP-1: nothing is read: whether gradients are scaled is decided where they are. Only `error_if_nonfinite=True` waits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of all tensors.

    >>> gt.nn.utils.get_total_norm([gt.tensor([3.0]), gt.tensor([4.0])])
    tensor(5.)
    """
    listed = _listed(tensors)
    norm_type = float(norm_type)
    if not listed:
        return _core.tensor(0.0)
    with no_grad():
        if norm_type == 2.0:
            # Sums of squares: one reduction for each tensor and one root for all.
            total = _core.stack([t.float().square().sum() for t in listed]).sum().sqrt()
        else:
            norms = _core.stack([t.float().norm(norm_type) for t in listed])
            total = norms.norm(norm_type)
        total = total.to(listed[0].dtype)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients so that a norm computed before becomes at most `max_norm`.

    >>> p = gt.nn.Parameter(gt.ones(1))
    >>> p.grad = gt.tensor([4.0])
    >>> gt.nn.utils.clip_grads_with_norm_(p, 1.0, gt.tensor(4.0))
    >>> p.grad
    tensor([1.0000])
    """
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for gradient in _gradients(parameters):
            gradient.mul_(factor.to(gradient.dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients so that their total norm is at most `max_norm`; gives the norm before.

    >>> p = gt.nn.Parameter(gt.ones(2))
    >>> p.grad = gt.tensor([3.0, 4.0])
    >>> gt.nn.utils.clip_grad_norm_([p], 1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    listed = _listed(parameters)
    total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn("clip_grad_norm is now deprecated in favor of clip_grad_norm_.", FutureWarning, stacklevel=2)
    return clip_grad_norm_(*args, **kwargs)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Keeps every element of every gradient within ±clip_value.

    >>> p = gt.nn.Parameter(gt.ones(2))
    >>> p.grad = gt.tensor([-3.0, 0.5])
    >>> gt.nn.utils.clip_grad_value_(p, 1.0)
    >>> p.grad
    tensor([-1.0000,  0.5000])
    """
    bound = float(clip_value)
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-bound, bound)
