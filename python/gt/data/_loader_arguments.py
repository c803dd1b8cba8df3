"""The arguments of `DataLoader`: what torch refuses is refused here, in its words."""

from __future__ import annotations

import operator
import os
import warnings
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import Any

__all__ = ["available_cores", "check_order", "check_workers", "context_of", "warn_of_many_workers", "whole_number"]


def available_cores() -> int:
    """The cores that this process may use.

    >>> from gt.data._loader_arguments import available_cores
    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def whole_number(value: Any) -> Any:
    """An int for whatever stands for one, such as NumPy's; all else as it is, to be refused where it is used.

    >>> import numpy as np
    >>> from gt.data._loader_arguments import whole_number
    >>> whole_number(np.int64(3)), whole_number("auto"), whole_number(2.0)
    (3, 'auto', 2.0)
    """
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return value
    return operator.index(value)


def check_workers(num_workers: Any, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    """Refuses arguments about workers that contradict each other."""
    auto = num_workers == "auto"
    if not auto and (not isinstance(num_workers, int) or isinstance(num_workers, bool)):
        raise TypeError(f"num_workers should be a number or 'auto', but got num_workers={num_workers!r}")
    if not auto and num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def check_order(
    iterable: bool, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """Refuses arguments about order and batches that contradict each other."""
    if iterable:
        for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None and value is not False:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def context_of(context: Any, num_workers: int | str) -> BaseContext | None:
    """The way to start processes that was asked for, if any was."""
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(context, str):
        if context not in get_all_start_methods():
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {get_all_start_methods()!r}, "
                f"but got multiprocessing_context={context!r}"
            )
        context = get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start "
            f"method, but got multiprocessing_context={context}"
        )
    return context


def warn_of_many_workers(num_workers: int | str) -> None:
    """Warns of more workers than cores."""
    cores = available_cores()
    if isinstance(num_workers, int) and num_workers > cores:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker "
            f"in current system is {cores}, which is smaller than what this DataLoader is going to create. Please be "
            "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker "
            "number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )
