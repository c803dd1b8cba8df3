"""Whether a thread computes in mixed precision, and with which dtype.

AUTOCAST-1: the mode belongs to the thread and is set back when a block ends, also when it ends by an exception.
AUTOCAST-2: parameters stay as they are. The cast to the lower dtype is part of the graph, so gradients arrive in the
            parameter's own dtype; a parameter is cast once in a block, however often it is used there.
"""

from __future__ import annotations

import warnings
from _thread import _local
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from gt import _core
from gt._core import Tensor

_F = TypeVar("_F", bound=Callable[..., Any])

_DEVICES = ("cpu", "cuda", "worker")
_LOWER = (_core.bfloat16, _core.float16)
_default_dtypes = {"cpu": _core.bfloat16, "cuda": _core.float16, "worker": _core.bfloat16}


class Mode(_local):
    """What holds in this thread: the dtype of products, None where they are computed as they are written."""

    dtype: Any = None
    # What kind of device the block names: PyTorch computes more in float32 on GPUs than on CPUs.
    device = "worker"
    cache_enabled = True
    depth = 0

    def __init__(self) -> None:
        # A parameter, its version and whether its cast is tracked, to the cast.
        self.cache: dict[tuple[int, int, bool], tuple[Tensor, Tensor]] = {}


mode = Mode()


def _device_type(device_type: Any) -> str:
    kind = getattr(device_type, "type", device_type)
    if not isinstance(kind, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    kind = kind.partition(":")[0]
    if kind not in _DEVICES:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return kind


def _as_dtype(value: Any) -> Any:
    """A dtype, or the dtype that a name says, else None."""
    if isinstance(value, str):
        value = getattr(_core, value.rpartition(".")[2], None)
    return value if isinstance(value, _core.dtype) else None


class autocast:
    """A block, or a function, in which products of matrices are computed in a lower precision.

    Matrix products, linear layers, convolutions and attention take bfloat16 (or float16) operands; softmax, losses, norms,
    powers, exponentials and sums are computed in float32; parameters and their gradients stay float32. A block that names
    the CPU does as PyTorch does there: of those only losses are computed in float32.

    >>> w = gt.ones(2, 2, requires_grad=True)
    >>> with gt.amp.autocast("bfloat16"):
    ...     y = gt.ones(1, 2) @ w
    >>> y.dtype
    gt.bfloat16
    >>> y.sum().backward()
    >>> w.grad.dtype
    gt.float32
    """

    def __init__(
        self,
        device_type: Any = "worker",
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        named = _as_dtype(device_type)
        if named is not None:
            # autocast("bfloat16"): the dtype is all that is asked for.
            device_type, dtype = "worker", named if dtype is None else dtype
        self.device = _device_type(device_type)
        self.fast_dtype = _default_dtypes[self.device] if dtype is None else _as_dtype(dtype)
        if self.fast_dtype is None:
            raise TypeError(f"autocast needs a dtype such as gt.bfloat16 or 'bfloat16', got {dtype!r}")
        if enabled and self.fast_dtype not in _LOWER:
            warnings.warn(
                f"In autocast, but the target dtype {self.fast_dtype} is not supported. Disabling autocast. Supported are "
                "gt.bfloat16 and gt.float16.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = bool(enabled)
        self._cache_enabled = cache_enabled
        self._before: list[tuple[Any, str, bool]] = []

    def __enter__(self) -> autocast:
        if self._enabled:
            from gt.amp import casts

            casts.install()
        self._before.append((mode.dtype, mode.device, mode.cache_enabled))
        mode.dtype = self.fast_dtype if self._enabled else None
        mode.device = self.device
        if self._cache_enabled is not None:
            mode.cache_enabled = self._cache_enabled
        mode.depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        mode.depth -= 1
        mode.dtype, mode.device, mode.cache_enabled = self._before.pop()
        if mode.depth == 0:
            mode.cache.clear()

    def __call__(self, function: _F) -> _F:
        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def current() -> autocast:
    """The mode of this thread as a block, to be entered later: what runs a function again needs it.

    >>> with gt.amp.autocast("bfloat16"):
    ...     now = gt.amp.mode.current()
    >>> with now:
    ...     gt.amp.is_autocast_enabled()
    True
    """
    return autocast(mode.device, mode.dtype or _core.bfloat16, mode.dtype is not None, mode.cache_enabled)


def is_autocast_enabled(device_type: Any = None) -> bool:
    """Whether products are computed in a lower precision here.

    >>> with gt.amp.autocast("cpu"):
    ...     gt.amp.is_autocast_enabled()
    True
    """
    if device_type is not None:
        _device_type(device_type)
    return mode.dtype is not None


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast(device_type)` can be used.

    >>> gt.amp.is_autocast_available("cpu")
    True
    """
    return device_type.partition(":")[0] in _DEVICES


def get_autocast_dtype(device_type: Any = "cpu") -> Any:
    """The dtype of products in an autocast block: of the one around, else the default.

    >>> gt.amp.get_autocast_dtype("cpu")
    gt.bfloat16
    """
    return mode.dtype or _default_dtypes[_device_type(device_type)]


def set_autocast_dtype(device_type: Any, dtype: Any) -> None:
    """Sets the dtype of autocast blocks that name none.

    >>> gt.amp.set_autocast_dtype("cpu", gt.bfloat16)
    """
    found = _as_dtype(dtype)
    if found not in _LOWER:
        raise ValueError(f"autocast computes in gt.bfloat16 or gt.float16, not in {dtype!r}")
    _default_dtypes[_device_type(device_type)] = found


def clear_autocast_cache() -> None:
    """Forgets the casts of parameters that this block has made.

    >>> gt.amp.clear_autocast_cache()
    """
    mode.cache.clear()
