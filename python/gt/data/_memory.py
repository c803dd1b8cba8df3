"""How much memory a loader may take, and how many blocks fit into it."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["memory_bytes", "pool_that_fits"]

_UNITS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
# What is mixed well where blocks are hundreds.
_ENOUGH_BLOCKS = 128
# Samples of a pool for each of a batch, where blocks are small.
_ENOUGH_BATCHES = 16
# A loader holds the pool, the blocks that come next and those of which the last batches are made, and the batches made ahead.
_OVERHEAD = 1.6
_BATCHES_AHEAD = 5


def memory_bytes(size: int | str) -> int:
    """Bytes from `"2GiB"`, `"500MB"` or a number."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    if isinstance(size, str) and (found := re.fullmatch(r"\s*([0-9.]+)\s*([a-z]*?)b?\s*", size.lower())):
        number, unit = found.groups()
        if unit in _UNITS and number.count(".") <= 1 and float(number) > 0:
            return int(float(number) * _UNITS[unit])
    raise ValueError(f"memory_budget should be a size such as '2GiB' or a number of bytes, but got {size!r}")


def pool_that_fits(blocks: Sequence[tuple[int, int, int]], budget: int, batch_size: int) -> int:
    """How many blocks are mixed at a time: enough to mix well, no more than fit, at least one."""
    if not blocks:
        return 1
    samples = sum(b[0] for b in blocks) / len(blocks)
    size = max(sum(b[1] for b in blocks) / len(blocks), 1)
    enough = max(_ENOUGH_BLOCKS, int(_ENOUGH_BATCHES * batch_size / max(samples, 1)) + 1)
    batches = _BATCHES_AHEAD * batch_size * size / max(samples, 1)
    fit = int((budget - batches) / (size * _OVERHEAD))
    return max(1, min(enough, fit, len(blocks)))
