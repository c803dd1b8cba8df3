"""A worker process of a loader: takes lists of indices, gives batches back through shared memory.

WORKER-PROCESS-1: the process never outlives its parent: a thread reads what the parent sends and ends the process soon after the
          line is closed, whatever the user's code is doing.
WORKER-PROCESS-2: tasks are read as they come, also while a batch is being sent, so neither side waits for the other to read.
WORKER-PROCESS-3: GT is not started here unless the user's code calls it; then it has one thread, no server and no log of the parent's.
WORKER-PROCESS-4: Ctrl-C is the parent's: it closes the line.
"""

from __future__ import annotations

import os
import pickle
import queue
import random
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from gt.data._fetch import EndOfStream, Fetcher, Times
from gt.data._keyed_order import key_of
from gt.data._shared_blocks import Block, BlockMaker, dump_batch

__all__ = ["Job", "WorkerFailure", "WorkerInfo", "get_worker_info", "run_worker"]

# How long the user's code may go on after the line is closed.
GRACE_S = 1.0
PARENT_CHECK_S = 2.0
# Variables of the parent's session that must not hold for one a worker may start.
NOT_INHERITED = ("GT_ADDRESS", "GT_TOKEN", "GT_INSTRUCTION_LOG")


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker process of a loader knows of itself.

    >>> gt.data.WorkerInfo(id=0, num_workers=2, seed=7, dataset=None).num_workers
    2
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a loader: its `id`, `num_workers`, `seed` and its copy of the `dataset`. Elsewhere None.

    >>> gt.data.get_worker_info() is None
    True
    """
    return _info


@dataclass
class Job:
    """What a worker works on."""

    dataset: Any
    iterable: bool
    batched: bool
    collate_fn: Callable[[Any], Any] | None
    drop_last: bool
    worker_init_fn: Callable[[int], None] | None


HINT_FORKED = (
    "This worker was forked: multiprocessing_context asked for it, a part of the loader cannot be pickled, or the script starts "
    'the loader outside of `if __name__ == "__main__":`. To call GT in it, define the dataset, collate_fn and worker_init_fn '
    "at the top level of a module, and start the loader under that guard."
)


class WorkerFailure:
    """An exception on its way from a worker, with its traceback as text."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.calls_gt_in_fork = isinstance(error, RuntimeError) and "before this process was forked" in str(error)
        if self.calls_gt_in_fork:
            error.add_note(HINT_FORKED)
        self.name = type(error).__name__
        self.text = f"Caught {self.name} {where}.\nOriginal " + "".join(traceback.format_exception(error))
        try:
            self.kind: bytes | None = pickle.dumps(type(error))
        except Exception:
            self.kind = None

    def reraise(self) -> None:
        """Raises the exception's class with the worker's traceback as message, as near to it as can be made."""
        try:
            kind = RuntimeError if self.kind is None else pickle.loads(self.kind)
            error = kind(_Verbatim(self.text) if kind is KeyError else self.text)
        except Exception:
            error = RuntimeError(self.text)
        raise error from None


class _Verbatim(str):
    """Text that a KeyError shows as it is."""

    def __repr__(self) -> str:
        return str(self)


class _Line:
    """The worker's end of its line to the parent."""

    def __init__(self, line: Connection) -> None:
        self._line = line
        self._socket = socket.socket(fileno=os.dup(line.fileno()))
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # Tasks with smaller numbers belong to an epoch that was broken off.
        self.valid_from = 0
        self._started_by = os.getppid()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while (message := self._next_message()) is not None:
                if message[0] == "epoch":
                    self.valid_from = message[1]
                self.tasks.put(message)
        except (EOFError, OSError):
            pass
        self.tasks.put(None)
        time.sleep(GRACE_S)
        os._exit(0)

    def _next_message(self) -> Any:
        # A forked sibling may hold the other end too, and then the line does not close when the parent dies.
        while not self._line.poll(PARENT_CHECK_S):
            if os.getppid() != self._started_by:
                return None
        return self._line.recv()

    def send(self, message: Any) -> None:
        """Sends one message; a parent that is gone ends the process."""
        try:
            self._line.send(message)
        except OSError:
            os._exit(0)

    def send_block(self, number: int, block: Block) -> None:
        """Lets the parent have a block."""
        self.send(("block", number))
        try:
            socket.send_fds(self._socket, [b"B"], [block.descriptor])
        except OSError:
            os._exit(0)


