"""How a `gt.autograd.Function` of the user's own behaves under autocast."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from gt._core import Tensor
from gt.amp.mode import autocast, current, mode


def custom_fwd(fwd: Any = None, *, device_type: str = "cpu", cast_inputs: Any = None) -> Any:
    """Decorates `forward`: it runs under the mode around it, or with its float arguments as `cast_inputs` and the mode off.

    >>> class Twice(gt.autograd.Function):
    ...     @staticmethod
    ...     @gt.amp.custom_fwd(cast_inputs=gt.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @gt.amp.custom_bwd
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> with gt.amp.autocast("bfloat16"):
    ...     Twice.apply(gt.ones(1, dtype=gt.bfloat16)).dtype
    gt.float32
    """
    if fwd is None:
        return lambda function: custom_fwd(function, device_type=device_type, cast_inputs=cast_inputs)

    def cast(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(cast_inputs) if value.is_floating_point() and value.element_size() < 8 else value
        if isinstance(value, (list, tuple)):
            return type(value)(cast(inner) for inner in value)
        return {key: cast(inner) for key, inner in value.items()} if isinstance(value, dict) else value

    @wraps(fwd)
    def inside(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None or mode.dtype is None:
            ctx._autocast = current()
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            ctx._autocast = current()
            return fwd(ctx, *cast(args), **cast(kwargs))

    return inside


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cpu") -> Any:
    """Decorates `backward`: it runs under the mode that `forward` ran under.

    >>> gt.amp.custom_bwd(lambda ctx, grad: grad).__name__
    '<lambda>'
    """
    if bwd is None:
        return lambda function: custom_bwd(function, device_type=device_type)

    @wraps(bwd)
    def inside(ctx: Any, *args: Any) -> Any:
        with ctx._autocast:
            return bwd(ctx, *args)

    return inside
