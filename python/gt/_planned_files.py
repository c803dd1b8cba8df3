"""What a script does to its own files under `gt plan`, where what it has computed is zeros.

PLANNED-1: a file that exists keeps its content when the script opens it to write or to append. What the script writes goes to a
           temporary file. New files, and files opened to be changed in place ("r+"), are written: the script may need them.
PLANNED-2: a file that was not written is not moved over another one.
"""

from __future__ import annotations

import builtins
import io
import os
import tempfile
from typing import Any

from gt import _core

_open = io.open
_replace = os.replace
_rename = os.rename


def _open_for_plan(file: Any, mode: str = "r", *others: Any, **named: Any) -> Any:
    """As `open`."""
    keeps = isinstance(mode, str) and set(mode) & set("wa") and isinstance(file, (str, bytes, os.PathLike))
    if not keeps or not os.path.isfile(file) or len(others) >= 6 or named.get("opener"):
        return _open(file, mode, *others, **named)
    _core._may_write(os.fsdecode(file))
    return _open(file, mode, *others, **named | {"opener": _temporary})


def _temporary(_path: str, _flags: int) -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _moved(original: Any) -> Any:
    def move(src: Any, dst: Any, **named: Any) -> None:
        paths = [path for path in (src, dst) if isinstance(path, (str, bytes, os.PathLike))]
        if len(paths) == 2 and is_left_out(src):
            _core._may_write(os.fsdecode(dst))
        else:
            original(src, dst, **named)

    return move


def is_left_out(path: Any) -> bool:
    """Whether the file is one that was not written."""
    return os.path.abspath(os.fsdecode(path)) in {os.path.abspath(left_out) for left_out in _core._left_out()}


def install() -> None:
    """Has the script open and move files that way."""
    builtins.open = io.open = _open_for_plan
    os.replace, os.rename = _moved(_replace), _moved(_rename)
