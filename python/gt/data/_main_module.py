"""Whether worker processes can import the program's main module without running its loop again.

MAIN-1: a process that is not forked imports the main module before anything else. Whatever the module does outside of
        `if __name__ == "__main__":` is done again there, and a loop that starts workers would start workers of workers.
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
from multiprocessing import spawn
from types import FrameType

__all__ = ["MainRunsAgain", "refuse_rerun"]


class MainRunsAgain(RuntimeError):
    """Importing the main module would run the statement again that is running now."""


def refuse_rerun() -> None:
    """Raises MainRunsAgain if the main module runs a statement now that a process that imports the module would run too."""
    frame = _running_statement()
    if frame is None or not _is_imported_by_workers() or _is_guarded(frame):
        return
    raise MainRunsAgain(
        f"DataLoader workers import the script, so line {frame.f_lineno} of {frame.f_code.co_filename} "
        'would run there too: put the code that starts the loader under `if __name__ == "__main__":`'
    )


def _running_statement() -> FrameType | None:
    """The frame of the main module's top level, if that is still running."""
    main = sys.modules.get("__main__")
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and main is not None and frame.f_globals is main.__dict__:
            return frame
        frame = frame.f_back
    return None


def _is_imported_by_workers() -> bool:
    """Whether multiprocessing imports the main module: not a console, `python -c` or the `__main__` of a package."""
    how = spawn.get_preparation_data("worker")
    name = how.get("init_main_from_name", "")
    return "init_main_from_path" in how or (name != "" and name.rpartition(".")[2] != "__main__")


def _is_guarded(frame: FrameType) -> bool:
    """Whether the statement lies under a test of `__name__`. Without the source it is taken to."""
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return True
    return not source or any(_guards(node, frame.f_lineno) for node in ast.walk(tree))


def _guards(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.If) or not node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
        return False
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))
