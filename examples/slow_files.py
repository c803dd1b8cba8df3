"""Events in many Parquet files, shuffled: from a file decoded for every sample to GT's loader in five steps, each measured.

The files hold flat hits, and a table says which rows are whose, as detectors write them. The first form is a map-style
dataset behind a cache of one file, in random order; docs/tutorials/files.md tells the story. Run this with
`python examples/slow_files.py --help`.
"""

import argparse
import tempfile
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np

import gt
from gt.data import BlockShuffleSampler, DataLoader, Dataset, ParquetDataset, RowRanges

COLUMNS = ["time", "charge", "sensor_id", "auxiliary"]
BATCH = 256
ROUNDS = 3


def write_files(folder, files, events):
    """Hits of `events` events in each file, and the table."""
    table = {name: [] for name in ("file", "first", "last", "label")}
    for number in range(files):
        rng = np.random.default_rng(number)
        lengths = np.clip(rng.lognormal(3.0, 0.8, events).round(), 4, 2000).astype(np.int64)
        ends = np.cumsum(lengths)
        rows = int(ends[-1])
        hits = {
            "time": np.sort(rng.integers(5_000, 40_000, rows)),
            "charge": rng.lognormal(0.0, 0.6, rows).round(3),
            "sensor_id": rng.integers(0, 5160, rows).astype(np.int16),
            "auxiliary": rng.random(rows) < 0.3,
        }
        gt.data.write_parquet(str(folder / f"hits_{number}.parquet"), hits, rows_per_group=rows)
        table["file"].append(np.full(events, number))
        table["first"].append(ends - lengths)
        table["last"].append(ends - 1)
        table["label"].append(rng.normal(size=events).astype(np.float32))
    gt.data.write_parquet(str(folder / "table.parquet"), {name: np.concatenate(v) for name, v in table.items()})


def read_file(path):
    """All rows of a file, as arrays."""
    dataset = ParquetDataset(str(path), columns=COLUMNS, index_cache=False)
    (whole,) = DataLoader(dataset, batch_size=len(dataset))
    return {name: whole[name].numpy() for name in COLUMNS}


class Events(Dataset):
    """An event an item, behind a cache of the files that were used last."""

    def __init__(self, folder, kept_files=1):
        columns = ["file", "first", "last"]
        table = ParquetDataset(str(folder / "table.parquet"), columns=columns, index_cache=False)
        (whole,) = DataLoader(table, batch_size=len(table))
        self.file, self.first, self.last = (whole[name].numpy() for name in columns)
        self.folder, self.kept_files, self.files, self.decoded = folder, kept_files, OrderedDict(), 0

    def __len__(self):
        return len(self.file)

    def __getitem__(self, i):
        number = int(self.file[i])
        if number not in self.files:
            self.decoded += 1
            self.files[number] = read_file(self.folder / f"hits_{number}.parquet")
            if len(self.files) > self.kept_files:
                self.files.popitem(last=False)
        self.files.move_to_end(number)
        rows = slice(self.first[i], self.last[i] + 1)
        return {name: values[rows] for name, values in self.files[number].items()}


def collate(items):
    """Arrays made once, filled row by row: what `collate="padded"` does without Python."""
    lengths = np.array([len(item["time"]) for item in items])
    batch = {"lengths": gt.from_numpy(lengths)}
    for name in COLUMNS:
        padded = np.zeros((len(items), int(lengths.max())), np.float32)
        for row, item in enumerate(items):
            padded[row, : lengths[row]] = item[name]
        batch[name] = gt.from_numpy(padded)
    return batch


class FilesInRandomOrder:
    """Files one after another in random order, and the events of each in random order."""

    def __init__(self, dataset):
        self.file = dataset.file

    def __len__(self):
        return len(self.file)

    def __iter__(self):
        rng = np.random.default_rng(0)
        for number in rng.permutation(self.file.max() + 1):
            yield from rng.permutation(np.flatnonzero(self.file == number)).tolist()


