"""One batch of a dataset: items, then collation, each with the time it took. The same code in a worker and without one.

FETCH-1: time that items take is split into what the thread computed (decoding) and what it waited for (reading); time in
         which it was ready to run and had no core counts as neither.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from gt import _core
from gt.data._collate import Maker, collate, convert, default_collate, default_convert
from gt.data._dataset import Subset, TensorDataset

__all__ = ["EndOfStream", "Fetcher", "ThreadClock", "Times"]


class EndOfStream(Exception):
    """An iterable dataset has no more batches."""


class ThreadClock:
    """What a thread did with its time: passed, computed, waited for a core. In seconds, since some moment."""

    def __init__(self) -> None:
        self._thread = 0
        self._schedule = -1

    def read(self) -> tuple[float, float, float]:
        """The three clocks of the calling thread."""
        if self._thread != threading.get_ident():
            self._open()
        delayed = 0.0
        if self._schedule >= 0:
            delayed = int(os.pread(self._schedule, 64, 0).split()[1]) * 1e-9
        return time.perf_counter(), time.thread_time(), delayed

    def _open(self) -> None:
        self._close()
        self._thread = threading.get_ident()
        try:
            self._schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass  # Not Linux: waiting for a core then counts as reading.

    def _close(self) -> None:
        if self._schedule >= 0:
            os.close(self._schedule)
            self._schedule = -1

    def __del__(self) -> None:
        self._close()


class Times:
    """Seconds by stage, and what was counted."""

    __slots__ = ("decode_s", "gather_s", "read_s", "samples")

    def __init__(self) -> None:
        self.read_s = self.decode_s = self.gather_s = 0.0
        self.samples = 0

    def as_tuple(self) -> tuple[float, float, float, int]:
        """As it travels."""
        return self.read_s, self.decode_s, self.gather_s, self.samples


class Fetcher:
    """Makes batches of a dataset.

    `collate_fn` None stands for `default_collate` or, without batches, `default_convert`.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        iterable: bool,
        batched: bool,
        collate_fn: Callable[[Any], Any] | None,
        drop_last: bool,
    ) -> None:
        self._dataset = dataset
        self._batched = batched
        # What GT's own functions do is done by `make`, with the leaves it makes.
        self._collate_fn = None if collate_fn in (default_collate, default_convert) else collate_fn
        self._join = convert if collate_fn is default_convert or not (collate_fn or batched) else collate
        self._drop_last = drop_last
        self._items = iter(dataset) if iterable else None
        self._clock = ThreadClock()
        by_rows = batched and not iterable and self._collate_fn is None and self._join is collate
        self._whole = _tensors_below(dataset) if by_rows else None

    def fetch(self, index: Any, make: Maker, times: Times) -> Any:
        """The batch of these indices (for a stream: the next as many items)."""
        wall, computed, delayed = self._clock.read()
        if self._whole is not None:
            items: Any = self._whole.rows(index)
        elif self._items is not None:
            items = self._next_items(index)
        elif not self._batched:
            items = self._dataset[index]
        else:
            at_once = getattr(self._dataset, "__getitems__", None)
            items = at_once(index) if at_once else [self._dataset[i] for i in index]
        fetched, computed_then, delayed_then = self._clock.read()
        times.decode_s = computed_then - computed
        times.read_s = max(0.0, fetched - wall - times.decode_s - (delayed_then - delayed))
        times.samples = (len(index) if self._items is None else len(items)) if self._batched else 1
        batch = self._collated(items, make)
        times.gather_s = time.perf_counter() - fetched
        return batch

    def _next_items(self, index: Any) -> Any:
        assert self._items is not None
        if not self._batched:
            try:
                return next(self._items)
            except StopIteration:
                raise EndOfStream from None
        items = []
        for _ in index:
            try:
                items.append(next(self._items))
            except StopIteration:
                break
        if not items or (self._drop_last and len(items) < len(index)):
            raise EndOfStream
        return items

    def _collated(self, items: Any, make: Maker) -> Any:
        if self._collate_fn is not None:
            return self._collate_fn(items)
        if self._whole is not None:
            return [array if isinstance(array, _core.Tensor) else make.tensor(array) for array in items]
        return self._join(items, make)


class _Rows:
    """Tensors of which the rows of a whole batch are taken at once."""

    def __init__(self, tensors: tuple[Any, ...], chosen: list[Any]) -> None:
        self._tensors = tensors
        self._chosen = chosen

    def rows(self, index: list[int]) -> list[Any]:
        for indices in self._chosen:
            index = [indices[i] for i in index]
        at = _core.tensor(index) if any(isinstance(t, _core.Tensor) for t in self._tensors) else None
        return [t[at] if isinstance(t, _core.Tensor) else t[index] for t in self._tensors]


def _tensors_below(dataset: Any) -> _Rows | None:
    """What a batch of a `TensorDataset`, or of a subset of one, can be taken from at once."""
    import numpy as np

    chosen = []
    while type(dataset) is Subset:
        chosen.append(dataset.indices)
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    if not all(isinstance(t, (_core.Tensor, np.ndarray)) for t in dataset.tensors):
        return None
    return _Rows(dataset.tensors, chosen)


def without_gt(dataset: Any) -> Any:
    """The same dataset with arrays in place of GT's tensors, so that a worker process needs no GT to take rows of it."""
    if type(dataset) is Subset:
        below = without_gt(dataset.dataset)
        return dataset if below is dataset.dataset else Subset(below, dataset.indices)
    if type(dataset) is not TensorDataset or any(getattr(t, "dtype", None) is _core.bfloat16 for t in dataset.tensors):
        return dataset
    return TensorDataset(*(t.detach().numpy() if isinstance(t, _core.Tensor) else t for t in dataset.tensors))
