"""Questions that PyTorch code asks about GPUs, answered for the workers of this session.

>>> device = "cuda" if gt.cuda.is_available() else "cpu"
>>> gt.zeros(1).to(device).tolist()
[0.0]
"""

from __future__ import annotations

from typing import Any

from gt import _core
from gt.errors import OutOfMemoryError

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Whether a worker of the session has a GPU. This build computes on the CPU.

    >>> gt.cuda.is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """Whether a GPU is in use.

    >>> gt.cuda.is_initialized()
    False
    """
    return False


def is_bf16_supported() -> bool:
    """Whether bfloat16 may be used: it may on every engine.

    >>> gt.cuda.is_bf16_supported()
    True
    """
    return True


def device_count() -> int:
    """The number of GPUs.

    >>> gt.cuda.device_count()
    0
    """
    return 0


def current_device() -> int:
    """The index that `"cuda"` stands for.

    >>> gt.cuda.current_device()
    0
    """
    return 0


def set_device(device: Any) -> None:
    """Accepted for compatibility: work goes where the session places it.

    >>> gt.cuda.set_device(0)
    """


def get_device_name(device: Any = None) -> str:
    """What the session computes on.

    >>> gt.cuda.get_device_name()
    'cpu'
    """
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Waits until all recorded work is done.

    >>> gt.cuda.synchronize()
    """
    _core.synchronize()


def memory_allocated(device: Any = None) -> int:
    """The bytes that live tensors hold.

    >>> gt.cuda.memory_allocated() >= 0
    True
    """
    return int(_core.memory_allocated())


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that live tensors held at a time.

    >>> gt.cuda.max_memory_allocated() >= 0
    True
    """
    return int(_core.max_memory_allocated())


def reset_peak_memory_stats(device: Any = None) -> None:
    """Accepted for compatibility: the peak is that of the whole session.

    >>> gt.cuda.reset_peak_memory_stats()
    """


def empty_cache() -> None:
    """Gives memory that no tensor holds back to the system.

    >>> gt.cuda.empty_cache()
    """
    _core.empty_cache()


def manual_seed(seed: int) -> None:
    """As `gt.manual_seed`: there is one stream of random numbers, wherever they are used.

    >>> gt.cuda.manual_seed(0)
    """
    _core.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """As `gt.manual_seed`.

    >>> gt.cuda.manual_seed_all(0)
    """
    _core.manual_seed(seed)
