"""The exceptions that GT adds to Python's own.

Wrong use raises what PyTorch users expect (`RuntimeError`, `TypeError`, `IndexError`, `ValueError`); the classes
here are for what can go wrong although the program is right.

>>> issubclass(gt.errors.WorkerLost, gt.errors.GTError)
True
"""

__all__ = ["DataError", "GTError", "OutOfMemoryError", "WorkerLost"]


class GTError(RuntimeError):
    """Something failed while recorded work was carried out.

    >>> issubclass(gt.errors.GTError, RuntimeError)
    True
    """


class OutOfMemoryError(GTError, MemoryError):
    """There is no memory under the limit for an operation's result or for a value that is read; the program may go on.

    >>> issubclass(gt.OutOfMemoryError, RuntimeError) and issubclass(gt.OutOfMemoryError, MemoryError)
    True
    >>> try:
    ...     gt.zeros(1).expand(2**44).numpy()
    ... except MemoryError:
    ...     print("too large to copy")
    too large to copy
    """


class WorkerLost(GTError):
    """A worker that held part of the work is gone.

    >>> issubclass(gt.WorkerLost, gt.errors.GTError)
    True
    """


class DataError(GTError, ValueError):
    """A file of a data set is corrupt, truncated, or not like the others; the message names it.

    >>> issubclass(gt.errors.DataError, ValueError)
    True
    """
