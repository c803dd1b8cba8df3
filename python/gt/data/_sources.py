"""Data sets in files, read by GT's own threads."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gt import _core
from gt.data._dataset import Dataset
from gt.data._memory import memory_bytes

__all__ = [
    "ArrowDataset",
    "CachedDataset",
    "FileDataset",
    "JsonlDataset",
    "NpyDataset",
    "ParquetDataset",
    "RowRanges",
    "SafetensorsDataset",
    "WebDataset",
    "open",
]

_Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def _patterns(paths: _Paths) -> list[str]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    return [os.path.expanduser(os.fspath(p)) for p in paths]


def _checked_on_error(on_error: str) -> bool:
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error should be 'raise' or 'skip', but got {on_error!r}")
    return on_error == "skip"


def _null_values(null_value: float | Mapping[str, float] | None) -> list[tuple[str, float]]:
    if null_value is None:
        return []
    if isinstance(null_value, Mapping):
        return [(name, float(value)) for name, value in null_value.items()]
    return [("", float(null_value))]


def _read_arguments(
    columns: Sequence[str] | None,
    on_error: str,
    null_value: float | Mapping[str, float] | None = None,
    index_cache: bool = True,
) -> dict[str, Any]:
    return {
        "columns": None if columns is None else list(columns),
        "skip_errors": _checked_on_error(on_error),
        "null_values": _null_values(null_value),
        "index_cache": index_cache,
    }


class FileDataset(Dataset[dict[str, Any]]):
    """A data set in files: samples in blocks, which are read as a whole.

    What every such data set has; `gt.data.DataLoader` reads it with threads of its own.

    `ds[i]` is a sample by itself: a dict of NumPy arrays and numbers, and of text. Samples are numbered as they are stored, as a
    loader without shuffling gives them. So code that was written for datasets of items (`Subset`, `random_split`, a `collate_fn`,
    a `sampler`, PyTorch's loader) works on files too. A block is decoded for the first sample that is asked of it, and kept while
    `memory_budget` allows; a `BlockShuffleSampler` asks for samples so that each block is decoded once.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npy"
    >>> np.save(path, np.arange(6.0))
    >>> data = gt.data.NpyDataset({"x": path})
    >>> isinstance(data, gt.data.FileDataset), len(data), data.columns
    (True, 6, ['x'])
    >>> float(data[2]["x"]), len(data[1:4])
    (2.0, 3)
    """

    # What decoded blocks may take that `ds[i]` keeps, in this process.
    memory_budget: int | str = "2GiB"

    def __init__(self, source: _core._DataSource, on_error: str = "raise") -> None:
        self._source = source
        self.on_error = on_error
        if unread := source.unread():
            names = ", ".join(name for name, _ in unread)
            warnings.warn(
                f"{source.file(0)}: {unread[0][1]}; skipping these columns (set columns= to hide this warning): {names}",
                stacklevel=3,
            )

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Iterable[Any]) -> list[dict[str, Any]]:
        """Several samples at once."""
        numbers = [_number(index, len(self)) for index in indices]
        names = self.columns
        found = self._source.samples(numbers, memory_bytes(self.memory_budget))
        return [dict(zip(names, map(_value, values), strict=True)) for values in found]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _, _, _ in self._source.fields()]

    @property
    def block_lengths(self) -> list[int]:
        """Samples in each block, in the order they are stored."""
        return [samples for samples, _, _ in self._source.blocks()]

    @property
    def files(self) -> list[str]:
        """The files that hold samples."""
        return [self._source.file(n) for n in sorted({number for _, _, number in self._source.blocks()})]

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """Files that `on_error="skip"` left out, each with the reason."""
        return self._source.left_out()

    def __repr__(self) -> str:
        kinds = {"fixed": "{}", "ragged": "list of {}", "text": "text", "bytes": "bytes"}
        columns = ", ".join(
            f"{name}: {kinds[kind].format(elem)}{list(item) if item else ''}"
            for name, elem, kind, item in self._source.fields()
        )
        return f"{type(self).__name__}({len(self)} samples in {len(self.block_lengths)} blocks; {columns})"


def _number(index: Any, samples: int) -> int:
    number = operator.index(index)
    if not -samples <= number < samples:
        raise IndexError(f"index {number} is out of range for a data set of {samples} samples")
    return number % samples


def _value(value: str | bytes | tuple[str, tuple[int, ...], bytearray]) -> Any:
    """A column's value: text as it is, numbers as an array, or as one of NumPy's numbers."""
    import numpy as np

    if not isinstance(value, tuple):
        return value
    dtype, shape, stored = value
    # A bytearray, so that the array may be written to, which PyTorch wants of arrays it shares.
    return np.frombuffer(stored, dtype).reshape(shape)[()]


@dataclass(frozen=True)
class RowRanges:
    """Which rows of flat files make a sample: a Parquet table with a row for each.

    `first` is the column of a sample's first row, counted from the beginning of its file. One of `last` (its last row), `end`
    (the row after it) or `length` says where it ends. `file` is the column that says which file it is in, and `file_pattern`
    the file's name with `{}` for what that column holds; one file needs neither. `columns` of the table become columns of
    the samples.

    >>> gt.data.RowRanges("meta.parquet", first="first", last="last", file="batch_id", file_pattern="batch_{}.parquet").first
    'first'
    """

    table: _Paths
    first: str
    last: str | None = None
    end: str | None = None
    length: str | None = None
    file: str | None = None
    file_pattern: str | os.PathLike[str] | None = None
    columns: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        if sum(x is not None for x in (self.last, self.end, self.length)) != 1:
            raise ValueError("pass exactly one of last=, end= and length=")
        if (self.file is None) != (self.file_pattern is None):
            raise ValueError("file= and file_pattern= must be used together")
        if self.file_pattern is not None and "{}" not in os.fspath(self.file_pattern):
            raise ValueError(f"file_pattern needs {{}} where the file's number goes, but got {self.file_pattern!r}")

    def _arguments(self) -> dict[str, Any]:
        ends = {"last": self.last, "end": self.end, "length": self.length}
        file = None
        if self.file is not None and self.file_pattern is not None:
            file = (self.file, os.path.expanduser(os.fspath(self.file_pattern)))
        return {
            "patterns": _patterns(self.table),
            "first": self.first,
            "end": next((kind, column) for kind, column in ends.items() if column is not None),
            "file": file,
            "columns": list(self.columns),
        }


class ParquetDataset(FileDataset):
    """Samples in Parquet files: a row each, or with `events` a range of rows each.

    `paths`: a path, a folder, a pattern such as `"train/*.parquet"`, a URL of the same (`s3:// gs:// az:// http:// https:// file://`),
    or a list of them. `columns`: which ones, all that can be
    read by default. A column of lists gives samples of any length, one of numbers gives one number a sample.

    `null_value` stands for null numbers, one for all columns or a dict; without it nulls are NaN in columns of floats and
    an error elsewhere. `on_error="skip"` leaves out files that cannot be read, are corrupt or have other columns than the
    first; see `left_out`. What GT finds out about the files is kept in `GT_CACHE_DIR`, unless `index_cache=False`.

    >>> gt.data.ParquetDataset("/nowhere/*.parquet")
    Traceback (most recent call last):
    FileNotFoundError: no file matches /nowhere/*.parquet
    """

    def __init__(
        self,
        paths: _Paths,
        columns: Sequence[str] | None = None,
        *,
        events: RowRanges | None = None,
        null_value: float | Mapping[str, float] | None = None,
        on_error: str = "raise",
        index_cache: bool = True,
    ) -> None:
        read = _read_arguments(columns, on_error, null_value, index_cache)
        arguments = None if events is None else events._arguments()
        super().__init__(_core._DataSource.parquet(_patterns(paths), read, arguments), on_error)


class ArrowDataset(FileDataset):
    """Samples in Arrow IPC files (`.arrow`, `.feather`): a row each, record batches as blocks. Arguments as `ParquetDataset`'s.

    >>> gt.data.ArrowDataset("/nowhere.arrow")
    Traceback (most recent call last):
    FileNotFoundError: /nowhere.arrow: no such file
    """

    def __init__(
        self,
        paths: _Paths,
        columns: Sequence[str] | None = None,
        *,
        null_value: float | Mapping[str, float] | None = None,
        on_error: str = "raise",
    ) -> None:
        read = _read_arguments(columns, on_error, null_value)
        super().__init__(_core._DataSource.arrow(_patterns(paths), read), on_error)


class JsonlDataset(FileDataset):
    """Samples in JSON Lines files: an object a line. Numbers, text and lists of numbers are columns; the first lines say what
    each holds, and a line that does not fit is an error that names it. Arguments as `ParquetDataset`'s.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.jsonl"
    >>> _ = path.write_text('{"x": 1, "y": [1.5, 2.5]}\\n{"x": 2, "y": []}\\n')
    >>> gt.data.JsonlDataset(path)
    JsonlDataset(2 samples in 1 blocks; x: int64, y: list of float64)
    """

    def __init__(
        self,
        paths: _Paths,
        columns: Sequence[str] | None = None,
        *,
        null_value: float | Mapping[str, float] | None = None,
        on_error: str = "raise",
        index_cache: bool = True,
    ) -> None:
        read = _read_arguments(columns, on_error, null_value, index_cache)
        super().__init__(_core._DataSource.jsonl(_patterns(paths), read), on_error)


class NpyDataset(FileDataset):
    """Samples in `.npy` arrays: the first axis is samples. `paths` is a dict of columns, each a path, a pattern or a list, whose
    arrays follow one another; or plain paths, for one column called `data`.

    >>> gt.data.NpyDataset({"x": "/nowhere.npy"})
    Traceback (most recent call last):
    FileNotFoundError: /nowhere.npy: no such file
    """

    def __init__(self, paths: _Paths | Mapping[str, _Paths], *, on_error: str = "raise") -> None:
        columns = paths if isinstance(paths, Mapping) else {"data": paths}
        named = [(name, _patterns(of)) for name, of in columns.items()]
        super().__init__(_core._DataSource.npy(named, _checked_on_error(on_error)), on_error)


class SafetensorsDataset(FileDataset):
    """Samples in safetensors files: each tensor is a column, its first axis is samples; files follow one another.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
    >>> gt.utils.safetensors.save_file({"x": gt.zeros(5, 3)}, path)
    >>> gt.data.SafetensorsDataset(path)
    SafetensorsDataset(5 samples in 1 blocks; x: float32[3])
    """

    def __init__(self, paths: _Paths, columns: Sequence[str] | None = None, *, on_error: str = "raise") -> None:
        read = _read_arguments(columns, on_error)
        super().__init__(_core._DataSource.safetensors(_patterns(paths), read), on_error)


class WebDataset(FileDataset):
    """Samples in tar files: members with the same name before the first dot are one sample, the endings are columns.

    `cls` and `id` are whole numbers, `txt` and `json` text, everything else bytes; `__key__` is the name.

    >>> gt.data.WebDataset("/nowhere.tar")
    Traceback (most recent call last):
    FileNotFoundError: /nowhere.tar: no such file
    """

    def __init__(self, paths: _Paths, columns: Sequence[str] | None = None, *, on_error: str = "raise") -> None:
        read = _read_arguments(columns, on_error)
        super().__init__(_core._DataSource.tar(_patterns(paths), read), on_error)


class CachedDataset(FileDataset):
    """What `gt data cache` or `DataLoader.cache` wrote: columns that need no decoding.

    >>> gt.data.CachedDataset("/nowhere")
    Traceback (most recent call last):
    FileNotFoundError: /nowhere/cache.json: no such file
    """

    def __init__(self, folder: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        (path,) = _patterns(folder)
        super().__init__(_core._DataSource.cached(path, None if columns is None else list(columns)))


_FORMATS: dict[str, type[FileDataset]] = {
    "parquet": ParquetDataset,
    "arrow": ArrowDataset,
    "jsonl": JsonlDataset,
    "npy": NpyDataset,
    "safetensors": SafetensorsDataset,
    "tar": WebDataset,
}


def open(paths: _Paths, **options: Any) -> FileDataset:
    """The data set at a path or URL, whichever it is: the files' endings decide. Options go to its class.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> gt.data.write_parquet(folder + "/x.parquet", {"x": [1, 2, 3]})
    >>> gt.data.open(folder)
    ParquetDataset(3 samples in 1 blocks; x: int64)
    >>> gt.data.open("/nowhere/*.parquet")
    Traceback (most recent call last):
    FileNotFoundError: no file matches /nowhere/*.parquet
    """
    patterns = _patterns(paths)
    found = _core._DataSource.format(patterns)
    if found == "cached":
        return CachedDataset(patterns[0], **options)
    return _FORMATS[found](paths, **options)
