"""Writes the data that `bench/data_loading.py` reads: events of many hits, as a detector's Parquet files have them.

Each file holds the hits of its events, one after another, in four columns; a table says which rows are whose, with two angles and a
label for each event. The same again as lists, a row an event. Everything follows from the seed.

    python bench/data/generate.py DIR [--files 660] [--events 1364] [--seed 0] [--median 20] [--sigma 0.8]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# How much of the label's variance is between files: what makes a bad shuffle visible.
LABEL_CORRELATION = 0.01


def hits(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    return {
        "time": np.sort(rng.integers(5_000, 40_000, rows, dtype=np.int64)),
        "charge": np.round(rng.lognormal(0.0, 0.6, rows), 3),
        "sensor_id": rng.integers(0, 5160, rows, dtype=np.int16),
        "auxiliary": rng.random(rows) < 0.3,
    }


def write(folder: Path, files: int, events: int, seed: int, median: float, sigma: float) -> None:
    (folder / "train").mkdir(parents=True, exist_ok=True)
    (folder / "lists").mkdir(exist_ok=True)
    tables = []
    for number in range(1, files + 1):
        rng = np.random.default_rng([seed, number])
        lengths = np.clip(np.round(rng.lognormal(np.log(median), sigma, events)), 4, 2000).astype(np.int64)
        ends = np.cumsum(lengths)
        columns = hits(rng, int(ends[-1]))
        pq.write_table(pa.table(columns), folder / "train" / f"batch_{number}.parquet", compression="snappy")
        offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
        lists = {name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in columns.items()}
        pq.write_table(pa.table(lists), folder / "lists" / f"batch_{number}.parquet", compression="snappy")
        label = np.sqrt(LABEL_CORRELATION) * rng.normal() + np.sqrt(1 - LABEL_CORRELATION) * rng.normal(size=events)
        angles = rng.random((2, events), dtype=np.float32) * np.float32(np.pi)
        meta = {"batch_id": np.full(events, number), "first": ends - lengths, "last": ends - 1}
        tables.append(pa.table({**meta, "az": angles[0] * 2, "ze": angles[1], "label": label.astype(np.float32)}))
    pq.write_table(pa.concat_tables(tables), folder / "train_meta.parquet", compression="snappy")
    said = {"files": files, "events": events, "seed": seed, "median": median, "sigma": sigma}
    (folder / "generated.json").write_text(json.dumps(said))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=660)
    parser.add_argument("--events", type=int, default=1364)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--median", type=float, default=20.0)
    parser.add_argument("--sigma", type=float, default=0.8)
    args = parser.parse_args()
    write(args.folder, args.files, args.events, args.seed, args.median, args.sigma)


if __name__ == "__main__":
    main()
