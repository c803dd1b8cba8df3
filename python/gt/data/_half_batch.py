"""How many samples a batch has, and its first half, from which it is told what of a step does not depend on the batch's size.

HALF-1: a half is a batch that the loader could have given. What cannot be cut without doubt is not cut at all.
"""

from __future__ import annotations

from typing import Any

__all__ = ["halved", "samples_of"]

# What a loader calls the ends of the samples in a packed batch; a column's own begin with its name.
ENDS = "cu_seqlens"


def is_array(value: Any) -> bool:
    """Whether it is an array or a tensor."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def sizes_of(batch: Any) -> list[int]:
    """The lengths of the first dimensions of all arrays and tensors in a batch."""
    if is_array(batch):
        return [int(batch.shape[0])] if len(batch.shape) else []
    if isinstance(batch, dict):
        return [size for value in batch.values() for size in sizes_of(value)]
    if isinstance(batch, (list, tuple)):
        return [size for value in batch for size in sizes_of(value)]
    return []


def ends_of(batch: Any) -> dict[str, Any]:
    """The ends of samples in a packed batch, by the name of the column that they belong to; "" for all columns."""
    if not isinstance(batch, dict):
        return {}
    named = [name for name in batch if isinstance(name, str) and name.endswith(ENDS) and is_array(batch[name])]
    return {name.removesuffix(ENDS).removesuffix("_"): batch[name] for name in named}


def samples_of(batch: Any, batch_size: Any = None) -> int:
    """How many samples a batch has, of a loader that says it makes batches of `batch_size`; 0 if it has none that count.

    >>> from gt.data._half_batch import samples_of
    >>> samples_of({"x": gt.ones(7), "cu_seqlens": gt.tensor([0, 3, 7])}), samples_of([gt.ones(4, 2), gt.ones(4)])
    (2, 4)
    """
    for ends in ends_of(batch).values():
        return len(ends) - 1
    sizes = sizes_of(batch)
    if isinstance(batch_size, int) and batch_size > 0 and len(set(sizes)) != 1:
        return batch_size
    return max(sizes, key=sizes.count, default=0)


def halved(batch: Any, size: int) -> Any:
    """The first half of a batch of `size` samples: of everything in it that has one entry a sample.

    >>> from gt.data._half_batch import halved
    >>> halved({"x": gt.arange(4), "names": list("abcd"), "n": 4}, 4)
    {'x': tensor([0, 1]), 'names': ['a', 'b'], 'n': 4}
    >>> halved({"x": gt.arange(7), "cu_seqlens": gt.tensor([0, 3, 7])}, 2)
    {'x': tensor([0, 1, 2]), 'cu_seqlens': tensor([0, 3])}
    """
    ends = ends_of(batch)
    if ends:
        return _halved_packed(batch, size, ends)
    if size not in sizes_of(batch) and not (isinstance(batch, (list, tuple)) and len(batch) == size):
        raise ValueError(f"no entry of the batch has {size} elements, one per sample")
    return _cut(batch, size)


def _cut(batch: Any, size: int) -> Any:
    if is_array(batch):
        return batch[: size // 2] if len(batch.shape) and batch.shape[0] == size else batch
    if isinstance(batch, dict):
        return type(batch)({name: _cut(value, size) for name, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_cut(value, size) for value in batch))
    if isinstance(batch, (list, tuple)):
        if len(batch) == size and size not in sizes_of(batch):
            return batch[: size // 2]
        return type(batch)(_cut(value, size) for value in batch)
    return batch


def _halved_packed(batch: dict[str, Any], size: int, ends: dict[str, Any]) -> dict[str, Any]:
    half: dict[str, Any] = {}
    for name, value in batch.items():
        if not is_array(value) or not len(value.shape):
            half[name] = _cut(value, size)
            continue
        if name.endswith(ENDS):
            half[name] = value[: size // 2 + 1]
            continue
        own = ends.get(name, ends.get(""))
        items = -1 if own is None else int(own[-1].item())
        kept = size // 2 if own is None else int(own[size // 2].item())
        if items == size == value.shape[0] and kept != size // 2 and name not in ends:
            raise ValueError(
                f"cannot tell whether {name} has one element per sample or per item, because the counts are equal"
            )
        half[name] = value[:kept] if value.shape[0] == items else _cut(value, size)
    return half
