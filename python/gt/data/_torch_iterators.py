"""One epoch of a loader over a Python dataset: in this process, with worker processes, or first the one and then the other.

EPOCH-1: batches come in the order of the sampler, whatever the number of workers; with `in_order=False` as they are ready.
EPOCH-2: a worker has at most `prefetch_factor` tasks that are not consumed, so the memory of blocks is bounded.
EPOCH-3: what is counted as consumed has been handed to the caller; nothing before that moves the loader's state.
"""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gt.data._collate import Maker
from gt.data._fetch import EndOfStream, Fetcher, Times
from gt.data._loader_arguments import available_cores
from gt.data._shared_blocks import load_batch
from gt.data._worker_pool import NOT_SENT, WorkerPool

if TYPE_CHECKING:
    from gt.data._torch_loader import DataLoader as AnyLoader

    DataLoader = AnyLoader[Any]

__all__ = ["AutoEpoch", "EpochIterator", "InProcessEpoch", "WorkersEpoch"]

_NOT_IN_FORKS = (
    "The dataset or collate_fn calls GT, which its worker processes cannot do: they were forked, because a part of the loader cannot "
    'be pickled or the script starts the loader outside of `if __name__ == "__main__":`. Batches are made in this process from now '
    "on. To have workers, define the dataset and collate_fn at the top level of a module, and start the loader under that guard."
)

# Batches after which "auto" decides, and the share of the loop's time that loading must take to deserve a process.
PROBE_BATCHES = 4
WORTH_A_PROCESS = 0.1


class _TensorMaker(Maker):
    """Makes tensors, and counts the time and the bytes of the copies that takes.

    Arrays are stacked into one piece of memory again and again: a tensor has its copy before the next array is stacked.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.bytes = 0
        self._room: Any = None

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        import numpy as np

        size = math.prod(shape) * np.dtype(dtype).itemsize
        if self._room is None or self._room.nbytes < size:
            self._room = np.empty(size, np.uint8)
        return self._room[:size].view(dtype).reshape(shape)

    def tensor(self, array: Any) -> Any:
        began = time.perf_counter()
        made = super().tensor(array)
        self.seconds += time.perf_counter() - began
        self.bytes += array.nbytes
        return made


class EpochIterator:
    """Gives the batches of one epoch and keeps the loader's count of them."""

    def __init__(self, loader: DataLoader, indices: Iterator[Any], epoch: int) -> None:
        self._loader = loader
        self._indices = indices
        self._epoch = epoch
        self._reported_length = loader._reported_length
        self._yielded = 0

    def __iter__(self) -> EpochIterator:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        try:
            batch = self._next_batch()
        except StopIteration:
            self._loader._epoch_ended(self._epoch)
            raise
        self._loader._batch_consumed(self._epoch)
        self._yielded += 1
        if self._reported_length is not None and self._yielded > self._reported_length:
            self._warn_of_length()
        return batch

    def _next_batch(self) -> Any:
        raise NotImplementedError

    def skip(self, batches: int) -> None:
        """Passes over batches that were consumed before."""
        for _ in range(batches):
            next(self._indices, None)

    def _warn_of_length(self) -> None:
        text = (
            f"Length of IterableDataset {self._loader.dataset} was reported to be {self._reported_length}"
            f"(when accessing len(dataloader)), but {self._yielded} samples have been fetched. "
        )
        if self._loader.num_workers:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. "
            )
        warnings.warn(text, stacklevel=3)


class InProcessEpoch(EpochIterator):
    """Batches made when they are asked for, in this process."""

    def __init__(self, loader: DataLoader, indices: Iterator[Any], epoch: int) -> None:
        super().__init__(loader, indices, epoch)
        self._fetcher = Fetcher(
            loader.dataset,
            iterable=loader._iterable,
            batched=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
        )
        self._maker = _TensorMaker()

    def _next_batch(self) -> Any:
        began = time.perf_counter()
        index = next(self._indices)
        times, maker = Times(), self._maker
        maker.seconds, maker.bytes = 0.0, 0
        try:
            batch = self._fetcher.fetch(index, maker, times)
        except EndOfStream:
            raise StopIteration from None
        times.gather_s -= maker.seconds
        self._loader._count(times.as_tuple(), maker.seconds, time.perf_counter() - began, maker.bytes)
        return batch

    def skip(self, batches: int) -> None:
        if not self._loader._iterable:
            return super().skip(batches)
        for _ in range(batches):
            self._fetcher.fetch(next(self._indices), Maker(), Times())


