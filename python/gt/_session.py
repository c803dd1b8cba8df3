"""The group of workers behind the session."""

from __future__ import annotations

from gt import _core


def gpu_workers(n: int) -> None:
    """Asks for `n` workers. One, embedded in this process, is what there is so far; more is refused.

    >>> gt.gpu_workers(1)
    """
    if n < 1:
        raise ValueError(f"gpu_workers needs at least one worker, got {n}")
    if n > 1:
        raise NotImplementedError(f"gpu_workers({n}): more than one worker in a session is not supported yet; use 1")


def disconnect() -> None:
    """Leaves the server. An embedded session has none: its recorded work is done when this returns.

    >>> gt.disconnect()
    """
    _core.synchronize()
