"""Datasets and collate functions for the tests of loaders; worker processes import them from here."""

import os
import random
import signal
import time
from collections import namedtuple
from dataclasses import dataclass

import numpy as np

import gt
from gt.data import Dataset, IterableDataset, get_worker_info

Pair = namedtuple("Pair", "x y")


class Numbers(Dataset):
    """Item i is an array full of i, and i."""

    def __init__(self, n, width=3):
        self.n, self.width = n, width

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return np.full(self.width, i, np.float32), int(i)


def spin(seconds):
    """Computes for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Spinning(Numbers):
    """Each item keeps a core busy for a while."""

    def __init__(self, n, seconds, width=3):
        super().__init__(n, width)
        self.seconds = seconds

    def __getitem__(self, i):
        spin(self.seconds)
        return super().__getitem__(i)


class Sleeping(Numbers):
    """Each item takes a while in which nothing is computed."""

    def __init__(self, n, seconds, width=3):
        super().__init__(n, width)
        self.seconds = seconds

    def __getitem__(self, i):
        time.sleep(self.seconds)
        return super().__getitem__(i)


class Growing(Dataset):
    """Item i is an array of i elements."""

    def __init__(self, sizes):
        self.sizes = sizes

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, i):
        return np.full(self.sizes[i], i, np.float32)


class Seeds(Dataset):
    """What the random streams of the process say."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        info = get_worker_info()
        return {
            "id": info.id,
            "seed": info.seed,
            "random": random.random(),
            "numpy": np.random.rand(),
            "n": info.num_workers,
        }


class Failing(Numbers):
    def __getitem__(self, i):
        if i == 5:
            raise KeyError("no such item")
        return super().__getitem__(i)


class OddError(Exception):
    def __init__(self, code, reason):
        super().__init__(code, reason)


class FailingOddly(Numbers):
    def __getitem__(self, i):
        raise OddError(7, "odd")


class Dying(Numbers):
    """The process of the worker that makes item 5 dies."""

    def __getitem__(self, i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


class Exiting(Numbers):
    def __getitem__(self, i):
        if i == 5:
            os._exit(3)
        return super().__getitem__(i)


class Hanging(Numbers):
    def __getitem__(self, i):
        if i == 5:
            time.sleep(60)
        return super().__getitem__(i)


class Stream(IterableDataset):
    """Counts up; workers share the numbers out."""

    def __init__(self, n, length=None):
        self.n, self.length = n, length

    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, self.n, step))

    def __len__(self):
        if self.length is None:
            raise TypeError("no length")
        return self.length


class BrokenStream(IterableDataset):
    def __iter__(self):
        raise ValueError("no stream today")


@dataclass
class Record:
    values: object
    name: str


def many_kinds(items):
    """A batch of everything that may be in one."""
    x = np.stack([x for x, _ in items])
    return {
        "array": x,
        "strided": np.arange(12).reshape(3, 4)[:, ::2],
        "empty": np.zeros((0, 3)),
        "scalar": np.float64(2.5),
        "strings": [f"item {i}" for _, i in items],
        "text": np.array(["a", "bc"]),
        "objects": np.array([None, "x"], dtype=object),
        "pair": Pair(x[0], [x[1], (x[0], "end")]),
        "record": Record(x, "r"),
        "number": 3,
        "none": None,
        "big": "z" * 300_000,
    }


def gt_tensors(items):
    """The worker computes with GT."""
    x = gt.tensor(np.stack([x for x, _ in items]))
    return {"x": x * 2, "brain": x.bfloat16(), "i": gt.tensor([i for _, i in items])}


def torch_tensors(items):
    import torch

    return {"x": torch.tensor(np.stack([x for x, _ in items])), "brain": torch.ones(2, dtype=torch.bfloat16)}


def pids(items):
    return os.getpid()


def spin_and_stack(items):
    """A Python collate that takes 2 ms of computing for each item."""
    spin(0.002 * len(items))
    return np.stack([x for x, _ in items])


def sleep_and_stack(items):
    """A collate that waits 2 ms for each item."""
    time.sleep(0.002 * len(items))
    return np.stack([x for x, _ in items])


def note_worker(worker):
    get_worker_info().dataset.width = 10 + worker


def failing_init(worker):
    raise OSError("no disk")
