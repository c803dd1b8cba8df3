"""Small data sets for tests: every number in them follows from the sample's number."""

import numpy as np

import gt


def length(i):
    return (i * 7919) % 13


def hits(i):
    return (np.arange(length(i)) + 100 * i).astype(np.float32)


def write_lists(folder, rows, group=7):
    """Files of these many samples: `id`, a number, and `hits`, a list."""
    folder.mkdir(exist_ok=True)
    at = 0
    for number, n in enumerate(rows):
        ids = np.arange(at, at + n)
        columns = {"id": ids, "hits": [hits(i) for i in ids] or [np.zeros(0, np.float32)][:0]}
        if n:
            gt.data.write_parquet(folder / f"part_{number}.parquet", columns, rows_per_group=group)
        at += n
    return folder / "*.parquet"


def write_ranges(folder, lengths, group=5):
    """Flat files with a table of events: `v` holds 1000 * file + row."""
    first, last, file = [], [], []
    for number, of_file in enumerate(lengths, start=1):
        rows = sum(of_file)
        values = 1000 * number + np.arange(rows)
        columns = {"v": values, "odd": values % 2 == 1}
        gt.data.write_parquet(folder / f"batch_{number}.parquet", columns, rows_per_group=group)
        ends = np.cumsum(of_file)
        first += (ends - of_file).tolist()
        last += (ends - 1).tolist()
        file += [number] * len(of_file)
    table = {"first": np.array(first), "last": np.array(last), "batch_id": np.array(file)}
    gt.data.write_parquet(folder / "meta.parquet", {**table, "az": np.arange(len(first), dtype=np.float32) / 2})
    return gt.data.ParquetDataset(
        str(folder / "batch_*.parquet"),
        events=gt.data.RowRanges(
            folder / "meta.parquet",
            first="first",
            last="last",
            file="batch_id",
            file_pattern=str(folder / "batch_{}.parquet"),
            columns=["az"],
        ),
    )


def ids_of(loader):
    return [batch["sample_id"].tolist() for batch in loader]
