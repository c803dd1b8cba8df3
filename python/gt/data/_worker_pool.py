"""The parent's side of worker processes: starting them, tasks to them, batches from them, their end.

WORKER-POOL-1: a worker that dies is an error at once, with its exit in words; so is one that cannot start.
WORKER-POOL-2: whatever interrupts the parent while it reads, the pool is stopped: a half-read line is never read again.
WORKER-POOL-3: a pool that nobody refers to any more, and every pool at exit, stops its workers. A forked child stops nobody.
WORKER-POOL-4: Ctrl-C is the parent's, also while the fork server starts: none of the others print a traceback of their own.
WORKER-POOL-5: a pool serves one epoch at a time; `taken_by` names it until it has ended or nobody refers to it any more.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import time
import weakref
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

from gt.data._main_module import MainRunsAgain, refuse_rerun
from gt.data._shared_blocks import Block
from gt.data._worker import GRACE_S, Job, run_worker

__all__ = ["NOT_SENT", "WorkerPool", "sent_to_workers"]

# What `sent_to_workers` raises.
NOT_SENT = (pickle.PicklingError, AttributeError, TypeError, MainRunsAgain)

PRELOADED = ("gt.data._worker", "numpy")
HINT_PICKLE = (
    "The dataset, collate_fn and worker_init_fn of a DataLoader with num_workers > 0 are sent to its processes: "
    "define them at the top level of a module, or pass multiprocessing_context='fork' "
    "(then the workers may not call GT)."
)
HINT_MAIN = (
    "If the script failed to load in the worker process, put the code that starts the loader under "
    '`if __name__ == "__main__":`.'
)


def default_context() -> BaseContext:
    """Forkserver where there is one: its processes are forked from one that has no threads and no GT session."""
    methods = multiprocessing.get_all_start_methods()
    if "forkserver" not in methods:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # Without effect if the server runs already. Not the main module: what it starts must not be started in the server.
    wanted = getattr(forkserver._forkserver, "_preload_modules", [])
    kept = [module for module in wanted if module not in ("__main__", *PRELOADED)]
    context.set_forkserver_preload([*kept, *PRELOADED])
    return context


def sent_to_workers(job: Job, context: BaseContext | None, *, may_fork: bool) -> tuple[BaseContext, Job | bytes]:
    """How workers are started, and what they are given.

    Forked workers have by birth what cannot be pickled, and import no main module. So workers are forked where one of
    these is in the way, no other start method was asked for, and the system's own libraries bear it: elsewhere than on
    Linux a forked child may crash before it has called anything of GT's.
    """
    if context is not None and context.get_start_method() == "fork":
        return context, job
    try:
        refuse_rerun()
        return context or default_context(), _pickled(job)
    except NOT_SENT:
        if context is not None or not may_fork or sys.platform != "linux":
            raise
        return multiprocessing.get_context("fork"), job


def _start_fork_server() -> None:
    """Starts multiprocessing's server, unless it runs, with Ctrl-C blocked: it would end in the middle of its imports."""
    # It comes first, as it unblocks Ctrl-C when it starts.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Worker:
    """One process, the line to it and its blocks as the parent sees them."""

    def __init__(self, context: BaseContext, job: Job | bytes, base_seed: int, number: int, workers: int) -> None:
        # A socket pair, over which descriptors can travel too.
        self.line, theirs = multiprocessing.Pipe(duplex=True)
        self.blocks: dict[int, Block] = {}
        self.freed: list[int] = []
        self.heard = False
        # Their end is closed here at once, so that the line closes when the worker dies.
        try:
            self.process = context.Process(  # type: ignore[attr-defined]
                target=run_worker, args=(theirs, job, base_seed, number, workers), daemon=True
            )
            self.process.start()
        except BaseException:
            self.line.close()
            raise
        finally:
            theirs.close()
        self._socket = socket.socket(fileno=os.dup(self.line.fileno()))

    def receive(self) -> Any:
        """The next message. Blocks that come before it are taken in."""
        message = self.line.recv()
        self.heard = True
        if message[0] != "block":
            return message
        _, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        if not descriptors:
            raise EOFError
        os.set_inheritable(descriptors[0], False)
        self.blocks[message[1]] = Block(descriptors[0], 0)
        return None

    def block(self, number: int, size: int) -> Block:
        """A block as large as the worker says it is."""
        block = self.blocks[number]
        if block.size < size:
            block.map(size)
        return block

    def close(self) -> None:
        """Closes the line and everything that came over it."""
        self.line.close()
        self._socket.close()
        for block in self.blocks.values():
            block.close()
        self.blocks.clear()

    def ending(self) -> str:
        """How the process ended, in words."""
        self.process.join(timeout=5)
        code = self.process.exitcode
        if code is None:
            return "it closed its connection"
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = "unknown"
            more = "; the system does this when it runs out of memory" if -code == signal.SIGKILL else ""
            return f"killed by signal {-code} ({name}){more}"
        return f"exit code {code}" + ("" if self.heard else f". {HINT_MAIN}")


