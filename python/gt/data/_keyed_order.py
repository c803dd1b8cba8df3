"""Random orders that are pure functions of a key, and seeds drawn from GT's streams.

KEYED-1: a permutation depends on its length and its key alone: not on NumPy's version, on the platform or on what was
         drawn before. It is the stable order of one 64-bit hash per element.
KEYED-2: drawing a seed advances the stream by one ordinal, as one random instruction would, and waits for nothing.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from gt import _core

if TYPE_CHECKING:
    import numpy as np

MASK = (1 << 64) - 1


def mixed(value: int) -> int:
    """64 bits in, 64 well-mixed bits out (the finisher of SplitMix64; a bijection)."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def key_of(*parts: int) -> int:
    """One 64-bit key of several numbers; their order counts.

    >>> from gt.data._keyed_order import key_of
    >>> key_of(1, 2) != key_of(2, 1)
    True
    """
    key = 0
    for part in parts:
        key = mixed(key ^ mixed(part & MASK))
    return key


def keyed_bits(n: int, *key: int) -> np.ndarray[Any, Any]:
    """`n` numbers of 64 random bits each, uint64.

    >>> from gt.data._keyed_order import keyed_bits
    >>> bool(keyed_bits(3, 7)[1] == keyed_bits(2, 7)[1])
    True
    """
    import numpy as np

    with np.errstate(over="ignore"):
        bits = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key_of(*key))
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def keyed_uniform(n: int, *key: int) -> np.ndarray[Any, Any]:
    """`n` float64 numbers in [0, 1).

    >>> from gt.data._keyed_order import keyed_uniform
    >>> bool(0.0 <= keyed_uniform(1, 7)[0] < 1.0)
    True
    """
    import numpy as np

    return (keyed_bits(n, *key) >> np.uint64(11)) * 2.0**-53


def keyed_permutation(n: int, *key: int) -> np.ndarray[Any, Any]:
    """The numbers 0 … n-1 in the order that the key stands for, as int64.

    >>> from gt.data._keyed_order import keyed_permutation
    >>> sorted(keyed_permutation(5, 7).tolist())
    [0, 1, 2, 3, 4]
    """
    import numpy as np

    return np.argsort(keyed_bits(n, *key), kind="stable").astype(np.int64, copy=False)


def draw_seed(generator: Any = None) -> int:
    """A seed below 2**63 from a generator, from the thread's stream (None), or made of a seed (an int).

    >>> from gt.data._keyed_order import draw_seed
    >>> draw_seed(3) == draw_seed(3)
    True
    """
    if generator is None or generator is _core.default_generator:
        seed, ordinal = _core.rng_state()
        _core.set_rng_state_raw(seed, ordinal + 1)
    elif isinstance(generator, int):
        seed, ordinal = generator, 0
    elif isinstance(generator, _core.Generator):
        state = bytes(generator.get_state().tolist())
        seed, ordinal = int.from_bytes(state[:8], "little"), int.from_bytes(state[8:], "little")
        generator.set_state(_core.tensor(list(state[:8] + (ordinal + 1).to_bytes(8, "little")), dtype=_core.uint8))
    else:
        raise TypeError(f"generator should be a gt.Generator or a seed, but got generator={generator!r}")
    return key_of(seed, ordinal) >> 1


def initial_seed(generator: Any = None) -> int:
    """The seed that a generator began with, or that of `gt.manual_seed` (None), or the seed itself (an int): drawing does not
    change it.

    >>> from gt.data._keyed_order import initial_seed
    >>> initial_seed(7), initial_seed(gt.Generator().manual_seed(7))
    (7, 7)
    """
    if hasattr(generator, "__index__"):
        return operator.index(generator) % 2**64
    return (_core.initial_seed() if generator is None else int(generator.initial_seed())) % 2**64
