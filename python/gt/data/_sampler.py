"""The order in which a loader takes items. Names and meanings are `torch.utils.data`'s.

SAMPLER-1: a sampler that draws decides its whole epoch by one seed, drawn when `iter` is called. `state_dict` holds that
           seed, so that an epoch can be gone through again from its beginning.
SAMPLER-2: with a number as generator the epoch's seed is a function of that number and of the epoch.

>>> list(gt.data.SequentialSampler("abc"))
[0, 1, 2]
"""

from __future__ import annotations

import copyreg
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from gt import _core
from gt.data._keyed_order import draw_seed, key_of, keyed_bits, keyed_permutation, keyed_uniform
from gt.data._loader_arguments import whole_number

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

Index = TypeVar("Index", covariant=True)


def _generator(seed: int, state: list[int]) -> _core.Generator:
    made = _core.Generator().manual_seed(seed)
    if made.get_state().tolist() != state:
        made.set_state(_core.tensor(state, dtype=_core.uint8))
    return made


# Samplers and loaders hold generators, and are copied and pickled with them.
copyreg.pickle(_core.Generator, lambda held: (_generator, (held.initial_seed(), held.get_state().tolist())))


class Sampler(Generic[Index]):
    """Gives indices, or lists of them. A subclass has `__iter__` and, in general, `__len__`.

    >>> class Backwards(gt.data.Sampler):
    ...     def __init__(self, ds):
    ...         self.ds = ds
    ...     def __iter__(self):
    ...         return iter(range(len(self.ds) - 1, -1, -1))
    ...     def __len__(self):
    ...         return len(self.ds)
    >>> [batch.tolist() for batch in gt.data.DataLoader([5, 6, 7], batch_size=2, sampler=Backwards([5, 6, 7]))]
    [[7, 6], [5]]
    """

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError("a Sampler must define __iter__")


class SequentialSampler(Sampler[int]):
    """All indices in order.

    >>> list(gt.data.SequentialSampler([7, 8]))
    [0, 1]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class _DrawingSampler(Sampler[int]):
    """What the samplers that draw have in common: the epoch's seed (SAMPLER-1, SAMPLER-2)."""

    generator: Any
    _epoch = 0
    _seed: int | None = None
    _resumed = False

    def _indices(self, seed: int) -> Iterator[int]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        if not self._resumed or self._seed is None:
            fixed = isinstance(self.generator, int)
            self._seed = key_of(self.generator, self._epoch) >> 1 if fixed else draw_seed(self.generator)
            self._epoch += 1
        self._resumed = False
        return self._indices(self._seed)

    def set_epoch(self, epoch: int) -> None:
        """The next `iter` begins this epoch."""
        self._epoch, self._resumed = epoch, False

    def state_dict(self) -> dict[str, Any]:
        """What the epoch that was begun last is made of, and how those after it are drawn."""
        drawn_from = self.generator if isinstance(self.generator, _core.Generator) else None
        kept = None if drawn_from is None else drawn_from.get_state().tolist()
        return {"seed": self._seed, "epoch": self._epoch, "generator": kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next `iter` begin that epoch again."""
        self._seed, self._epoch, self._resumed = state["seed"], state["epoch"], True
        if state["generator"] is not None and isinstance(self.generator, _core.Generator):
            self.generator.set_state(_core.tensor(state["generator"], dtype=_core.uint8))


class RandomSampler(_DrawingSampler):
    """All indices in random order, or `num_samples` drawn with replacement.

    `generator`: a `gt.Generator`, or a seed, with which every epoch has an order of its own that can be had again.

    >>> sorted(gt.data.RandomSampler(range(4)))
    [0, 1, 2, 3]
    >>> list(gt.data.RandomSampler(range(9), generator=1)) == list(gt.data.RandomSampler(range(9), generator=1))
    True
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has; a dataset may grow between epochs."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def _indices(self, seed: int) -> Iterator[int]:
        n, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            drawn: list[int] = (keyed_bits(wanted, seed) % n).tolist()
            return iter(drawn)
        rounds = (keyed_permutation(n, seed, k).tolist() for k in range(-(-wanted // n)))
        return itertools.islice(itertools.chain.from_iterable(rounds), wanted)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(_DrawingSampler):
    """Certain indices in random order.

    >>> sorted(gt.data.SubsetRandomSampler([4, 2, 9]))
    [2, 4, 9]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def _indices(self, seed: int) -> Iterator[int]:
        return (self.indices[i] for i in keyed_permutation(len(self.indices), seed).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(_DrawingSampler):
    """`num_samples` indices, each as likely as its weight says; without replacement none comes twice.

    >>> list(gt.data.WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        import numpy as np

        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = np.asarray(weights, dtype=np.float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        if not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not self.weights.sum() > 0:
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        if not replacement and num_samples > len(self.weights):
            raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def _indices(self, seed: int) -> Iterator[int]:
        import numpy as np

        if self.replacement:
            ends = np.cumsum(self.weights)
            # A draw that rounding put behind the last end belongs to the last index that has a weight.
            last = int(np.flatnonzero(self.weights)[-1])
            drawn = np.searchsorted(ends, keyed_uniform(self.num_samples, seed) * ends[-1], side="right")
            return iter(np.minimum(drawn, last).tolist())
        # The order of exponential waiting times is that of draws without replacement.
        with np.errstate(divide="ignore"):
            waits = -np.log1p(-keyed_uniform(len(self.weights), seed)) / self.weights
        return iter(np.argsort(waits, kind="stable")[: self.num_samples].tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler, in lists of `batch_size`.

    >>> list(gt.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        batch_size = whole_number(batch_size)
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        # Not a generator: the sampler below begins its epoch now, not at the first batch.
        return self._batches(iter(self.sampler))

    def _batches(self, indices: Iterator[int]) -> Iterator[list[int]]:
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """Tells the sampler below, if it can be told."""
        tell = getattr(self.sampler, "set_epoch", None)
        if callable(tell):
            tell(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The state of the sampler below, if it has one."""
        ask = getattr(self.sampler, "state_dict", None)
        return {"sampler": ask() if callable(ask) else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Gives the sampler below its state back."""
        if state["sampler"] is not None:
            self.sampler.load_state_dict(state["sampler"])  # type: ignore[attr-defined]

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole + (1 if rest and not self.drop_last else 0)