class WorkersEpoch(EpochIterator):
    """Batches made ahead by worker processes."""

    def __init__(self, loader: DataLoader, indices: Iterator[Any], epoch: int, pool: WorkerPool) -> None:
        super().__init__(loader, indices, epoch)
        self._pool = pool
        self._ahead = loader.prefetch_factor or 2
        self._busy = [0] * len(pool.workers)
        self._working = [True] * len(pool.workers)
        self._turns = itertools.cycle(range(len(pool.workers)))
        # Tasks that are not consumed, oldest first, with their worker; and what has come for them.
        self._owner: dict[int, int] = {}
        self._arrived: dict[int, Any] = {}
        # What each of them makes a batch of, and the last one consumed.
        self._index_of: dict[int, Any] = {}
        self._consumed_index: Any = None
        self._here: InProcessEpoch | None = None
        pool.begin_epoch(self)
        self._primed = False

    def _give_tasks(self) -> None:
        """Gives out tasks in turns until every worker has as many as it may."""
        while True:
            for _ in self._busy:
                worker = next(self._turns)
                if self._working[worker] and self._busy[worker] < self._ahead:
                    break
            else:
                return
            try:
                index = next(self._indices)
            except StopIteration:
                return
            task = self._pool.submit(worker, index)
            self._owner[task], self._index_of[task] = worker, index
            self._busy[worker] += 1

    def _next_batch(self) -> Any:
        if self._here is not None:
            return self._here._next_batch()
        began = time.perf_counter()
        message, worker = self._next_message()
        if message[0] == "failure":
            if message[2].calls_gt_in_fork and self._may_go_on_here():
                return self._go_on_here()._next_batch()
            message[2].reraise()
        _, _, pickled, block, size, times = message
        copying = time.perf_counter()
        owner = self._pool.workers[worker]
        try:
            batch, array_bytes = load_batch(pickled, owner.block(block, size))
        finally:
            owner.freed.append(block)
        now = time.perf_counter()
        self._loader._count(times, now - copying, copying - began, array_bytes)
        return batch

    def _may_go_on_here(self) -> bool:
        """Whether this process makes the batches that workers would make. Streams know their worker, and so does what was prepared."""
        loader = self._loader
        return loader.multiprocessing_context is None and not loader._iterable and loader.worker_init_fn is None

    def _go_on_here(self) -> InProcessEpoch:
        """Makes the batch that was consumed last, and those after it, in this process; later epochs too."""
        warnings.warn(_NOT_IN_FORKS, stacklevel=4)
        indices = [self._consumed_index, *(self._index_of[task] for task in sorted(self._owner))]
        self._pool.stop()
        self._loader._forked_workers_fail = True
        self._here = InProcessEpoch(self._loader, itertools.chain(indices, self._indices), self._epoch)
        return self._here

    def _next_message(self) -> tuple[Any, int]:
        """The next batch or failure in order, and its worker."""
        if not self._primed:
            self._primed = True
            self._give_tasks()
        while self._owner:
            if not self._pool.alive:
                raise RuntimeError("the workers of this iterator were stopped; call iter() on the DataLoader again")
            task = next(iter(self._owner)) if self._loader.in_order else next(iter(self._arrived), -1)
            message = self._arrived.pop(task, None)
            if message is None:
                self._receive()
                continue
            worker = self._owner.pop(task)
            self._consumed_index = self._index_of.pop(task)
            self._busy[worker] -= 1
            if message[0] == "end":
                self._working[worker] = False
            self._give_tasks()
            if message[0] != "end":
                return message, worker
        if self._pool is self._loader._pool:
            self._pool.taken_by = None
        else:
            self._pool.stop()
        raise StopIteration

    def _receive(self) -> None:
        """Waits until anything comes."""
        try:
            for worker, message in self._pool.messages(self._loader.timeout or None):
                if message[1] in self._owner:
                    self._arrived[message[1]] = message
                elif message[0] == "batch":
                    # Of an epoch that was broken off.
                    self._pool.workers[worker].freed.append(message[3])
        except TimeoutError:
            raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds") from None

    def skip(self, batches: int) -> None:
        if not self._loader._iterable:
            return super().skip(batches)
        for _ in range(batches):
            message, worker = self._next_message()
            if message[0] == "batch":
                self._pool.workers[worker].freed.append(message[3])


class AutoEpoch(EpochIterator):
    """Begins in this process, and goes on with as many workers as loading is found to need."""

    def __init__(self, loader: DataLoader, indices: Iterator[Any], epoch: int) -> None:
        super().__init__(loader, indices, epoch)
        self._inner: EpochIterator = InProcessEpoch(loader, indices, epoch)
        self._loading: list[float] = []
        self._between: list[float] = []
        self._returned: float | None = None

    def _next_batch(self) -> Any:
        began = time.perf_counter()
        if self._loader.num_workers == "auto":
            if self._returned is not None:
                self._between.append(began - self._returned)
            if len(self._between) >= PROBE_BATCHES:
                self._decide()
        batch = self._inner._next_batch()
        self._returned = time.perf_counter()
        self._loading.append(self._returned - began)
        return batch

    def _decide(self) -> None:
        # The first of each has what is only paid once: caches, plans.
        loading, between = min(self._loading[1:]), min(self._between[1:])
        self._loader.num_workers = workers_for(loading, between, available_cores())
        if not self._loader.num_workers:
            return
        try:
            if self._loader._iterable:
                # A stream cannot be handed over in the middle; it has its workers from the next epoch on.
                self._loader._sent_to_workers()
            else:
                self._inner = self._loader._workers_epoch(self._indices)
        except NOT_SENT as error:
            # Whoever leaves the choice to the loader does not want an error for it.
            warnings.warn(f"num_workers='auto' continues without worker processes: {error}", stacklevel=4)
            self._loader.num_workers = 0

    def skip(self, batches: int) -> None:
        self._inner.skip(batches)


def workers_for(loading_s: float, between_s: float, cores: int) -> int:
    """How many workers keep up with a loop that spends `between_s` on each batch, if one process needs `loading_s`.

    >>> from gt.data._torch_iterators import workers_for
    >>> workers_for(0.001, 0.1, cores=8), workers_for(0.1, 0.04, cores=8), workers_for(0.1, 0.0, cores=8)
    (0, 3, 8)
    """
    if loading_s < 0.0005 or loading_s < WORTH_A_PROCESS * (loading_s + between_s):
        return 0
    return max(1, min(cores, -(-loading_s // max(between_s, 1e-9)).__int__()))
