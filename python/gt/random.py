"""The thread's stream of random numbers: seeding it, keeping and restoring its state.

>>> _ = gt.random.manual_seed(7)
>>> state = gt.random.get_rng_state()
>>> first = gt.rand(2)
>>> gt.random.set_rng_state(state)
>>> gt.equal(first, gt.rand(2))
True
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gt import _core
from gt._core import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """A block after which the stream stands where it stood before.

    >>> before = gt.get_rng_state()
    >>> with gt.random.fork_rng():
    ...     _ = gt.rand(3)
    >>> gt.equal(before, gt.get_rng_state())
    True
    """
    if not enabled:
        yield
        return
    state = _core.rng_state()
    try:
        yield
    finally:
        _core.set_rng_state_raw(*state)
