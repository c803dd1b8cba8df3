"""What the state of a loader over a Python dataset must agree with, so that nothing is lost or repeated in silence.

LOADER-STATE-1: batches that are the next samples of a sampler are counted in samples: a loader with another `batch_size` goes on
         with the right one. Batches of a `batch_sampler` and of a stream are counted in batches.
LOADER-STATE-2: a state in the middle of an epoch belongs to a dataset and a sampler of certain lengths, or to a batch sampler of a
         certain size, and, of a stream, to a batch size and a number of workers; others are refused. Between epochs there is
         nothing to lose.
LOADER-STATE-3: what a state does not tell, because an older GT wrote it, is not compared.
LOADER-STATE-4: a sampler without a state of its own is known by the first indices it gives. If they are others than before the stop,
         a warning says that the epoch is another one.
"""

from __future__ import annotations

import itertools
import warnings
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["known_length", "marked", "refuse_another", "sampler_state", "warn_of_another_order"]

# So many indices, or lists of them, tell one order from another.
MARKED = 8

_WORDS = {
    "counted_in": "the state counts {0} but this loader counts {1}, because only one uses a batch_sampler or a stream",
    "dataset_length": "its dataset has {0} samples, but this one has {1}",
    "sampler_length": "its sampler has {0} indices, but this one has {1}",
    "batch_sampler_size": "its batch_sampler makes batches of {0}, but this one makes batches of {1}",
    "stream_batch_size": "the stream is counted in batches of {0}, but this loader makes batches of {1}",
    "stream_workers": "its stream was divided among {0} workers, but this loader has {1}: set num_workers={0}",
}


def known_length(sized: Any) -> int | None:
    """A length, where there is one.

    >>> from gt.data._loader_state import known_length
    >>> known_length([1, 2]), known_length(iter([1, 2]))
    (2, None)
    """
    try:
        return len(sized)
    except Exception:
        # The user's code, which need not have been made to be asked.
        return None


def sampler_state(sampler: Any) -> Any:
    """A sampler's own state, if it keeps one."""
    ask = getattr(sampler, "state_dict", None)
    return ask() if callable(ask) else None


def refuse_another(state: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    """Raises if a state in the middle of an epoch is that of another loader.

    >>> from gt.data._loader_state import refuse_another
    >>> refuse_another({"dataset_length": 40}, {"dataset_length": 10})
    Traceback (most recent call last):
    ValueError: the state is from the middle of an epoch of another loader: its dataset has 40 samples, but this one has 10
    """
    for name, words in _WORDS.items():
        was = state.get(name)
        if was is not None and was != mine.get(name, was):
            told = words.format(was, mine[name])
            raise ValueError(f"the state is from the middle of an epoch of another loader: {told}")


def marked(indices: Iterator[Any]) -> tuple[Iterator[Any], int]:
    """The same indices, and a number that stands for the first of them."""
    first = list(itertools.islice(indices, MARKED))
    return itertools.chain(first, indices), zlib.crc32(repr(first).encode())


def warn_of_another_order(sampler: Any) -> None:
    """Warns of an epoch that cannot be gone on with."""
    warnings.warn(
        f"{type(sampler).__name__} has no state_dict and starts this epoch with different indices than before: some samples will be "
        "repeated and others skipped. Give it state_dict and load_state_dict, or use the same seed",
        stacklevel=4,
    )
