"""Samples become a batch. The rules are `torch.utils.data.default_collate`'s.

COLLATE-1: arrays are stacked by NumPy and become one tensor with one copy; no tensor is made per sample.
COLLATE-2: where the result is to be made is asked of a `Maker`. In a worker process it makes arrays in shared memory and
           no GT is needed there; everywhere else it makes tensors.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any

from gt import _core

if TYPE_CHECKING:
    import numpy as np

__all__ = ["default_collate", "default_convert"]

_NO_NUMBERS = re.compile(r"[SaUO]")
_WRONG_TYPE = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


class Maker:
    """Makes the leaves of a batch: here, GT tensors."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any] | None:
        """Room to stack arrays into, if there is a better place than a new array."""
        return None

    def tensor(self, array: Any) -> Any:
        """The leaf for an array."""
        return _core.from_numpy(array)

    def stack(self, tensors: list[Any]) -> Any:
        """The leaf for tensors of one shape."""
        return _core.stack(tensors)


def is_torch_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch's, which is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_of_torch(tensor: Any) -> np.ndarray[Any, Any]:
    """A torch tensor's elements as an array, without a copy where that can be; bfloat16 as float32."""
    tensor = tensor.detach().cpu()
    found: np.ndarray[Any, Any] = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    return found


def default_collate(batch: Any) -> Any:
    """A list of samples as one batch: arrays, tensors and numbers are stacked, containers gone into, text left alone.

    >>> gt.data.default_collate([{"x": [1.0, 2.0], "name": "a"}, {"x": [3.0, 4.0], "name": "b"}])
    {'x': [tensor([1., 3.], dtype=gt.float64), tensor([2., 4.], dtype=gt.float64)], 'name': ['a', 'b']}
    """
    return collate(batch, Maker())


def default_convert(data: Any) -> Any:
    """Arrays become tensors, containers are gone into, all else stays as it is.

    >>> import numpy as np
    >>> gt.data.default_convert({"x": np.array([1, 2]), "name": "a"})
    {'x': tensor([1, 2]), 'name': 'a'}
    """
    return convert(data, Maker())


def collate(batch: Any, make: Maker) -> Any:
    """`default_collate` with leaves of `make`."""
    import numpy as np

    first = batch[0]
    if isinstance(first, _core.Tensor):
        return make.stack(list(batch))
    if is_torch_tensor(first):
        return _stacked([array_of_torch(t) for t in batch], make)
    if isinstance(first, np.ndarray):
        if _NO_NUMBERS.search(first.dtype.str):
            raise TypeError(_WRONG_TYPE.format(first.dtype))
        return _stacked(batch, make)
    if isinstance(first, (np.bool_, np.number)):
        return make.tensor(np.asarray(batch))
    if isinstance(first, float):
        return make.tensor(np.asarray(batch, dtype=np.float64))
    if isinstance(first, int):
        return make.tensor(_whole_numbers(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _mapping_like(first, {key: collate([item[key] for item in batch], make) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collate(column, make) for column in zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, make) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else _sequence_like(first, columns)
    raise TypeError(_WRONG_TYPE.format(type(first)))


def convert(data: Any, make: Maker) -> Any:
    """`default_convert` with leaves of `make`."""
    import numpy as np

    if isinstance(data, _core.Tensor):
        return data
    if is_torch_tensor(data):
        return make.tensor(array_of_torch(data))
    if isinstance(data, (np.ndarray, np.bool_, np.number)):
        return data if _NO_NUMBERS.search(data.dtype.str) else make.tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: convert(data[key], make) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(convert(value, make) for value in data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        parts = [convert(value, make) for value in data]
        return parts if isinstance(data, tuple) else _sequence_like(data, parts)
    return data


def _stacked(arrays: Sequence[Any], make: Maker) -> Any:
    import numpy as np

    first = arrays[0]
    for array in arrays:
        if array.shape != first.shape:
            at = next(i for i, other in enumerate(arrays) if other.shape != first.shape)
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 "
                f"and {list(arrays[at].shape)} at entry {at}"
            )
    dtype = first.dtype if all(array.dtype == first.dtype for array in arrays) else np.result_type(*arrays)
    room = make.empty((len(arrays), *first.shape), dtype)
    return make.tensor(np.stack(arrays, out=room) if room is not None else np.stack(arrays))


def _whole_numbers(batch: Sequence[Any]) -> Any:
    import numpy as np

    # As a tensor made of the list would be: a float among the numbers makes them floats.
    if all(isinstance(value, bool) for value in batch):
        return np.asarray(batch, dtype=np.bool_)
    if any(isinstance(value, float) for value in batch):
        return np.asarray(batch, dtype=np.float32)
    return np.asarray(batch, dtype=np.int64)


def _like(original: Any, fill: Callable[[Any], Any], make: Callable[[], Any], plain: Any) -> Any:
    """A container of the original's class, with what else that class may carry; a plain one where that cannot be."""
    try:
        if isinstance(original, (MutableMapping, MutableSequence)):
            clone = copy.copy(original)
            fill(clone)
            return clone
        return make()
    except TypeError:
        return plain


def _mapping_like(original: Any, parts: dict[Any, Any]) -> Any:
    if type(original) is dict:
        return parts
    return _like(original, lambda clone: clone.update(parts), lambda: type(original)(parts), parts)


def _sequence_like(original: Any, parts: list[Any]) -> Any:
    if type(original) is list:
        return parts

    def fill(clone: Any) -> None:
        for i, part in enumerate(parts):
            clone[i] = part

    return _like(original, fill, lambda: type(original)(parts), parts)
