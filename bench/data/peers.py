"""What others do with the same files: PyTorch's loader over a map-style dataset, and a hand-written iterable over pyarrow.

Each gives batches as `collate` makes them: four padded float32 columns with a mask and lengths, which is what GT gives.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

COLUMNS = ("time", "charge", "sensor_id", "auxiliary")


def read_file(path: Path) -> list[np.ndarray]:
    table = pq.read_table(path, columns=list(COLUMNS), use_threads=False)
    return [table[name].to_numpy(zero_copy_only=False) for name in COLUMNS]


class Meta:
    """The event table as arrays."""

    def __init__(self, folder: Path) -> None:
        table = pq.read_table(folder / "train_meta.parquet")
        self.folder = folder
        self.file = table["batch_id"].to_numpy()
        self.first = table["first"].to_numpy()
        self.last = table["last"].to_numpy()

    def path(self, number: int) -> Path:
        return self.folder / "train" / f"batch_{number}.parquet"


class EventDataset:
    """As the field report has it: an event an item, behind a cache of the file it is in."""

    def __init__(self, folder: Path) -> None:
        self.meta = Meta(folder)
        self._file = lru_cache(maxsize=1)(lambda number: read_file(self.meta.path(number)))

    def __len__(self) -> int:
        return len(self.meta.first)

    def __getitem__(self, i: int) -> list[np.ndarray]:
        columns = self._file(int(self.meta.file[i]))
        return [c[self.meta.first[i] : self.meta.last[i] + 1] for c in columns]

    def __getstate__(self) -> dict:
        return {"meta": self.meta}

    def __setstate__(self, state: dict) -> None:
        self.meta = state["meta"]
        self._file = lru_cache(maxsize=1)(lambda number: read_file(self.meta.path(number)))


def collate(items: list[list[np.ndarray]]) -> dict:
    """The fast form of a collate function: arrays made once, filled row by row."""
    import torch

    lengths = np.array([len(item[0]) for item in items])
    longest = int(lengths.max())
    out = {}
    for column, name in enumerate(COLUMNS):
        padded = np.zeros((len(items), longest), np.float32)
        for row, item in enumerate(items):
            padded[row, : lengths[row]] = item[column]
        out[name] = torch.from_numpy(padded)
    out["lengths"] = torch.from_numpy(lengths)
    out["mask"] = torch.arange(longest)[None, :] < out["lengths"][:, None]
    return out


def collate_sequences(items: list[list[np.ndarray]]) -> dict:
    """The form most programs have: a tensor for each sample and column, padded by PyTorch."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    lengths = torch.tensor([len(item[0]) for item in items])
    out = {
        name: pad_sequence([torch.from_numpy(item[column].astype(np.float32)) for item in items], batch_first=True)
        for column, name in enumerate(COLUMNS)
    }
    return {**out, "lengths": lengths, "mask": torch.arange(int(lengths.max()))[None, :] < lengths[:, None]}


class FileAwareSampler:
    """Files in random order, and the events of each in random order."""

    def __init__(self, dataset: EventDataset, seed: int = 0) -> None:
        self.starts = np.flatnonzero(np.diff(dataset.meta.file, prepend=-1))
        self.ends = np.append(self.starts[1:], len(dataset))
        self.seed = seed

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng(self.seed)
        for file in rng.permutation(len(self.starts)):
            yield from rng.permutation(np.arange(self.starts[file], self.ends[file])).tolist()


def arrow_batches(folder: Path, batch_size: int, pool: int = 64, threads: int = 2) -> Iterator[dict]:
    """A strong hand-written loader: files read ahead by threads, a pool of them mixed, batches gathered with NumPy alone."""
    import torch

    meta = Meta(folder)
    starts = np.flatnonzero(np.diff(meta.file, prepend=-1))
    ends = np.append(starts[1:], len(meta.file))
    order = list(range(len(starts)))
    random.Random(0).shuffle(order)
    rng = np.random.default_rng(0)
    with ThreadPoolExecutor(threads) as executor:
        windows = [order[i : i + pool] for i in range(0, len(order), pool)]
        ahead = [executor.submit(read_file, meta.path(int(meta.file[starts[f]]))) for f in windows[0]]
        for number, window in enumerate(windows):
            files = [a.result() for a in ahead]
            if number + 1 < len(windows):
                ahead = [executor.submit(read_file, meta.path(int(meta.file[starts[f]]))) for f in windows[number + 1]]
            columns = [np.concatenate([f[c] for f in files]).astype(np.float32) for c in range(len(COLUMNS))]
            base = np.cumsum([0] + [len(f[0]) for f in files[:-1]])
            first = np.concatenate([meta.first[starts[f] : ends[f]] + b for f, b in zip(window, base)])
            length = np.concatenate(
                [meta.last[starts[f] : ends[f]] - meta.first[starts[f] : ends[f]] + 1 for f in window]
            )
            mixed = rng.permutation(len(first))
            for at in range(0, len(mixed) - batch_size + 1, batch_size):
                rows = mixed[at : at + batch_size]
                lengths = length[rows]
                mask = np.arange(lengths.max())[None, :] < lengths[:, None]
                index = np.where(mask, first[rows][:, None] + np.arange(lengths.max())[None, :], 0)
                out = {name: torch.from_numpy(np.where(mask, c[index], 0)) for name, c in zip(COLUMNS, columns)}
                yield {**out, "lengths": torch.from_numpy(lengths), "mask": torch.from_numpy(mask)}
