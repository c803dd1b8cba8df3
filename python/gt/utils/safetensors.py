"""Safetensors files: named tensors in the format that Hugging Face and others read and write.

FILE-1: reading checks the whole header first and then takes tensors one by one, each by one copy, so a file larger than
        half of the memory loads; writing holds one tensor at a time.
FILE-2: a file is written under another name and renamed when it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._output_files import atomic_file, may_write

Path = str | os.PathLike[str]

_CONVERT = (
    "GT reads safetensors and does not run pickled code. Where torch is installed, convert it once: "
    '`safetensors.torch.save_file(torch.load(path, weights_only=True), "model.safetensors")`'
)
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive, as torch.save writes .pt files"),
    (b"\x80", "a pickle, as older versions of torch.save wrote .pt files"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy file"),
)


def refuse_foreign(start: bytes, name: str) -> None:
    """Says what to do about a file that is in another well-known format, judged by its first bytes."""
    for magic, what in _FOREIGN:
        # A safetensors header begins with a brace after its length, so no length looks like a pickle by chance.
        if start.startswith(magic) and start[8:9] != b"{":
            raise ValueError(f"{name} is {what}, not a safetensors file. {_CONVERT}")


def open_source(source: Any) -> Any:
    """The extension's reader over a path, bytes, or an object that has `read`."""
    if hasattr(source, "read"):
        source = source.read()
    if isinstance(source, (bytes, bytearray, memoryview)):
        content = bytes(source)
        refuse_foreign(content[:9], "the given data")
        return _core._SafetensorsFile.from_bytes(content)
    path = os.fspath(source)
    if unwritten := _unwritten.get(os.path.realpath(path)):
        return unwritten
    with open(path, "rb") as file:
        refuse_foreign(file.read(9), str(path))
    return _core._SafetensorsFile(path)


class safe_open:
    """A safetensors file whose tensors are read when they are asked for.

    >>> import os, tempfile
    >>> from gt.utils.safetensors import safe_open, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "two.safetensors")
    >>> save_file({"a": gt.ones(2), "b": gt.zeros(3, 4)}, path)
    >>> with safe_open(path) as file:
    ...     file.keys(), file.shape("b"), file.get_tensor("a")
    (['a', 'b'], gt.Size([3, 4]), tensor([1., 1.]))
    """

    def __init__(self, filename: Any, framework: str | None = None, device: Any = None) -> None:
        self._file = open_source(filename)
        self._device = device

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: object) -> None:
        self._file = None

    def keys(self) -> list[str]:
        """The names, in the order of the tensors in the file."""
        return self._file.names()  # type: ignore[no-any-return]

    def metadata(self) -> dict[str, str]:
        """The texts that the file has beside tensors."""
        return self._file.metadata()  # type: ignore[no-any-return]

    def shape(self, name: str) -> Any:
        """A tensor's shape, from the header."""
        from gt._size import Size

        return Size(self._file.describe(name)[1])

    def get_tensor(self, name: str) -> Tensor:
        """Reads one tensor."""
        tensor: Tensor = self._file.tensor(name)
        return tensor if self._device is None else tensor.to(self._device)

    def __contains__(self, name: object) -> bool:
        return name in self._file.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._file.names())


def load_file(filename: Any, device: Any = None) -> dict[str, Tensor]:
    """All tensors of a file by their names.

    >>> import os, tempfile
    >>> from gt.utils.safetensors import load_file, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "one.safetensors")
    >>> save_file({"a": gt.arange(3)}, path)
    >>> load_file(path)
    {'a': tensor([0, 1, 2])}
    """
    with safe_open(filename, device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def load(data: bytes) -> dict[str, Tensor]:
    """All tensors of a file's content.

    >>> from gt.utils.safetensors import load, save
    >>> load(save({"a": gt.arange(3)}))
    {'a': tensor([0, 1, 2])}
    """
    return load_file(bytes(data))


def _checked(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> tuple[list[Any], dict[str, str]]:
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"names of tensors must be str, not {type(name).__name__} ({name!r})")
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name!r} must be a tensor, not {type(tensor).__name__}; use gt.save for other values")
        if name == "__metadata__":
            raise ValueError("a tensor cannot be named '__metadata__': the file format reserves that name")
    texts = dict(metadata or {})
    for key, text in texts.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"metadata must map str to str, but {key!r} maps to {text!r}")
    # The widest first, so that each tensor lies at a multiple of its element's size.
    return sorted(tensors.items(), key=lambda item: -item[1].element_size()), texts


def content(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> Iterator[Any]:
    """A file's content, piece by piece."""
    ordered, texts = _checked(tensors, metadata)
    yield _core._safetensors_header(ordered, texts)
    for _, tensor in ordered:
        yield _core._tensor_bytes(tensor)


class _Unwritten:
    """What a script has saved under `gt plan`, for when it loads it again: names and shapes, and zeros for values."""

    def __init__(self, ordered: list[Any], texts: dict[str, str]) -> None:
        self._described = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in ordered}
        self._texts = texts

    def names(self) -> list[str]:
        return list(self._described)

    def metadata(self) -> dict[str, str]:
        return dict(self._texts)

    def describe(self, name: str) -> Any:
        return self._described[name]

    def tensor(self, name: str) -> Tensor:
        dtype, shape = self._described[name]
        return _core.zeros(shape, dtype=dtype)


_unwritten: dict[str, _Unwritten] = {}


def write(target: Any, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> None:
    """Writes tensors to an object that has `write`, or as the file of a path (FILE-2). Under `gt plan` nothing is read or written."""
    if may_write(target):
        _write_pieces(target, content(tensors, metadata))
        return
    unwritten = _Unwritten(*_checked(tensors, metadata))
    path = getattr(target, "name", None) if hasattr(target, "write") else target
    if isinstance(path, (str, bytes, os.PathLike)):
        _unwritten[os.path.realpath(os.fsdecode(path))] = unwritten


def _write_pieces(target: Any, pieces: Iterable[Any]) -> None:
    if hasattr(target, "write"):
        for piece in pieces:
            target.write(piece)
        return
    with atomic_file(target) as file:
        for piece in pieces:
            left = memoryview(piece)
            # One write takes at most two gigabytes.
            while left:
                left = left[file.write(left) :]


def save_file(tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Writes tensors under their names. Waits for them.

    >>> import os, tempfile
    >>> from gt.utils.safetensors import safe_open, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "one.safetensors")
    >>> save_file({"a": gt.arange(3)}, path, metadata={"format": "pt"})
    >>> safe_open(path).metadata()
    {'format': 'pt'}
    """
    write(filename, tensors, metadata)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The content of a file.

    >>> from gt.utils.safetensors import save
    >>> len(save({"a": gt.arange(3)}))
    88
    """
    return b"".join(bytes(piece) for piece in content(tensors, metadata))
