"""The exceptions that GT adds to Python's own.

Wrong use raises what PyTorch users expect (`RuntimeError`, `TypeError`, `IndexError`, `ValueError`); the classes
here are for what can go wrong although the program is right.

>>> issubclass(gt.errors.WorkerLost, gt.errors.GTError)
True
"""

__all__ = ["GTError", "OutOfMemoryError", "WorkerLost"]


class GTError(RuntimeError):
    """Something failed while recorded work was carried out.

    >>> issubclass(gt.errors.GTError, RuntimeError)
    True
    """


class OutOfMemoryError(GTError):
    """An allocation did not fit under the memory limit; the program may go on.

    >>> issubclass(gt.OutOfMemoryError, RuntimeError)
    True
    """


class WorkerLost(GTError):
    """A worker that held part of the work is gone.

    >>> issubclass(gt.WorkerLost, gt.errors.GTError)
    True
    """
