"""Who takes part: GT and the frameworks it is measured against. One that is absent is named, not an error."""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Peer:
    """A framework as the rows see it."""

    name: str
    module: ModuleType
    synchronize: Callable[[], None]


def set_threads(count):
    """Gives every framework the same number of threads. To be called before any of them is imported."""
    for variable in ("GT_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(count)


def available_cores():
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load(threads):
    """The peers there are, and a reason for each one that is missing."""
    peers, skipped = {}, {}
    for name in ("gt", "torch"):
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            skipped[name] = f"cannot be imported: {error}"
            continue
        if name == "torch":
            module.set_num_threads(threads)
        peers[name] = Peer(name, module, module.synchronize if name == "gt" else _nothing)
    return peers, skipped


def _nothing():
    """PyTorch's CPU ops have finished when they return."""
