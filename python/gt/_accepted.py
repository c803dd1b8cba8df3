"""Settings of PyTorch that GT accepts and does not need.

ACCEPTED-1: results in GT do not depend on threads, windows or fusion, so every setting for determinism holds already.
"""

from __future__ import annotations

from typing import Any


class NamedConstant:
    """A constant that is told from others by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name.partition(".")[2]


strided = NamedConstant("gt.strided")
contiguous_format = NamedConstant("gt.contiguous_format")
preserve_format = NamedConstant("gt.preserve_format")
channels_last = NamedConstant("gt.channels_last")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: GT's algorithms are deterministic.

    >>> gt.use_deterministic_algorithms(True)
    """


def are_deterministic_algorithms_enabled() -> bool:
    """Whether results repeat: they do.

    >>> gt.are_deterministic_algorithms_enabled()
    True
    """
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted: float32 products are computed in float32.

    >>> gt.set_float32_matmul_precision("high")
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"precision must be 'highest', 'high' or 'medium', not {precision!r}")


def get_float32_matmul_precision() -> str:
    """How float32 products are computed.

    >>> gt.get_float32_matmul_precision()
    'highest'
    """
    return "highest"


def set_num_interop_threads(n: int) -> None:
    """Accepted: operations of one session run one after the other, each on all threads.

    >>> gt.set_num_interop_threads(1)
    """


def get_num_interop_threads() -> int:
    """How many operations run at a time.

    >>> gt.get_num_interop_threads()
    1
    """
    return 1


def set_default_device(device: Any) -> None:
    """Accepted: tensors that name no device go where the session places them.

    >>> gt.set_default_device("cpu")
    """


def compile(model: Any = None, **options: Any) -> Any:
    """The model as it is: GT compiles what repeats by itself. Options are accepted and make no difference.

    >>> gt.compile(gt.exp) is gt.exp
    True
    """
    if model is None:
        return lambda function: function
    return model
