"""The end of a program: a failure that nobody was told of ends a script as an exception would.

A failing op raises where its result is read. A script that reads nothing more would end as if all were well, so the last
failure is printed, and the exit code is 1. The same holds for a failure that is raised in an atexit handler, and for the
processes of `multiprocessing`.

EXIT-1: the exit code is settled before anything is printed, so that it does not depend on where output goes.
"""

from __future__ import annotations

import atexit
import builtins
import linecache
import os
import sys
import traceback
from typing import Any

from gt import _core

# A plugin of pytest that is loaded by a test run, and not by a script that imports pytest.
LOADED_BY_TEST_RUNS = "_pytest.setupplan"


# What a stream raises that is gone: no space or no reader, closed, None.
_UNUSABLE = (OSError, ValueError, AttributeError)

_show_unraisable: Any = None
_watches_processes = False
# The file of the program: its module forgets the name before what was registered for the end runs.
_main_file = ""


def install() -> None:
    """Has the session end with the interpreter, and with a process of `multiprocessing`."""
    global _main_file, _show_unraisable
    _main_file = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    atexit.register(_at_exit)
    _show_unraisable, sys.unraisablehook = sys.unraisablehook, _unraisable
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_watch_process)
    _watch_process()


def _at_exit() -> None:
    failures = _failures() if _is_script() else []
    if failures:
        _core._fail_at_exit()
    _core._shutdown()
    for failure, site in failures:
        _report(failure, site)


def _failures() -> list[tuple[BaseException, str | None]]:
    """Waits for what is queued. The failures that nobody was told of, each with the line that recorded the op."""
    try:
        return _core._finish()
    except KeyboardInterrupt as interrupt:
        return [(interrupt, None)]


def _unraisable(unraisable: Any) -> None:
    """Python ignores what an atexit handler raises. A failure that was raised there was raised nowhere else."""
    of_handler = (unraisable.err_msg or "").startswith("Exception ignored in atexit callback")
    if of_handler and hasattr(unraisable.exc_value, "_gt_site") and _is_script():
        _core._fail_at_exit()
        _print("".join(traceback.format_exception(unraisable.exc_value)))
    else:
        _show_unraisable(unraisable)


def _watch_process() -> None:
    """Processes of `multiprocessing` that are forked skip atexit handlers, but not the finalizers of `multiprocessing`.

    Each process removes those of its parent before it runs what was registered for after the fork.
    """
    global _watches_processes
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    if not _watches_processes:
        _watches_processes = True
        util.register_after_fork(_watch_process, _finalize_process)
    # GT may also be imported by what the process runs.
    _finalize_process()


def _finalize_process(_: Any = None) -> None:
    # The last to run: other finalizers may use GT.
    sys.modules["multiprocessing.util"].Finalize(None, _at_process_end, exitpriority=-1_000_000)


def _at_process_end() -> None:
    is_child = sys.modules["multiprocessing.process"].parent_process() is not None
    ending = sys.exc_info()[1]
    with_exception = ending is not None and not isinstance(ending, SystemExit)
    if not is_child or with_exception or not _is_script():
        return
    failures = _failures()
    for failure, site in failures:
        _report(failure, site)
    if failures and not (isinstance(ending, SystemExit) and ending.code):
        # `multiprocessing` makes it the exit code, and prints any other exception without a change to the code.
        raise SystemExit(1)


def _is_script() -> bool:
    """Whether nobody but the exit code tells how the program went.

    Not so in an interactive session, in a test run and in a Ray actor; a script that ends with an exception has said enough.
    """
    told = hasattr(sys, "last_value") or hasattr(sys, "last_exc")
    interactive = hasattr(sys, "ps1") or sys.flags.interactive or hasattr(builtins, "__IPYTHON__")
    of_ray = _main_file.endswith("default_worker.py")
    return not (told or interactive or of_ray or LOADED_BY_TEST_RUNS in sys.modules)


def _report(failure: BaseException, site: str | None) -> None:
    """Prints the failure as the interpreter prints an exception, at the line that recorded the op."""
    if isinstance(failure, KeyboardInterrupt):
        _print("gt: interrupted while queued operations were still running; they are dropped\n")
        return
    lines = ["Traceback (most recent call last):"]
    file, _, line = (site or "").rpartition(":")
    if file and line.isdigit():
        lines.append(f'  File "{file}", line {line}')
        if source := linecache.getline(file, int(line)).strip():
            lines.append(f"    {source}")
    kind = type(failure)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    lines.append(f"{name}: {failure}")
    if site:
        lines.append("gt: this op failed, and the program ended without reading its result")
    _print("\n".join(lines) + "\n")


def _print(text: str) -> None:
    """Prints to stderr after what was printed to stdout. Either may be closed, full or missing by now."""
    try:
        sys.stdout.flush()
    except _UNUSABLE:
        pass
    for stream in (sys.stderr, sys.__stderr__):
        try:
            stream.write(text)  # type: ignore[union-attr]
            stream.flush()  # type: ignore[union-attr]
            return
        except _UNUSABLE:
            continue
