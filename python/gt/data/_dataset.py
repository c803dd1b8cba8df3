"""Datasets in Python: items by index, or items one after the other. Names and meanings are `torch.utils.data`'s.

>>> ds = gt.data.TensorDataset(gt.arange(6).reshape(3, 2), gt.tensor([0, 1, 0]))
>>> len(ds), ds[1]
(3, (tensor([2, 3]), tensor(1)))
"""

from __future__ import annotations

import bisect
import itertools
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from gt._core import Tensor
from gt.data._keyed_order import draw_seed, keyed_permutation

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

Item = TypeVar("Item", covariant=True)


class Dataset(Generic[Item]):
    """Items by index. A subclass says what `ds[i]` is and, in general, `len(ds)`.

    A subclass may also define `__getitems__(indices)`, which gives a list of items at once.

    >>> class Squares(gt.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> [batch.tolist() for batch in gt.data.DataLoader(Squares(), batch_size=2)]
    [[0, 1], [4, 9]]
    """

    def __getitem__(self, index: Any) -> Item:
        raise NotImplementedError("a Dataset must define __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Item], Iterable[Item]):
    """Items one after the other, for streams. With workers, each iterates its own copy: `get_worker_info()` tells them apart.

    >>> class Count(gt.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(5))
    >>> [batch.tolist() for batch in gt.data.DataLoader(Count(), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __iter__(self) -> Iterator[Item]:
        raise NotImplementedError("an IterableDataset must define __iter__")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


def is_stream(dataset: Any) -> bool:
    """Whether a dataset gives its items one after the other: GT's kind, or torch's, which is not imported to find out."""
    torch = sys.modules.get("torch.utils.data")
    return isinstance(dataset, IterableDataset) or (torch is not None and isinstance(dataset, torch.IterableDataset))


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors (or arrays) whose first dimension counts the items. A loader takes a whole batch from each with one instruction.

    >>> ds = gt.data.TensorDataset(gt.tensor([[1, 2], [3, 4]]), gt.tensor([5, 6]))
    >>> ds[0]
    (tensor([1, 2]), tensor(5))
    """

    def __init__(self, *tensors: Any) -> None:
        if any(len(tensors[0]) != len(tensor) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Datasets side by side: an item is a tuple of their items, or a dict if they were given by name.

    >>> gt.data.StackDataset(x=[1, 2], y=[3, 4])[1]
    {'x': 2, 'y': 4}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: tuple[Any, ...] | dict[str, Any] = args or kwargs
        parts = self._parts()
        self._length = len(parts[0])
        if any(self._length != len(part) for part in parts):
            raise ValueError("Size mismatch between datasets")

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _joined(self, values: Iterable[Any]) -> Any:
        return dict(zip(self.datasets, values)) if isinstance(self.datasets, dict) else tuple(values)

    def __getitem__(self, index: Any) -> Any:
        return self._joined(part[index] for part in self._parts())

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [_items(part, indices) for part in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
        return [self._joined(row) for row in zip(*columns)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Item]):
    """Datasets one behind the other.

    >>> ds = gt.data.ConcatDataset([[1, 2], [3]])
    >>> len(ds), ds[2], ds[-3]
    (3, 3, 1)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if len(self.datasets) == 0:
            raise AssertionError("datasets should not be an empty iterable")
        if any(is_stream(d) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each dataset ends."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Item:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        item: Item = self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]
        return item


class ChainDataset(IterableDataset[Any]):
    """Streams one behind the other.

    >>> class Count(gt.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(Count() + Count())
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not is_stream(dataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


class Subset(Dataset[Item]):
    """Some items of a dataset, by index.

    >>> ds = gt.data.Subset(["a", "b", "c"], [2, 0])
    >>> len(ds), ds[0]
    (2, 'c')
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        if type(self).__getitem__ is not Subset.__getitem__ and type(self).__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{type(self).__name__} overrides __getitem__ but inherits __getitems__ from Subset, which a DataLoader calls "
                "instead. Override __getitems__ too, for example as [self[i] for i in indices]"
            )

    def __getitem__(self, idx: Any) -> Item:
        chosen = [self.indices[i] for i in idx] if isinstance(idx, list) else self.indices[idx]
        item: Item = self.dataset[chosen]
        return item

    def __getitems__(self, indices: list[int]) -> list[Item]:
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def _items(dataset: Any, indices: list[Any]) -> list[Any]:
    """The items at these indices, at once where the dataset can."""
    at_once = getattr(dataset, "__getitems__", None)
    found: list[Any] = at_once(indices) if callable(at_once) else [dataset[i] for i in indices]
    return found


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Any = None) -> list[Subset[Any]]:
    """Parts of a dataset without an item in common, by lengths or by fractions that add up to 1.

    `generator`: a `gt.Generator` or a seed; without one the thread's stream of random numbers.

    >>> train, test = gt.data.random_split(range(10), [0.8, 0.2], generator=0)
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    sizes = _split_sizes(len(dataset), lengths)
    if sum(sizes) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = keyed_permutation(len(dataset), draw_seed(generator)).tolist()
    return [Subset(dataset, order[end - size : end]) for end, size in zip(itertools.accumulate(sizes), sizes)]


def _split_sizes(total: int, lengths: Sequence[int | float]) -> list[int]:
    if not (math.isclose(sum(lengths), 1) and sum(lengths) <= 1):
        return [int(length) for length in lengths] if all(length == int(length) for length in lengths) else [-1]
    for i, fraction in enumerate(lengths):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * fraction) for fraction in lengths]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return sizes
