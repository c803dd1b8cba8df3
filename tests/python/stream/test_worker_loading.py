"""With a server, batches of files are made on the worker: the same ones, and their bytes never pass through the client."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster, eventually

import gt

pytestmark = pytest.mark.timeout(120)

SAMPLES = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of events of different lengths."""
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(0)
    for number in range(3):
        lengths = rng.integers(0, 40, SAMPLES // 3)
        columns = {
            "id": np.arange(SAMPLES // 3) + number * (SAMPLES // 3),
            "angle": rng.random(SAMPLES // 3, dtype=np.float32),
            "hits": [rng.random(n) for n in lengths],
        }
        gt.data.write_parquet(folder / f"part_{number}.parquet", columns, rows_per_group=50)
    return folder


# Prints a digest of every batch, where they came from, and how many bytes the client uploaded.
LOADING = """
import hashlib, json, sys
import gt
col = gt.data.col
ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
options = dict(batch_size=64, shuffle=True, num_workers=1, generator=3, sample_ids=True, dtypes={"hits": gt.float32}) | OPTIONS
dl = gt.data.DataLoader(ds, transforms=[col("hits").clip(1e-3, float("inf")).log10()], **options)
def digest(batch):
    h = hashlib.sha256()
    for name, value in batch.items():
        h.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        h.update(value.numpy().tobytes())
    return h.hexdigest()
batches = []
for epoch in range(2):
    for batch in dl:
        batches.append(digest(batch))
stats = gt.debug.get_worker_stats()
print(json.dumps({
    "batches": batches,
    "uploaded": sum(s["bytes_in"] for s in stats.values()),
    "loaded": sum(s["loaded_bytes"] for s in stats.values()),
    "stats": dl.stats(),
}))
"""


def program(folder: Path, text: str = LOADING, **options: object) -> str:
    return text.replace("FOLDER", repr(str(folder))).replace("OPTIONS", repr(options))


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[str]:
    with Cluster() as alone:
        return json.loads(alone.run(program(folder)))["batches"]


@pytest.mark.parametrize(("workers", "threads"), [(1, 0), (1, 3), (2, 1)])
def test_batches_are_the_same_bits_as_without_a_server(cluster: Cluster, folder, expected, workers, threads):
    server = cluster.server(workers=workers)
    told = json.loads(cluster.run(program(folder, num_workers=threads), server.address))
    assert told["batches"] == expected
    # Not one byte of them came from the client.
    assert told["uploaded"] == 0 and told["loaded"] == told["stats"]["bytes"] > 100_000
    assert told["stats"]["samples"] == 2 * SAMPLES and told["stats"]["read_bytes"] > 0


def test_the_client_reads_the_files_itself_where_that_is_asked_for(cluster: Cluster, folder, expected):
    server = cluster.server(workers=1)
    told = json.loads(cluster.run(program(folder), server.address, GT_DATA_ON_WORKERS=0))
    assert told["batches"] == expected and told["loaded"] == 0 and told["uploaded"] == told["stats"]["bytes"]
