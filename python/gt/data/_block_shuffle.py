"""Random order at sequential speed: blocks in random order, and the samples of a pool of blocks shuffled together.

BLOCKS-1: every index comes exactly once an epoch (`drop_last` leaves some out at the end, by batches).
BLOCKS-2: the order is a function of (seed, epoch, lengths, pool) and can be entered at any position. A state holds all of
          them, lengths as a number that stands for them, and is refused where the order would be another one.
BLOCKS-3: at any time the samples come from at most `pool` blocks, so a cache of `pool` decoded blocks never misses twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gt.data._keyed_order import initial_seed, key_of, keyed_permutation
from gt.data._loader_arguments import whole_number
from gt.data._sampler import Sampler

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BlockShuffleSampler"]

# What keys are for: the order of blocks, the order inside a window of the pool.
_BLOCKS, _WINDOW = 1, 2
# What mixes well where blocks are hundreds.
_ENOUGH_BLOCKS = 128


class BlockShuffleSampler(Sampler[int]):
    """Indices of samples that are stored in blocks (files, row groups), mixed well and read almost in sequence.

    The blocks, in random order, are cut into windows of `pool` or a little less; the samples of a window are shuffled together. So a window
    is the most that has to be held decoded, and a batch mixes samples of many blocks. `pool`: a number, `"auto"` for 128, or
    `"full"` for all blocks: an exact permutation of the epoch. `seed`: a number, a `gt.Generator`, or None for the seed of
    `gt.manual_seed`.

    `source`: a dataset that knows the lengths of its blocks (`block_lengths`, a list or a method), or a `ConcatDataset`,
    whose parts are the blocks; or `lengths=[…]`, the number of samples of each block. Works in `torch.utils.data.DataLoader`
    too: nothing but NumPy is used.

    `drop_last`: a batch size; indices that would not fill a last batch of that size are left out. A sampler knows no batches: a
    plain `True` leaves that to the loader's `drop_last`.

    >>> sampler = gt.data.BlockShuffleSampler(lengths=[3, 2, 4], pool=2, seed=0)
    >>> first, second = list(sampler), list(sampler)
    >>> sorted(first) == sorted(second) == list(range(9)), first == second
    (True, False)
    >>> sampler.set_epoch(0)
    >>> list(sampler) == first
    True
    """

    def __init__(
        self,
        source: Any = None,
        *,
        lengths: Sequence[int] | None = None,
        pool: int | str = "auto",
        seed: Any = 0,
        drop_last: int | None = None,
    ) -> None:
        import numpy as np

        drop_last = None if isinstance(drop_last, bool) else whole_number(drop_last)
        if (source is None) == (lengths is None):
            raise ValueError("give either a dataset or lengths=[…]")
        if drop_last is not None and (not isinstance(drop_last, int) or drop_last <= 0):
            raise ValueError(f"drop_last should be a batch size, but got drop_last={drop_last}")
        given = np.asarray(_block_lengths(source) if lengths is None else lengths)
        if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or (given < 0).any())):
            raise ValueError("lengths should be a list of non-negative sample counts, one per block")
        self.lengths = given.astype(np.int64)
        self.pool = self._blocks_of(pool)
        # Whoever leaves the pool to the sampler takes that of a state.
        self._takes_pool = pool == "auto"
        self.seed = initial_seed(whole_number(seed))
        self.drop_last = drop_last
        self.epoch = 0
        self.position = 0
        self._next_epoch = 0
        self._start = 0

    def _blocks_of(self, pool: Any) -> int:
        if pool == "auto":
            return _ENOUGH_BLOCKS
        if pool == "full":
            return max(1, len(self.lengths))
        pool = whole_number(pool)
        if not isinstance(pool, int) or isinstance(pool, bool) or pool <= 0:
            raise ValueError(f"pool should be a positive number of blocks, 'auto' or 'full', but got pool={pool}")
        return pool

    def set_epoch(self, epoch: int) -> None:
        """The next `iter` gives this epoch, from its beginning. Without a call each `iter` gives the next epoch."""
        self.epoch = self._next_epoch = epoch
        self.position = self._start = 0

    def state_dict(self) -> dict[str, int]:
        """Where the sampler stands: how many indices it has given, whoever took them.

        A loader that takes indices ahead should be asked instead; or put the number of samples consumed into `position`.
        """
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "pool": self.pool,
            "blocks": self._mark(),
        }

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """The next `iter` goes on from there. A state of other blocks, or of another pool than was asked for, is refused."""
        if state.get("blocks", self._mark()) != self._mark():
            raise ValueError("the state belongs to a BlockShuffleSampler with other block lengths")
        pool = state.get("pool", self.pool)
        # Two pools that hold all blocks are one.
        if min(pool, len(self.lengths)) != min(self.pool, len(self.lengths)) and not self._takes_pool:
            raise ValueError(
                f"the state belongs to a BlockShuffleSampler with pool={pool}, but this one has pool={self.pool}"
            )
        self.pool = pool
        self.seed = state["seed"]
        self.epoch = self._next_epoch = state["epoch"]
        self.position = self._start = state["position"]

    def _mark(self) -> int:
        return zlib.crc32(self.lengths.astype("<i8").tobytes())

    def __len__(self) -> int:
        total = int(self.lengths.sum())
        return total - total % self.drop_last if self.drop_last else total

    def __iter__(self) -> Iterator[int]:
        self.epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1
        start, self._start = self._start, 0
        self.position = start
        return self._from(start, self.epoch, len(self))

    def _from(self, start: int, epoch: int, end: int) -> Iterator[int]:
        at = 0
        for size, window in self._windows(epoch):
            if at + size > start:
                for index in window()[max(0, start - at) : end - at].tolist():
                    self.position += 1
                    yield index
            at += size
            if at >= end:
                return

    def _windows(self, epoch: int) -> Iterator[tuple[int, Any]]:
        """Each window's size, and a function that gives its indices: what is skipped is not made."""
        import numpy as np

        order = keyed_permutation(len(self.lengths), key_of(self.seed, epoch, _BLOCKS))
        first = np.cumsum(self.lengths) - self.lengths
        # Windows of equal size: a small last one would mix worse than the others.
        for number, blocks in enumerate(np.array_split(order, max(1, -(-len(order) // self.pool)))):

            def indices(blocks: np.ndarray[Any, Any] = blocks, number: int = number) -> np.ndarray[Any, Any]:
                sizes = self.lengths[blocks]
                # first[b], first[b] + 1, … of each block, without a loop over blocks.
                stored = np.arange(sizes.sum()) + np.repeat(first[blocks] - (np.cumsum(sizes) - sizes), sizes)
                order = keyed_permutation(len(stored), key_of(self.seed, epoch, _WINDOW, number))
                return np.take(stored, order)

            yield int(self.lengths[blocks].sum()), indices


def _block_lengths(source: Any) -> Any:
    known = getattr(source, "block_lengths", None)
    if known is not None:
        return known() if callable(known) else known
    parts = getattr(source, "datasets", None)
    if isinstance(parts, list):
        return [len(part) for part in parts]
    raise TypeError(f"{type(source).__name__} has no block_lengths: pass lengths=[…] or a dataset with block_lengths")
