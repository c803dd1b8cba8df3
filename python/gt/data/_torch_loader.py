"""`DataLoader` for datasets written in Python: `torch.utils.data.DataLoader`'s arguments, meanings and messages.

LOADER-1: without workers nothing runs ahead: a batch is made when it is asked for.
LOADER-2: the state counts what was handed out. After `load_state_dict`, the next `iter` gives exactly what was left, also with
          another number of workers, and of the samples of a sampler also with another batch size (see `_loader_state`).
LOADER-3: a copy of a loader, also one through pickle, starts workers of its own.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from gt.data._block_shuffle import BlockShuffleSampler
from gt.data._collate import default_collate, default_convert
from gt.data._dataset import is_stream
from gt.data._fetch import without_gt
from gt.data._keyed_order import draw_seed, initial_seed, key_of
from gt.data._loader_arguments import check_order, check_workers, context_of, warn_of_many_workers, whole_number
from gt.data._loader_state import known_length, marked, refuse_another, sampler_state, warn_of_another_order
from gt.data._memory import memory_bytes, pool_that_fits
from gt.data._sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from gt.data._sources import FileDataset
from gt.data._torch_iterators import AutoEpoch, EpochIterator, InProcessEpoch, WorkersEpoch
from gt.data._worker import Job
from gt.data._worker_pool import WorkerPool, sent_to_workers

__all__ = ["DataLoader"]

Item = TypeVar("Item", covariant=True)

# Samplers of users may have another length in every epoch.
_AS_LONG_EVERY_EPOCH = (
    SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, BlockShuffleSampler, list, tuple, range,
)  # fmt: skip
_FIXED = frozenset("batch_size batch_sampler sampler drop_last dataset persistent_workers".split())


class _Forever:
    """The sampler of a stream, whose items have no index."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


def _shuffled(dataset: Any, batch_size: int | None, generator: Any) -> RandomSampler | BlockShuffleSampler:
    if not isinstance(dataset, FileDataset):
        return RandomSampler(dataset, generator=generator)
    # Samples of a file in any order would have it decoded for nearly each of them.
    sampler = BlockShuffleSampler(dataset, pool="auto", seed=initial_seed(generator))
    sampler.pool = pool_that_fits(dataset._source.blocks(), memory_bytes(dataset.memory_budget), batch_size or 1)
    return sampler