class _Blocks:
    """The blocks of a worker: those it may write to, and those the parent still reads."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._all: list[Block] = []
        self._free: list[int] = []

    def give_back(self, numbers: list[int]) -> None:
        self._free += numbers

    def take(self) -> int:
        """The number of a block to write to: the largest free one, or a new one."""
        if not self._free:
            self._all.append(Block.create())
            self._line.send_block(len(self._all) - 1, self._all[-1])
            return len(self._all) - 1
        best = max(self._free, key=lambda number: self._all[number].size)
        self._free.remove(best)
        return best

    def __getitem__(self, number: int) -> Block:
        return self._all[number]


def seed_everything(base_seed: int, worker: int) -> int:
    """Seeds `random`, NumPy's global generator, GT and, where it is loaded, torch; gives the worker's seed."""
    import numpy as np

    from gt import _core

    seed = base_seed + worker
    random.seed(seed)
    _core.manual_seed(seed)
    # Other bits than `random` has: both use the same generator.
    np.random.seed([key_of(base_seed, worker, part) & 0xFFFFFFFF for part in range(4)])
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)
    return seed


def _tell_torch(info: WorkerInfo) -> None:
    """Lets `torch.utils.data.get_worker_info` say the same: a dataset written for torch shares itself out by it."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if worker is not None:
        worker._worker_info = info  # type: ignore[attr-defined]


def run_worker(line: Connection, job: Job | bytes, base_seed: int, worker: int, workers: int) -> None:
    """What a worker process does from beginning to end."""
    global _info
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in NOT_INHERITED:
        os.environ.pop(name, None)
    os.environ.setdefault("GT_NUM_THREADS", "1")
    where = f"in DataLoader worker process {worker}"
    parent = _Line(line)
    blocks = _Blocks(parent)
    failure: WorkerFailure | None = None
    fetcher: Fetcher | None = None
    try:
        # Made here and not on the way in: the variables above come first, and a failure is told.
        made: Job = _unpickled(job) if isinstance(job, bytes) else job
        seed = seed_everything(base_seed, worker)
        _info = WorkerInfo(id=worker, num_workers=workers, seed=seed, dataset=made.dataset)
        _tell_torch(_info)
        if made.worker_init_fn is not None:
            made.worker_init_fn(worker)
    except Exception as error:
        failure = WorkerFailure(error, where)
    while (task := parent.tasks.get()) is not None:
        if task[0] == "epoch":
            fetcher = None
            continue
        _, number, index, freed = task
        blocks.give_back(freed)
        if number < parent.valid_from:
            continue
        if fetcher is None and failure is None:
            try:
                fetcher = Fetcher(
                    made.dataset,
                    iterable=made.iterable,
                    batched=made.batched,
                    collate_fn=made.collate_fn,
                    drop_last=made.drop_last,
                )
            except Exception as error:
                failure = WorkerFailure(error, where)
        if fetcher is None:
            parent.send(("failure", number, failure))
            continue
        _work(parent, blocks, fetcher, number, index, where)


def _unpickled(job: bytes) -> Job:
    try:
        made: Job = pickle.loads(job)
    except AttributeError as error:
        error.add_note(
            "What a loader sends to its worker processes must be defined in a module they can import, "
            "or use multiprocessing_context='fork' (then the workers may not call GT)."
        )
        raise
    return made


def _work(parent: _Line, blocks: _Blocks, fetcher: Fetcher, number: int, index: Any, where: str) -> None:
    """Makes one batch and sends it."""
    times = Times()
    at = blocks.take()
    maker = BlockMaker(blocks[at])
    try:
        batch = fetcher.fetch(index, maker, times)
        began = time.perf_counter()
        pickled = dump_batch(batch, maker)
        times.gather_s += time.perf_counter() - began
    except EndOfStream:
        blocks.give_back([at])
        parent.send(("end", number))
    except Exception as error:
        blocks.give_back([at])
        parent.send(("failure", number, WorkerFailure(error, where)))
    else:
        parent.send(("batch", number, pickled, at, blocks[at].size, times.as_tuple()))
