"""Questions that PyTorch code asks about GPUs, answered for the workers of this session.

>>> device = "cuda" if gt.cuda.is_available() else "cpu"
>>> gt.zeros(1).to(device).tolist()
[0.0]
"""

from __future__ import annotations

from typing import Any

from gt import _core
from gt._missing import missing
from gt.cuda.streams import Event, Stream, stream
from gt.errors import OutOfMemoryError

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
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


def is_bf16_supported(including_emulation: bool = True) -> bool:
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


def memory_reserved(device: Any = None) -> int:
    """The bytes that live tensors hold.

    >>> gt.cuda.memory_reserved() >= 0
    True
    """
    return memory_allocated(device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that live tensors held at a time.

    >>> gt.cuda.max_memory_reserved() >= 0
    True
    """
    return max_memory_allocated(device)


reset_max_memory_allocated = reset_peak_memory_stats


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The memory of live tensors, now and at its peak, as text.

    >>> "allocated" in gt.cuda.memory_summary()
    True
    """
    return f"allocated: {memory_allocated(device)} bytes, peak: {max_memory_allocated(device)} bytes"


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a GPU: there is none to ask.

    >>> gt.cuda.mem_get_info()
    Traceback (most recent call last):
    ...
    RuntimeError: no worker of this session has a GPU
    """
    raise RuntimeError("no worker of this session has a GPU")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU: there is none to ask.

    >>> gt.cuda.get_device_capability()
    Traceback (most recent call last):
    ...
    RuntimeError: no worker of this session has a GPU
    """
    raise RuntimeError("no worker of this session has a GPU")


def current_stream(device: Any = None) -> Stream:
    """The one order of work there is.

    >>> gt.cuda.current_stream().synchronize()
    """
    return Stream(device)


default_stream = current_stream


def is_current_stream_capturing() -> bool:
    """Whether work is being captured: GT captures by itself and does not say so.

    >>> gt.cuda.is_current_stream_capturing()
    False
    """
    return False


def init() -> None:
    """Accepted for compatibility: the first op starts the session.

    >>> gt.cuda.init()
    """


def ipc_collect() -> None:
    """Accepted for compatibility.

    >>> gt.cuda.ipc_collect()
    """


def seed() -> None:
    """As `gt.seed`.

    >>> gt.cuda.seed()
    """
    _core.seed()


seed_all = seed


def initial_seed() -> int:
    """As `gt.initial_seed`.

    >>> gt.cuda.manual_seed(3)
    >>> gt.cuda.initial_seed()
    3
    """
    return int(_core.initial_seed())


def get_rng_state(device: Any = None) -> Any:
    """As `gt.get_rng_state`: there is one stream of random numbers.

    >>> gt.cuda.set_rng_state(gt.cuda.get_rng_state())
    """
    return _core.get_rng_state()


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """As `gt.set_rng_state`.

    >>> gt.cuda.set_rng_state(gt.cuda.get_rng_state())
    """
    _core.set_rng_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The states of all GPUs' generators: none.

    >>> gt.cuda.get_rng_state_all()
    []
    """
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Takes back what `get_rng_state_all` gave.

    >>> gt.cuda.set_rng_state_all([])
    """
    for state in new_states:
        _core.set_rng_state(state)


class device:
    """A block whose tensors PyTorch would put on a certain GPU; in GT the session places them.

    >>> with gt.cuda.device(0):
    ...     gt.ones(1)
    tensor([1.])
    """

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> device:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def __getattr__(name: str) -> Any:
    # Loaded when asked for: it needs optimizers, which a program of tensors does not.
    if name == "amp":
        from importlib import import_module

        return import_module("gt.cuda.amp")
    raise missing("gt.cuda", name)