def design_effect(files, correlation=0.01):
    """How much the mean of a batch varies over what it would with a full shuffle, for a label of whose variance 1 % is between
    files; `shuffle_report` counts the same."""
    batches = files[: len(files) // BATCH * BATCH].reshape(-1, BATCH)
    squares = [(np.unique(batch, return_counts=True)[1] ** 2).sum() / BATCH for batch in batches]
    return 1 - correlation + correlation * float(np.mean(squares))


def python_forms(folder, files, pool):
    """Name, loader, design effect, of the forms that make samples in Python."""
    events = Events(folder)
    every = np.random.default_rng(0).permutation(len(events))
    yield "as it was", DataLoader(events, BATCH, shuffle=True, collate_fn=collate), design_effect(events.file[every])
    unshuffled = DataLoader(events, BATCH, collate_fn=collate)
    yield "not shuffled at all", unshuffled, design_effect(events.file)
    sampler = FilesInRandomOrder(events)
    order = events.file[list(sampler)]
    yield "1. file by file", DataLoader(events, BATCH, sampler=sampler, collate_fn=collate), design_effect(order)
    pooled = Events(folder, kept_files=2 * pool)
    lengths = np.bincount(events.file, minlength=files).tolist()
    sampler = BlockShuffleSampler(lengths=lengths, pool=pool, seed=0)
    order = events.file[list(sampler)]
    yield "2. a pool of files", DataLoader(pooled, BATCH, sampler=sampler, collate_fn=collate), design_effect(order)


def event_files(folder):
    """The same events as a data set that GT reads itself."""
    return ParquetDataset(
        str(folder / "hits_*.parquet"),
        columns=COLUMNS,
        events=RowRanges(
            str(folder / "table.parquet"),
            first="first",
            last="last",
            file="file",
            file_pattern=str(folder / "hits_{}.parquet"),
            columns=["label"],
        ),
    )


def file_forms(folder, events, pool):
    """The forms in which GT reads the files."""
    how = {"batch_size": BATCH, "shuffle": True, "generator": 0, "dtypes": gt.float32}

    def effect(dataset, **more):
        batches = DataLoader(dataset, sample_ids=True, **how, **more)
        return design_effect(np.concatenate([batch["sample_id"].numpy() for batch in batches]) // events)

    files = event_files(folder)
    mixed = effect(files, shuffle_pool=pool)
    yield "3. GT reads the files", DataLoader(files, shuffle_pool=pool, **how), mixed
    yield "4. two threads", DataLoader(files, shuffle_pool=pool, num_workers=2, **how), mixed
    cached = DataLoader(files, BATCH, dtypes=gt.float32).cache(folder / "cached")
    whole = {"shuffle_pool": "full"}
    yield "5. decoded once", DataLoader(cached, num_workers=2, **how, **whole), effect(cached, **whole)


def measure(loader, seconds):
    """Seconds a batch, of the quickest of some epochs, from their beginning: a pool is filled before the first batch."""
    best = float("inf")
    for _ in range(ROUNDS):
        began, count = time.perf_counter(), 0
        for _ in loader:
            count += 1
            if count % 16 == 0:
                gt.synchronize()
            if time.perf_counter() - began > seconds:
                break
        gt.synchronize()
        best = min(best, (time.perf_counter() - began) / count)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=66, help="how many files; a tenth of the report's")
    parser.add_argument("--events", type=int, default=1364, help="events in each")
    parser.add_argument("--pool", type=int, default=32, help="files that are mixed at a time")
    parser.add_argument("--seconds", type=float, default=3.0, help="how much of an epoch to measure")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, args.files, args.events)
        print("| form | ms a batch | events/s | times | design effect |\n|---|---|---|---|---|")
        first = None
        for forms in (python_forms(folder, args.files, args.pool), file_forms(folder, args.events, args.pool)):
            for name, loader, effect in forms:
                seconds = measure(loader, args.seconds)
                first = first or seconds
                rate = f"{BATCH / seconds:.0f} | {first / seconds:.0f}"
                print(f"| {name} | {seconds * 1e3:.2f} | {rate} | {effect:.2f} |", flush=True)


if __name__ == "__main__":
    main()
