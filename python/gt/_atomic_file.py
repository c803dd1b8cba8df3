"""Files that are the old one or the new one at any time, whenever the program or the machine stops."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

_made = 0


def _temporary_name(path: str) -> str:
    """A name beside the file, so that the rename stays on one file system; hidden, and of this process alone."""
    global _made
    _made += 1
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:200]}.{os.getpid()}-{_made}.tmp")


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a file for writing that takes its name, and the place of an older one, when the block has ended well.

    >>> import os, tempfile
    >>> from gt._atomic_file import atomic_file
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> with atomic_file(path) as file:
    ...     _ = file.write(b"123")
    ...     os.path.exists(path)
    False
    >>> open(path).read()
    '123'
    """
    # The file that a link points to is replaced, not the link.
    final = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(final)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {os.fspath(path)}: the folder {folder} does not exist")
    if os.path.isdir(final):
        raise IsADirectoryError(f"cannot write {os.fspath(path)}: it is a folder")
    temporary = _temporary_name(final)
    # A name that is taken was left behind by a process of the same number that died.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            yield file
            os.fsync(file.fileno())
        os.replace(temporary, final)
    except BaseException:
        os.unlink(temporary)
        raise
    _flush_folder(folder)


def _flush_folder(folder: str) -> None:
    """Makes the rename itself last. Some file systems cannot, and have done so already."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
