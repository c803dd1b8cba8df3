"""The `gt` command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from gt import _core

# What starts another worker: this interpreter, whatever environment it belongs to.
_WORKER = [sys.executable, "-m", "gt.worker"]


def run(*arguments: str) -> int:
    """Runs `gt` with these arguments and gives its exit code.

    >>> from gt._command import run
    >>> run("status", "--port", "1") != 0
    True
    """
    return _core.cli(["gt", *arguments], _WORKER)


def main(arguments: Sequence[str] | None = None) -> None:
    """What the installed command calls."""
    # Python would note Ctrl-C beside the command, and raise it when a server that has ended in good order returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run(*(sys.argv[1:] if arguments is None else arguments)))
