"""Streams and events, for code that times or orders GPU work. GT orders work itself: a stream changes nothing.

STREAM-1: an event that measures time waits for the work recorded before it, as only then the time is known.
"""

from __future__ import annotations

import time
from typing import Any

from gt import _core


class Stream:
    """One of PyTorch's queues of GPU work; in GT there is one order, that of the script.

    >>> with gt.cuda.stream(gt.cuda.Stream()):
    ...     gt.ones(1)
    tensor([1.])
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device = device
        self.priority = priority

    def synchronize(self) -> None:
        """Waits until all recorded work is done."""
        _core.synchronize()

    def query(self) -> bool:
        """Whether all work is done: after waiting for it, yes."""
        _core.synchronize()
        return True

    def wait_event(self, event: Event) -> None:
        """Nothing to do: work keeps the order of the script."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to do: work keeps the order of the script."""

    def record_event(self, event: Event | None = None) -> Event:
        """Marks this point of the work."""
        event = Event(enable_timing=False) if event is None else event
        event.record()
        return event


class Event:
    """A point in the work, and the time at which it was reached.

    >>> start, end = gt.cuda.Event(enable_timing=True), gt.cuda.Event(enable_timing=True)
    >>> start.record(); end.record()
    >>> start.elapsed_time(end) >= 0.0
    True
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._seconds: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Marks this point; an event with timing waits until the work before it is done."""
        if self.enable_timing:
            _core.synchronize()
        self._seconds = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another."""
        if not self.enable_timing or not end_event.enable_timing:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._seconds is None or end_event._seconds is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._seconds - self._seconds) * 1e3

    def query(self) -> bool:
        """Whether the work before the event is done: after waiting for it, yes."""
        _core.synchronize()
        return True

    def synchronize(self) -> None:
        """Waits until the work before the event is done."""
        _core.synchronize()

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to do: work keeps the order of the script."""


class stream:
    """A block whose work PyTorch would put on a stream.

    >>> with gt.cuda.stream(None):
    ...     pass
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> stream:
        return self

    def __exit__(self, *error: object) -> None:
        return None
