"""What a batch of files is made of: every column, as the loader's arguments and expressions say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gt
from gt.data._loader_arguments import whole_number
from gt.data._sources import FileDataset
from gt.data._transforms import ColumnExpression

__all__ = ["at_least_one", "outputs"]


def at_least_one(name: str, number: Any) -> int | None:
    """A whole number above zero; none where none was given."""
    number = whole_number(number)
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number > 0):
        return number
    raise ValueError(f"{name} should be a positive integer value, but got {name}={number}")


def _dtype(dtype: Any) -> str | None:
    """The name of a dtype of GT's, of NumPy's, or of its name."""
    if dtype is None or isinstance(dtype, gt.dtype):
        return None if dtype is None else dtype.name
    import numpy as np

    name = dtype.removeprefix("gt.").removeprefix("torch.") if isinstance(dtype, str) else np.dtype(dtype).name
    known = getattr(gt, name, None)
    if not isinstance(known, gt.dtype):
        raise ValueError(f"dtypes should be dtypes such as gt.float32, but got {dtype!r}")
    return known.name


def outputs(
    dataset: FileDataset, expressions: Sequence[ColumnExpression], options: dict[str, Any]
) -> list[dict[str, Any]]:
    """The entries of a batch: every column, with expressions in their place or beside them."""
    columns = {name: elem for name, elem, _, _ in dataset._source.fields()}
    made = {name: ColumnExpression(name) for name in columns}
    for e in expressions:
        if e.column not in made:
            raise ValueError(f"{e!r}: no such column; the columns are {', '.join(columns)}")
        # One after another: what an earlier one made, the next one goes on with.
        made[e.name] = made[e.column].then(e)
    chosen = list(made.values())
    names = [e.name for e in chosen]
    of = {what: _per_column(value, names, what) for what, value in options.items()}
    out = []
    for e in chosen:
        dtype = e.dtype if e.dtype is not None else of["dtypes"](e.name)
        if dtype is None and e.makes_fractions and not columns[e.column].startswith(("float", "bfloat")):
            dtype = gt.float32
        out.append(
            {
                "name": e.name,
                "column": e.column,
                "dtype": _dtype(dtype),
                "steps": list(e.steps),
                "max_len": at_least_one("max_len", of["max_len"](e.name)),
                "pad_value": float(of["pad_value"](e.name) or 0),
                "multiple": at_least_one("pad_to_multiple_of", of["pad_to_multiple_of"](e.name)) or 1,
            }
        )
    return out


def _per_column(value: Any, columns: Sequence[str], what: str) -> Callable[[str], Any]:
    """One value for all columns, or a dict of some."""
    if not isinstance(value, Mapping):
        return lambda _: value
    unknown = [name for name in value if name not in columns]
    if unknown:
        raise ValueError(f"{what} names {unknown[0]!r}, which is not a column; the columns are {', '.join(columns)}")
    return value.get
