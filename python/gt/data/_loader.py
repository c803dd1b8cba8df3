"""`DataLoader`: over files with GT's own threads, over Python datasets as PyTorch's."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gt
from gt import _core
from gt._output_files import may_write
from gt.data._batch_entries import at_least_one, outputs
from gt.data._keyed_order import initial_seed
from gt.data._loader_arguments import available_cores, whole_number
from gt.data._memory import memory_bytes, pool_that_fits
from gt.data._report import DryRun, Mixing, ShuffleReport
from gt.data._sources import CachedDataset, FileDataset
from gt.data._torch_loader import DataLoader as _PythonLoader
from gt.data._torch_loader import Item
from gt.data._transforms import ColumnExpression

__all__ = ["DataLoader", "FileLoader"]

_Transform = ColumnExpression | Callable[[dict[str, Any]], Any]

_STATE_VERSION = 1
# What a state must agree with; everything else of it is taken over.
_SAME = ("fingerprint", "group")
# What a run counts.
_COUNTED = (
    *("read_s", "decode_s", "gather_s", "copy_s", "wait_s"),
    *("batches", "samples", "bytes", "read_bytes", "blocks", "peak_bytes", "skipped_samples"),
)


_PYTHON_LOADER = tuple(inspect.signature(_PythonLoader).parameters)
_POSITIONAL = _PYTHON_LOADER[1:]
# What only means something where Python makes the samples.
_MADE_BY_PYTHON = ("collate_fn", "sampler", "batch_sampler", "worker_init_fn", "multiprocessing_context")


class DataLoader(_PythonLoader[Item]):
    """Batches of a data set, with PyTorch's names and meanings.

    Over a `Dataset` or anything else with `__getitem__` and `__len__`, or an `IterableDataset`, it is PyTorch's loader: Python
    makes the samples, `num_workers` are processes. Over the data sets of `gt.data` that lie in files it is a `FileLoader`, whose
    threads read, shuffle and gather without Python; see there for what else it takes. Where Python is asked for all the same, by
    `collate_fn`, `sampler`, `batch_sampler`, `worker_init_fn`, `multiprocessing_context` or `batch_size=None`, it is PyTorch's loader
    over files too; then `shuffle=True` is the order of a `BlockShuffleSampler`.

    >>> dl = gt.data.DataLoader(gt.data.TensorDataset(gt.arange(6)), batch_size=3)
    >>> [x.tolist() for (x,) in dl]
    [[0, 1, 2], [3, 4, 5]]
    """

    def __new__(cls, dataset: Any = None, *args: Any, **kwargs: Any) -> DataLoader[Any]:
        if issubclass(cls, FileLoader) or not isinstance(dataset, FileDataset):
            return object.__new__(cls)
        given = {**dict(zip(_POSITIONAL, args)), **kwargs}
        wanted = next((name for name in _MADE_BY_PYTHON if given.get(name) is not None), None)
        if wanted is None and (given.get("batch_size", 1) is not None or given.get("max_tokens") is not None):
            return object.__new__(_over_files(cls))
        for name in given:
            if name not in _PYTHON_LOADER:
                by_python = f"{wanted}=" if wanted else "batch_size=None"
                raise TypeError(
                    f"{name}= works only when GT's threads make the batches; with {by_python} Python makes them"
                )
        return object.__new__(cls)


@functools.cache
def _over_files(cls: type[DataLoader[Any]]) -> type[FileLoader]:
    """The loader of files that a class stands for: a user's class comes first, and its `super()` is the loader of files."""
    return FileLoader if cls is DataLoader else type(cls.__name__, (cls, FileLoader), {"__module__": cls.__module__})


