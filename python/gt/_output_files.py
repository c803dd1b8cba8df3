"""Every file that the package writes goes through this module.

OUTPUT-FILES-1: under `gt plan` nothing is written, made or removed: values are zeros there. Each path is reported once on stderr.
OUTPUT-FILES-2: a file is the old one or the new one at any time, whenever the program or the machine stops. The new one has the
          permissions of the old one. What is no regular file (a pipe, a device) is written to, never replaced.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from gt import _core

_made = 0


def may_write(target: Any) -> bool:
    """Whether GT may write to a path or an open file; under `gt plan` it may not, and says so once per path.

    A buffer in memory may always be written to.

    >>> from gt._output_files import may_write
    >>> may_write("model.safetensors")
    True
    """
    if not _core._is_planned():
        return True
    if hasattr(target, "write"):
        try:
            target.fileno()
        except (AttributeError, OSError, ValueError):
            return True
        target = getattr(target, "name", "a file that the script opened")
    return _core._may_write(target if isinstance(target, (str, os.PathLike)) else str(target))


def _temporary_name(path: str) -> str:
    """A name beside the file, so that the rename stays on one file system; hidden, and of this process alone."""
    global _made
    _made += 1
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:200]}.{os.getpid()}-{_made}.tmp")


class _Discarded(io.RawIOBase):
    """Takes what is written to it and keeps nothing."""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        return memoryview(content).nbytes


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a file for writing that takes its name, and the place of an older one, when the block has ended well.

    >>> import os, tempfile
    >>> from gt._output_files import atomic_file
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> with atomic_file(path) as file:
    ...     _ = file.write(b"123")
    ...     os.path.exists(path)
    False
    >>> open(path).read()
    '123'
    """
    if not may_write(path):
        yield _Discarded()  # type: ignore[misc]
        return
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        with open(path, "wb", buffering=0) as file:
            yield file
        return
    # The file that a link points to is replaced, not the link.
    final = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(final)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {os.fspath(path)}: the folder {folder} does not exist")
    if os.path.isdir(final):
        raise IsADirectoryError(f"cannot write {os.fspath(path)}: it is a folder")
    temporary = _temporary_name(final)
    # A name that is taken was left behind by a process of the same number that died.
    permissions = None if mode is None else stat.S_IMODE(mode)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if permissions is None else permissions & 0o666)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            if permissions is not None:
                # A file system without permissions has nothing to keep.
                with suppress(OSError):
                    os.fchmod(descriptor, permissions)
            yield file
            os.fsync(file.fileno())
        os.replace(temporary, final)
    except BaseException:
        os.unlink(temporary)
        raise
    _flush_folder(folder)


def _mode(path: str | os.PathLike[str]) -> int | None:
    try:
        return os.stat(path).st_mode
    except OSError:
        return None


def _flush_folder(folder: str) -> None:
    """Makes the rename itself last. Some file systems cannot, and have done so already."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def new_file(path: str) -> BinaryIO:
    """Opens a file that is written bit by bit, in place of an older one."""
    return open(path, "wb") if may_write(path) else _Discarded()  # type: ignore[return-value]


def make_folder(path: str | os.PathLike[str]) -> None:
    """Makes a folder and those above it, where they are not there yet."""
    if not _core._is_planned():
        os.makedirs(path, exist_ok=True)


def remove_file(path: str | os.PathLike[str]) -> None:
    """Removes a file if it is there."""
    if _core._is_planned():
        return
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