class WorkerPool:
    """The worker processes of a loader."""

    def __init__(self, context: BaseContext, job: Job | bytes, base_seed: int, workers: int) -> None:
        self.workers: list[Worker] = []
        self._stop = weakref.finalize(self, _stop, self.workers, os.getpid())
        try:
            if context.get_start_method() == "forkserver":
                _start_fork_server()
            for number in range(workers):
                self.workers.append(Worker(context, job, base_seed, number, workers))
        except BaseException:
            self.stop()
            raise
        self.next_task = 0
        self.taken_by: weakref.ref[Any] | None = None

    def stop(self) -> None:
        """Ends the workers; what they are making is lost."""
        self._stop()

    @property
    def alive(self) -> bool:
        """Whether the pool can still be used."""
        return bool(self._stop.alive)

    @property
    def busy(self) -> bool:
        """Whether an epoch that may still be asked for batches has these workers."""
        return self.taken_by is not None and self.taken_by() is not None

    def begin_epoch(self, epoch: Any) -> None:
        """Makes the workers forget what they were given and begin their dataset anew, for this epoch alone."""
        self.taken_by = weakref.ref(epoch)
        for worker in self.workers:
            self._send(worker, ("epoch", self.next_task))

    def submit(self, number: int, index: Any) -> int:
        """Gives a worker indices to make a batch of; the batch bears the task's number."""
        worker = self.workers[number]
        task, self.next_task = self.next_task, self.next_task + 1
        freed, worker.freed = worker.freed, []
        self._send(worker, ("task", task, index, freed))
        return task

    def _send(self, worker: Worker, message: Any) -> None:
        try:
            worker.line.send(message)
        except (BrokenPipeError, ConnectionResetError):
            # Told when it is read from: what it sent before its death comes first.
            pass
        except BaseException:
            self.stop()
            raise

    def messages(self, timeout: float | None) -> Iterator[tuple[int, Any]]:
        """What has come by the time anything has: (worker, message) pairs; no pair if that was only a block.

        Raises TimeoutError if nothing at all came in time.
        """
        try:
            yield from self._messages(timeout)
        except GeneratorExit:
            raise
        except BaseException:
            self.stop()
            raise

    def _messages(self, timeout: float | None) -> Iterator[tuple[int, Any]]:
        by_handle: dict[Any, int] = {}
        for number, worker in enumerate(self.workers):
            by_handle[worker.line] = by_handle[worker.process.sentinel] = number
        ready = wait(list(by_handle), timeout)
        if not ready:
            raise TimeoutError
        for number in sorted({by_handle[handle] for handle in ready}):
            worker = self.workers[number]
            try:
                if not worker.line.poll():
                    raise EOFError
                while worker.line.poll():
                    message = worker.receive()
                    if message is not None:
                        yield number, message
            except (EOFError, ConnectionResetError, BrokenPipeError):
                pid = worker.process.pid
                raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly: {worker.ending()}") from None


def _pickled(job: Job) -> bytes:
    try:
        made = bytes(ForkingPickler.dumps(job))
        if b"__main__" in made and not hasattr(sys.modules["__main__"], "__file__"):
            # A console, a notebook, python -c: the workers have no module to import it from.
            raise pickle.PicklingError("a part of the loader is defined in a main module that is not a file")
        return made
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise type(error)(f"{error}. {HINT_PICKLE}") from error


def _stop(workers: list[Worker], owner: int) -> None:
    if os.getpid() != owner:
        return
    lines: list[Connection] = [worker.line for worker in workers]
    for line in lines:
        try:
            line.send(None)
        except (OSError, ValueError):
            pass
    for worker in workers:
        worker.close()
    limit = time.monotonic() + GRACE_S + 1.0
    for worker in workers:
        worker.process.join(timeout=max(0.0, limit - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join(timeout=5)
        if not worker.process.is_alive():
            worker.process.close()
