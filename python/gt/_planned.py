"""What a script's errors say under `gt plan`, where every value that the script reads is zero."""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType

from gt import _core, _planned_files, debug

_ZEROS = (
    "gt plan computes nothing: every value that the script read ({count}) was zero. "
    "This may have caused the error; the script itself may be correct."
)
_NO_FILES = "gt plan writes no files, so a file that the script saved with GT does not exist."

_AT_END = "gt plan: all {count} values that the script read were zeros"

_shown_by = sys.excepthook
_has_said_zeros = False


def _values_read() -> int:
    try:
        return sum(worker["round_trips"] for worker in debug.get_worker_stats().values())
    except Exception:
        # The session has ended, and its counts with it.
        return 0


def _is_left_out(error: FileNotFoundError) -> bool:
    """Whether the file is one that GT did not write, or lies in a folder that it did not make."""
    left_out = [os.path.abspath(path) for path in _core._left_out()]
    if not isinstance(error.filename, (str, bytes)):
        return any(os.path.basename(path) in str(error) for path in left_out)
    missing = os.path.abspath(os.fsdecode(error.filename))
    return any(f"{path}/".startswith(f"{missing}/") or missing.startswith(f"{path}/") for path in left_out)


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Shows an error that ends the script, with what `gt plan` has to do with it."""
    global _has_said_zeros
    if isinstance(error, Exception):
        if isinstance(error, FileNotFoundError):
            if _is_left_out(error):
                error.add_note(_NO_FILES)
        elif count := _values_read():
            _has_said_zeros = True
            error.add_note(_ZEROS.format(count=count))
    _shown_by(kind, error, traceback)


def _at_end() -> None:
    """Says what the script read, whichever way it ends."""
    if not _has_said_zeros and (count := _values_read()):
        print(_AT_END.format(count=count), file=sys.stderr, flush=True)


def install() -> None:
    """Has errors that end the script shown that way, and keeps its files."""
    _planned_files.install()
    sys.excepthook = _show
    atexit.register(_at_end)
