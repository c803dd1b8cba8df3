"""Arrays into Parquet files, for small data sets, tests and examples."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gt import _core
from gt._output_files import may_write

__all__ = ["write_parquet"]


def _column(name: str, values: Any) -> tuple[dict[str, Any], int]:
    import numpy as np

    if isinstance(values, (list, tuple)) and values and isinstance(values[0], str):
        encoded = [v.encode() for v in values]
        offsets = np.cumsum([0] + [len(e) for e in encoded]).tolist()
        text = {
            "name": name,
            "elem": "uint8",
            "item": [],
            "values": b"".join(encoded),
            "offsets": offsets,
            "text": True,
        }
        return text, len(values)
    if isinstance(values, (list, tuple)) and values and np.ndim(values[0]) > 0:
        parts = [np.ascontiguousarray(v) for v in values]
        whole = np.concatenate(parts)
        offsets = np.cumsum([0] + [len(p) for p in parts]).tolist()
        item, samples = whole.shape[1:], len(parts)
    else:
        whole, offsets = np.ascontiguousarray(values), None
        item, samples = whole.shape[1:], len(whole)
    column = {"name": name, "elem": whole.dtype.name, "item": list(item), "values": whole.tobytes(), "offsets": offsets}
    return {**column, "text": False}, samples


def write_parquet(path: str | os.PathLike[str], columns: Mapping[str, Any], *, rows_per_group: int = 65536) -> None:
    """Writes a Parquet file: an array is a column of a number, or of an array of a fixed shape, for each sample; a list of arrays
    is a column of lists; a list of strings is text. The file appears when it is complete.

    >>> import os, tempfile
    >>> import numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "x.parquet")
    >>> gt.data.write_parquet(path, {"y": np.arange(2), "x": [np.ones(3, np.float32), np.zeros(1, np.float32)]})
    >>> gt.data.ParquetDataset(path)
    ParquetDataset(2 samples in 1 blocks; y: int64, x: list of float32)
    """
    made: list[dict[str, Any]] = []
    lengths: dict[str, int] = {}
    for name, values in columns.items():
        column, lengths[name] = _column(name, values)
        made.append(column)
    if not made:
        raise ValueError("a file needs at least one column")
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns should have the same number of samples, but have {lengths}")
    if may_write(path):
        _core._write_parquet(os.fspath(path), made, lengths[made[0]["name"]], rows_per_group)