class FileLoader(DataLoader[Any]):
    """Batches of a data set in files, as a dict of tensors. `gt.data.DataLoader` makes one.

    PyTorch's arguments mean what they mean there: `batch_size shuffle drop_last num_workers prefetch_factor pin_memory
    persistent_workers generator` (`generator` may be a plain seed). `num_workers` are threads, which never hold Python's lock;
    `"auto"` takes as many as there are cores. Beyond that:

    `shuffle_pool`: how many blocks are mixed at a time: a number, `"auto"` (128, or what fits the budget), `"full"` for an
    exact permutation of the epoch, `"files"` for blocks one after another. `lanes`: how many sequences blocks are dealt to.

    `collate`: `"padded"` gives a column of lists as (samples, longest, …), with `lengths` and `mask`; `"packed"` gives all items one
    after another, with `cu_seqlens`. `pad_value`, `max_len`, `pad_to_multiple_of`, `dtypes`: one value, or a dict by column.
    `outliers`: a sample longer than `max_len` is cut (`"truncate"`), thinned out (`"subsample"`), or becomes several rows of its
    batch, one after another (`"split"`). `ragged="each"` gives each column of lists its own `…_lengths`. `sample_ids=True` adds
    `sample_id`, the sample's number in the data set.

    `max_tokens`: as many samples a batch as fit, by padded size or, packed, by items. `bucket=True`: batches of samples of about
    the same length. `memory_budget`: what blocks and finished batches may take. `transforms`: expressions over columns
    (`gt.data.col`), which the threads compute, and functions of a whole batch, which run here.

    `pin_memory` is accepted, and means something once batches go to a GPU: the CPU takes them over where they were made.

    With a server the session's worker reads the files and makes the batches; under a signal that splits rows over workers each
    of them reads and makes its own part. See `docs/data.md`.

    The order is a function of seed, epoch and position alone: not of threads, memory or workers. `state_dict` is a small dict that
    stands for the batches that were given; after `load_state_dict` exactly the others follow.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npy"
    >>> np.save(path, np.arange(6.0))
    >>> loader = gt.data.DataLoader(gt.data.NpyDataset({"x": path}), batch_size=4)
    >>> [batch["x"].tolist() for batch in loader]
    [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0]]
    """

    def __init__(
        self,
        dataset: FileDataset,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: None = None,
        batch_sampler: None = None,
        num_workers: int | str = 0,
        collate_fn: None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: None = None,
        multiprocessing_context: None = None,
        generator: int | gt.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        shuffle_pool: int | str = "auto",
        lanes: int = 16,
        collate: str = "padded",
        max_tokens: int | None = None,
        bucket: bool = False,
        memory_budget: int | str = "2GiB",
        dtypes: Any = None,
        pad_value: float | Mapping[str, float] = 0,
        max_len: int | Mapping[str, int] | None = None,
        pad_to_multiple_of: int | Mapping[str, int] = 1,
        outliers: str = "truncate",
        ragged: str = "shared",
        transforms: _Transform | Sequence[_Transform] = (),
        sample_ids: bool = False,
        on_error: str | None = None,
    ) -> None:
        python = (sampler, batch_sampler, collate_fn, worker_init_fn, multiprocessing_context)
        if any(value is not None for value in python):
            raise ValueError(
                f"{', '.join(_MADE_BY_PYTHON)} work only when Python makes the batches: see gt.data.DataLoader"
            )
        for name, value, known in (
            ("collate", collate, ("padded", "packed")),
            ("outliers", outliers, ("truncate", "subsample", "split")),
            ("ragged", ragged, ("shared", "each")),
            ("on_error", on_error, (None, "raise", "skip")),
        ):
            if value not in known:
                raise ValueError(f"{name} should be one of {known}, but got {value!r}")
        if batch_size is None and max_tokens is None:
            raise ValueError("batch_size=None needs max_tokens: a loader of files always returns batches")
        batch_size = at_least_one("batch_size", batch_size)
        max_tokens = at_least_one("max_tokens", max_tokens)
        lanes = at_least_one("lanes", lanes) or 1
        if num_workers == "auto":
            num_workers = available_cores()
        num_workers = whole_number(num_workers)
        if not isinstance(num_workers, int) or isinstance(num_workers, bool):
            raise TypeError(f"num_workers should be a number or 'auto', but got num_workers={num_workers!r}")
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError("prefetch_factor option should be positive")
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.persistent_workers = persistent_workers
        self.timeout = timeout
        self.generator = generator
        self.sampler = self.batch_sampler = self.collate_fn = self.worker_init_fn = self.multiprocessing_context = None
        self.in_order = in_order
        self.max_tokens = max_tokens
        self.bucket = bucket
        self.shuffle = bool(shuffle)
        self.memory_budget = memory_bytes(memory_budget)
        self._skip_errors = (dataset.on_error if on_error is None else on_error) == "skip"
        if callable(transforms) or isinstance(transforms, ColumnExpression):
            transforms = [transforms]
        self._functions = [t for t in transforms if not isinstance(t, ColumnExpression)]
        wrong = [t for t in self._functions if not callable(t)]
        if wrong:
            raise TypeError(f"transforms should be expressions or functions, but got {wrong[0]!r}")
        expressions = [t for t in transforms if isinstance(t, ColumnExpression)]
        if list(transforms) != [*expressions, *self._functions]:
            raise ValueError("expressions run before functions: list them first in transforms")
        options = {
            "dtypes": dtypes,
            "pad_value": pad_value,
            "max_len": max_len,
            "pad_to_multiple_of": pad_to_multiple_of,
        }
        kind, pool = self._shuffle(shuffle_pool)
        self._arguments: dict[str, Any] = {
            "seed": initial_seed(generator),
            "shuffle": kind,
            "pool": pool,
            "lanes": lanes,
            "batch_size": batch_size or 0,
            "drop_last": drop_last,
            "max_tokens": max_tokens,
            "bucket": bucket,
            "outputs": outputs(dataset, expressions, options),
            "packed": collate == "packed",
            "lengths_each": ragged == "each",
            "outliers": outliers,
            "sample_ids": sample_ids,
            "threads": num_workers,
            "prefetch": (self.prefetch_factor or 1) * max(num_workers, 1),
            "memory_budget": self.memory_budget,
            "skip_errors": self._skip_errors,
        }
        self.epoch = 0
        self._position, self._batch = 0, 0
        # The next `iter` goes on where the position is, instead of beginning an epoch.
        self._resume = True
        # Whether that position is one of a state that was loaded.
        self._loaded = False
        # The run that was begun last, which alone moves the position, and all that are not over.
        self._run: _core._DataRun | None = None
        self._runs: list[_core._DataRun] = []
        # What one epoch's blocks lay in, the next one's do.
        self._memory = _core._DataMemory()
        self._past: dict[str, float] = {}

    def _shuffle(self, pool: int | str) -> tuple[str, int]:
        if not self.shuffle:
            return "off", 1
        if pool in ("full", "files"):
            return str(pool), 1
        blocks = self.dataset._source.blocks()
        if pool == "auto":
            return "pool", pool_that_fits(blocks, self.memory_budget, self.batch_size or 1)
        if not isinstance(pool, int) or isinstance(pool, bool) or pool < 1:
            raise ValueError(f"shuffle_pool should be a number of blocks, 'auto', 'full' or 'files', but got {pool!r}")
        return "pool", min(pool, max(len(blocks), 1))

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        # Threads and memory are this loader's own.
        return {**self.__dict__, "_run": None, "_runs": [], "_memory": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._memory = _core._DataMemory()

    def __len__(self) -> int:
        if self.max_tokens is not None:
            raise TypeError(
                "len() is not known with max_tokens: the number of batches depends on the lengths of samples"
            )
        samples, size = len(self.dataset), self.batch_size or 1
        return samples // size if self.drop_last else -(-samples // size)

    @property
    def shuffle_pool(self) -> int | str:
        """How many blocks are mixed at a time."""
        kind = self._arguments["shuffle"]
        return self._arguments["pool"] if kind == "pool" else kind

    def _start(self, *, here: bool = False, **changes: Any) -> _core._DataRun:
        arguments = {
            **self._arguments,
            "epoch": self.epoch,
            "position": self._position,
            "batch": self._batch,
            **changes,
        }
        return _core._DataRun(self.dataset._source, arguments, self._memory, here)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if not self._resume:
            self.epoch += 1
            self._position = self._batch = 0
        self._resume = self._loaded = False
        self._run = run = self._start()
        self._runs.append(run)
        return _Batches(self._batches(run), lambda: self._ended(run))

    def _batches(self, run: _core._DataRun) -> Iterator[Any]:
        try:
            while (given := run.next()) is not None:
                batch, position, number = given
                for function in self._functions:
                    batch = function(batch)
                if run is self._run:
                    self._position, self._batch = position, number
                yield batch
            if run is self._run:
                self.epoch += 1
                self._position = self._batch = 0
                self._resume = True
        finally:
            self._ended(run)

    def _ended(self, run: _core._DataRun) -> None:
        """Ends the threads of a run, and keeps what it has counted."""
        if run in self._runs:
            self._runs.remove(run)
            run.close()
            self._past = _added(self._past, run.stats())
        if run is self._run:
            self._run = None

    def set_epoch(self, epoch: int) -> None:
        """The next `iter` gives this epoch, from its beginning, or, if a state of this epoch was just loaded, from where that
        stands. Without a call each `iter` gives the next one."""
        epoch = operator.index(epoch)
        if epoch < 0:
            raise ValueError(f"epoch should not be negative, but got epoch={epoch}")
        if self._loaded and epoch == self.epoch:
            return
        self._stand_at(epoch, 0, 0)

    def _stand_at(self, epoch: int, position: int, batch: int, loaded: bool = False) -> None:
        self.epoch, self._position, self._batch, self._loaded = epoch, position, batch, loaded
        # What an iterator still gives that was begun before does not change that.
        self._resume, self._run = True, None

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, after the batches that were given. Small, and made of numbers and strings."""
        order = {name: self._arguments[name] for name in ("seed", "shuffle", "pool", "lanes")}
        return {
            "version": _STATE_VERSION,
            "epoch": self.epoch,
            "position": self._position,
            "batch": self._batch,
            **order,
            "fingerprint": self.dataset._source.fingerprint(),
            "group": self._group(),
        }

    def _group(self) -> str:
        """What batches depend on beside the order; a plain batch is the next samples, whatever its size."""
        if self.max_tokens is None and not self.bucket:
            return "plain"
        names = ("batch_size", "max_tokens", "bucket", "packed")
        return ",".join(f"{name}={self._arguments[name]}" for name in names)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next `iter` gives exactly the batches that the saved loader had not given; threads and memory may differ."""
        if state.get("version") != _STATE_VERSION:
            raise ValueError(
                f"the state has version {state.get('version')}, but this GT reads version {_STATE_VERSION}"
            )
        mine = self.state_dict()
        if missing := [name for name in mine if name not in state]:
            raise ValueError(f"this is not the state of a file loader: it has no {missing[0]!r}")
        for name in _SAME:
            if state[name] != mine[name]:
                what = {"fingerprint": "other files", "group": "other batch settings"}[name]
                raise ValueError(
                    f"the state belongs to a loader with {what}: {name} was {state[name]}, but is {mine[name]}"
                )
        self._arguments.update({name: state[name] for name in ("seed", "shuffle", "pool", "lanes")})
        self._stand_at(state["epoch"], state["position"], state["batch"], loaded=True)

    def stats(self) -> dict[str, float]:  # type: ignore[override]
        """Times and amounts so far, over all epochs: seconds the threads spent reading, decoding and gathering, handing over
        (`copy_s`) and waiting (`wait_s`), batches, samples, bytes."""
        total = functools.reduce(_added, (run.stats() for run in self._runs), self._past)
        return {**dict.fromkeys(_COUNTED, 0), **total, "left_out_files": len(self.dataset.left_out)}

    def shuffle_report(self, label: str | None = None, correlation: float = 0.01) -> ShuffleReport:
        """How good the shuffle is, from the order alone. With `label`, a column of one number a sample, that column is read;
        otherwise a label is assumed of whose variance `correlation` is between blocks."""
        labels = None if label is None else self._labels(label)
        size = self.batch_size or 1
        arguments = {**self._arguments, "epoch": self.epoch, "position": 0, "batch": 0}
        found = _core._shuffle_report(self.dataset._source, arguments, size, correlation, labels)
        parts = {name: Mixing(**found.pop(name)) for name in ("whole", "first", "last")}
        said = label if label is not None else f"assumed, with a correlation of {correlation} inside blocks"
        return ShuffleReport(**found, **parts, label=said, shuffle=self._described())

    def _described(self) -> str:
        kind = self._arguments["shuffle"]
        return f"over a pool of {self._arguments['pool']} blocks" if kind == "pool" else kind

    def _labels(self, label: str) -> bytes:
        kinds = {name: (kind, item) for name, _, kind, item in self.dataset._source.fields()}
        if kinds.get(label) != ("fixed", []):
            raise ValueError(f"label should be a column with one number per sample, but got {label!r}")
        output = {
            **ColumnExpression(label).__dict__,
            "dtype": "float32",
            "max_len": None,
            "pad_value": 0.0,
            "multiple": 1,
        }
        run = self._start(
            here=True, shuffle="off", position=0, batch=0, batch_size=65536, drop_last=False, max_tokens=None, bucket=False,
            outputs=[output], sample_ids=False, prefetch=1,
        )  # fmt: skip
        parts = []
        while (given := run.next()) is not None:
            parts.append(given[0][label].numpy().tobytes())
        return b"".join(parts)

    def dryrun(self, seconds: float = 1.0) -> DryRun:
        """Goes over the first batches, for about so long, and says what the loader will do. Where the loader stands does not
        change."""
        began = time.perf_counter()
        run = self._start(position=0, batch=0)
        given = run.next()
        first_s = time.perf_counter() - began
        began, samples = time.perf_counter(), 0
        while time.perf_counter() - began < seconds and (more := run.skip()) is not None:
            samples += more
        took = time.perf_counter() - began
        run.close()
        batch = {} if given is None else given[0]
        padding = float(1 - batch["mask"].float().mean().item()) if "mask" in batch and batch["mask"].numel() else None
        described = {
            name: f"{v.dtype} {tuple(v.shape)}" if isinstance(v, gt.Tensor) else f"list of {len(v)}"
            for name, v in batch.items()
        }
        blocks = self.dataset._source.blocks()
        mean = sum(b[1] for b in blocks) / max(len(blocks), 1)
        pool = {"off": 1, "files": 1, "full": len(blocks)}.get(self._arguments["shuffle"], self._arguments["pool"])
        return DryRun(
            samples=len(self.dataset),
            batches=None if self.max_tokens is not None else len(self),
            files=len(self.dataset.files),
            blocks=len(blocks),
            left_out=self.dataset.left_out,
            shuffle=self._described(),
            pool_bytes=int(pool * mean),
            memory_budget=self.memory_budget,
            first_batch_s=first_s,
            samples_per_s=samples / took if took > 0 else 0.0,
            entries=described,
            padding=padding,
        )

    def cache(self, folder: str | os.PathLike[str]) -> CachedDataset:
        """Writes every sample, with dtypes, `max_len` and expressions applied, into a folder, as arrays that need no decoding, and
        opens it. The folder appears when it is complete. Functions among `transforms` are not applied: they see whole batches."""
        arguments = {**self._arguments, "epoch": 0, "position": 0, "batch": 0}
        folder = os.path.expanduser(os.fspath(folder))
        if not may_write(folder):
            raise RuntimeError(
                f"gt plan writes no files, so the cache {folder} does not exist: write it first with gt data cache, "
                "then plan a script that opens it"
            )
        _core._write_cache(self.dataset._source, arguments, folder)
        return CachedDataset(folder)


class _Batches:
    """The batches of an epoch. Its threads end with it, also where not one batch was taken."""

    def __init__(self, batches: Iterator[Any], end: Callable[[], None]) -> None:
        self._batches, self._end = batches, end

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def close(self) -> None:
        """Ends it before its time."""
        self._end()

    __del__ = close


def _added(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    if not a or not b:
        return dict(a or b)
    return {name: max(a[name], b[name]) if name == "peak_bytes" else a[name] + b[name] for name in a}
