"""`gt.save` and `gt.load`: nested values with tensors in them, as one safetensors file.

The tensors lie in the file under names made of their places (`model.layers.0.weight`), where every reader of the format
finds them; how they are nested, and the plain values beside them, is JSON in the file's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gt._core import Tensor
from gt._saved_structure import Reader, Writer
from gt.utils.safetensors import load_file, open_source, safe_open, save_file, write

__all__ = ["load", "load_file", "safe_open", "save", "save_file"]

_STRUCTURE = "gt.structure"


def save(obj: Any, f: Any) -> None:
    """Saves tensors, numbers, str, bytes, None, and lists, tuples, sets and dicts of them. Waits for the tensors.

    `f` is a path, which is replaced when everything is written, or an object that has `write`.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> gt.serialization.save({"step": 3, "weights": [gt.ones(2), gt.zeros(1)]}, path)
    >>> gt.serialization.load(path)
    {'step': 3, 'weights': [tensor([1., 1.]), tensor([0.])]}
    """
    writer = Writer()
    structure = writer.text(obj)
    write(f, writer.tensors, {"format": "gt", _STRUCTURE: structure})


def load(f: Any, map_location: Any = None, *, weights_only: bool = True, mmap: bool | None = None) -> Any:
    """Loads what `save` has written; of any other safetensors file, a dict of its tensors.

    `map_location` names the device the tensors are asked to be on: a device, a dict of devices, or a function, as in
    PyTorch. `weights_only` and `mmap` are accepted: no code is ever loaded, and tensors are read one at a time.

    >>> import io
    >>> file = io.BytesIO()
    >>> gt.serialization.save((1, None, gt.tensor([2.5])), file)
    >>> gt.serialization.load(io.BytesIO(file.getvalue()))
    (1, None, tensor([2.5000]))
    """
    source = open_source(f)
    placed = _placement(map_location)

    def tensor(name: str) -> Tensor:
        return placed(source.tensor(name))

    structure = source.metadata().get(_STRUCTURE)
    if structure is None:
        return {name: tensor(name) for name in source.names()}
    try:
        return Reader(tensor).value(structure)
    except ValueError as error:
        raise ValueError(f"{f if isinstance(f, str) else 'the file'}: {error}") from None


def _placement(map_location: Any) -> Callable[[Tensor], Tensor]:
    """How a loaded tensor gets to its device."""
    if map_location is None or callable(map_location):
        # A function maps storages of PyTorch; GT places tensors by itself.
        return lambda tensor: tensor
    if isinstance(map_location, Mapping):
        # Tensors are stored without a device, which is the CPU in PyTorch's terms.
        target = map_location.get("cpu")
        return (lambda tensor: tensor) if target is None else (lambda tensor: tensor.to(target))
    return lambda tensor: tensor.to(map_location)