class DataLoader(Generic[Item]):
    """Batches of a dataset, as `torch.utils.data.DataLoader` gives them; tensors in them are GT's.

    Beyond torch's arguments: `generator` may be a number, with which every epoch has an order of its own that can be had
    again; `num_workers="auto"` measures the first batches and the loop around them and starts as many processes as are
    worth it; `state_dict()` and `load_state_dict()` continue in the middle of an epoch; `stats()` tells where the time goes.

    >>> dl = gt.data.DataLoader(list(range(5)), batch_size=2)
    >>> len(dl), [batch.tolist() for batch in dl]
    (3, [[0, 1], [2, 3], [4]])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int | str = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self._iterable = is_stream(dataset)
        num_workers, batch_size = whole_number(num_workers), whole_number(batch_size)
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        check_order(self._iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        self._plain = batch_sampler is None and not self._iterable
        if sampler is None:
            if self._iterable:
                sampler = _Forever()
            else:
                sampler = _shuffled(dataset, batch_size, generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = context_of(multiprocessing_context, num_workers)
        self.generator = generator
        self.collate_fn: Callable[[Any], Any] | None = collate_fn or (
            default_convert if batch_sampler is None else default_collate
        )
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._reported_length: int | None = None
        self._chooses_workers = num_workers == "auto"
        self._pool: WorkerPool | None = None
        # Workers that were forked called GT: batches are made in this process.
        self._forked_workers_fail = False
        self._base_seed = 0
        # The epoch that was begun last, what is left of it, and what the next `iter` begins with.
        self._epoch = -1
        self._consumed = 0
        self._samples = 0
        self._finished = True
        self._chosen: int | None = None
        self._sampler_state: Any = None
        self._mark: int | None = None
        self._belongs_to: dict[str, Any] = {}
        self._resume: dict[str, Any] | None = None
        self._totals = dict.fromkeys(("read_s", "decode_s", "gather_s", "copy_s", "wait_s"), 0.0)
        self._counts = dict.fromkeys(("batches", "samples", "bytes"), 0)
        warn_of_many_workers(num_workers)
        self._ready = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and getattr(self, "_ready", False):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        length = self._reported_length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def __iter__(self) -> EpochIterator:
        resumed, self._resume = self._resume, None
        if resumed is not None and resumed["finished"]:
            self._stand_behind(resumed)
            resumed = None
        indices = self._begin(resumed)
        epoch = self._iterator(indices)
        if not self._plain:
            epoch.skip(self._consumed)
        return epoch

    def _stand_behind(self, ended: dict[str, Any]) -> None:
        """Makes the next epoch the one that came after the state."""
        if ended["epoch"] >= 0:
            # Begun once more and left at once: what comes after it is then what came after it the first time.
            self._begin(ended)
        else:
            self._epoch = -1
            self._load_sampler(ended["sampler"])
        if ended.get("chosen") is not None:
            self.set_epoch(ended["chosen"])

    @property
    def _below(self) -> Any:
        """The sampler that an epoch is begun with: of samples, which become batches here, or of whole batches."""
        return self.sampler if self._plain else self._index_sampler

    def _load_sampler(self, state: Any) -> None:
        if self._plain and isinstance(state, dict) and state.keys() == {"sampler"}:
            state = state["sampler"]  # As GT kept it once: as part of a batch sampler's.
        if state is not None:
            self._below.load_state_dict(state)

    def _begin(self, resumed: dict[str, Any] | None) -> Iterator[Any]:
        """Begins the next epoch of the sampler, or one again whose state was kept, and passes over the samples consumed in it."""
        if resumed is None:
            self._epoch = self._epoch + 1 if self._chosen is None else self._chosen
            fixed = isinstance(self.generator, int)
            self._base_seed = key_of(self.generator, self._epoch, 1) >> 1 if fixed else draw_seed(self.generator)
            self._consumed = self._samples = 0
        else:
            self._epoch, self._base_seed = resumed["epoch"], resumed["base_seed"]
            self._load_sampler(resumed["sampler"])
            self._consumed = resumed["batch"]
            counted = resumed.get("samples")
            self._samples = self._consumed * (self.batch_size or 1) if counted is None else counted
        self._chosen = None
        self._belongs_to = self._identity()
        indices: Iterator[Any] = iter(self._below)
        self._sampler_state = sampler_state(self._below)
        if self._sampler_state is None and not self._iterable:
            indices, self._mark = marked(indices)
            if resumed and not resumed["finished"] and self._consumed and resumed.get("mark") not in (None, self._mark):
                warn_of_another_order(self._below)
        self._finished = False
        if not self._plain:
            return indices
        next(itertools.islice(indices, self._samples, self._samples), None)
        return indices if self.batch_size is None else self.batch_sampler._batches(indices)

    def _identity(self) -> dict[str, Any]:
        """What a state in the middle of an epoch belongs to."""
        counted_in = "samples" if self._plain else "batches of a stream" if self._iterable else "batches"
        if self._iterable:
            workers = self.num_workers if isinstance(self.num_workers, int) else 0
            # Without workers a stream is whole, as it is with one.
            return {
                "counted_in": counted_in,
                "stream_batch_size": self.batch_size or 1,
                "stream_workers": max(1, workers),
            }
        found = {"counted_in": counted_in, "dataset_length": known_length(self.dataset)}
        if not self._plain:
            size = whole_number(getattr(self.batch_sampler, "batch_size", None))
            found["batch_sampler_size"] = size if isinstance(size, int) else None
        elif type(self.sampler) in _AS_LONG_EVERY_EPOCH:
            found["sampler_length"] = len(self.sampler)
        return found

    def _iterator(self, indices: Iterator[Any]) -> EpochIterator:
        if self.num_workers == "auto":
            return AutoEpoch(self, indices, self._epoch)
        if self.num_workers == 0 or self._forked_workers_fail:
            return InProcessEpoch(self, indices, self._epoch)
        return self._workers_epoch(indices)

    def _workers_epoch(self, indices: Iterator[Any]) -> WorkersEpoch:
        """An epoch made by processes: by those of the last one if they persist and are free, else by its own."""
        kept = self._pool if self._pool is not None and self._pool.alive else None
        if kept is not None and not kept.busy:
            return WorkersEpoch(self, indices, self._epoch, kept)
        assert isinstance(self.num_workers, int)
        pool = WorkerPool(*self._sent_to_workers(), self._base_seed, self.num_workers)
        if self.persistent_workers and kept is None:
            self._pool = pool
        return WorkersEpoch(self, indices, self._epoch, pool)

    def _sent_to_workers(self) -> tuple[BaseContext, Job | bytes]:
        """How this loader's workers are started, and what they are given."""
        by_gt = self.collate_fn in (None, default_collate, default_convert)
        job = Job(
            dataset=without_gt(self.dataset) if by_gt else self.dataset,
            iterable=self._iterable,
            batched=self._auto_collation,
            collate_fn=self.collate_fn,
            drop_last=self.drop_last,
            worker_init_fn=self.worker_init_fn,
        )
        # Whoever left the choice to the loader had their code run in this process, where it may have called GT.
        return sent_to_workers(job, self.multiprocessing_context, may_fork=not self._chooses_workers)

    def _batch_consumed(self, epoch: int) -> None:
        if epoch == self._epoch:
            self._consumed += 1
            self._samples += self.batch_size or 1

    def _epoch_ended(self, epoch: int) -> None:
        if epoch == self._epoch:
            self._finished = True

    def _count(self, times: tuple[float, float, float, int], copy_s: float, wait_s: float, size: int) -> None:
        totals, counts = self._totals, self._counts
        totals["read_s"] += times[0]
        totals["decode_s"] += times[1]
        totals["gather_s"] += times[2]
        totals["copy_s"] += copy_s
        totals["wait_s"] += wait_s
        counts["batches"] += 1
        counts["samples"] += times[3]
        counts["bytes"] += size

    def stats(self) -> dict[str, float | int]:
        """What loading has cost so far, in seconds by stage, and what it gave.

        `read_s` (items were waited for), `decode_s` (items were computed) and `gather_s` (collation) are summed over all
        processes; `copy_s` made tensors of arrays; `wait_s` is what the loop waited for batches.

        >>> dl = gt.data.DataLoader([1, 2, 3])
        >>> _ = list(dl)
        >>> dl.stats()["batches"], dl.stats()["samples"], dl.stats()["bytes"]
        (3, 3, 24)
        """
        return {**self._totals, **self._counts}

    def set_epoch(self, epoch: int) -> None:
        """The next `iter` begins this epoch, or, if a state from the middle of it was just loaded, goes on with it; a sampler that
        has `set_epoch` is told.

        >>> dl = gt.data.DataLoader(list(range(9)), batch_size=9, shuffle=True, generator=0)
        >>> first, second = list(dl), list(dl)
        >>> dl.set_epoch(0)
        >>> bool((next(iter(dl)) == first[0]).all())
        True
        """
        if self._resume is not None and not self._resume["finished"] and self._resume["epoch"] == epoch:
            return
        self._chosen, self._resume = epoch, None
        tell = getattr(self._index_sampler, "set_epoch", None)
        if callable(tell):
            tell(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: plain values, less than a kilobyte for GT's samplers.

        >>> dl = gt.data.DataLoader(list(range(6)), batch_size=2, shuffle=True)
        >>> batches = iter(dl)
        >>> _ = next(batches)
        >>> state = dl.state_dict()
        >>> rest = [b.tolist() for b in batches]
        >>> dl.load_state_dict(state)
        >>> [b.tolist() for b in dl] == rest
        True
        """
        if self._resume is not None:
            return dict(self._resume)
        if not self.in_order and self._consumed and not self._finished:
            warnings.warn(
                "with in_order=False batches come in any order, but the state counts them as if in order: a loader that resumes "
                "from it may repeat some batches and skip others",
                stacklevel=2,
            )
        begun = self._epoch >= 0
        return {
            "version": 1,
            "epoch": self._epoch,
            "batch": self._consumed,
            "samples": self._samples if self._plain else None,
            "finished": self._finished or self._chosen is not None,
            "chosen": self._chosen,
            "base_seed": self._base_seed,
            "sampler": self._sampler_state if begun else sampler_state(self._below),
            "mark": self._mark,
            **self._belongs_to,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next `iter` go on where the state was taken.

        A state in the middle of an epoch of another dataset, or of a stream that was shared out otherwise, is refused.
        """
        if state.get("version") != 1:
            raise ValueError(f"this is not a DataLoader state that GT can resume: {state!r}")
        if not state["finished"]:
            if self._iterable and self.num_workers == "auto" and state.get("stream_workers", 1) > 1:
                self.num_workers = state["stream_workers"]
            refuse_another(state, self._identity())
        self._resume = dict(state)
