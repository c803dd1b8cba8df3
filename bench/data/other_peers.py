"""Loaders that may be installed beside PyTorch: Hugging Face datasets, MosaicML Streaming, WebDataset.

The first reads the Parquet files with lists; the others have formats of their own, into which the events of some files are
converted before the clock starts. Batches are what `peers.collate` makes of them, as for PyTorch's loader.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from peers import COLUMNS, EventDataset, collate

CONVERTED_FILES = 8
# Samples that are mixed at a time, where the loader has such a buffer.
BUFFER = 10_000


def items_of(samples: list) -> dict:
    return collate([[np.asarray(sample[name]) for name in COLUMNS] for sample in samples])


def torch_batches(dataset, batch_size: int, workers: int, **how) -> Iterator[dict]:
    import torch

    torch.set_num_threads(1)
    return iter(torch.utils.data.DataLoader(dataset, batch_size, num_workers=workers, collate_fn=items_of, **how))


def converted(folder: Path) -> Iterator[list[dict]]:
    """The events of the first files, a list for each file."""
    events = EventDataset(folder)
    for number in range(1, CONVERTED_FILES + 1):
        rows = np.flatnonzero(events.meta.file == number)
        yield [dict(zip(COLUMNS, events[int(i)])) for i in rows]


def hugging_face(folder: Path, batch_size: int, workers: int) -> Iterator[dict]:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HOME", tempfile.mkdtemp())
    import datasets

    files = str(folder / "lists" / "*.parquet")
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    return torch_batches(stream.shuffle(seed=0, buffer_size=BUFFER), batch_size, workers)


def webdataset(folder: Path, batch_size: int, workers: int) -> Iterator[dict]:
    import webdataset as wds

    shards = Path(tempfile.mkdtemp())
    for number, events in enumerate(converted(folder)):
        with tarfile.open(shards / f"shard_{number}.tar", "w") as tar:
            for i, event in enumerate(events):
                file = io.BytesIO()
                np.savez(file, **event)
                member = tarfile.TarInfo(f"{number:03d}_{i:06d}.npz")
                member.size = file.tell()
                file.seek(0)
                tar.addfile(member, file)
    names = [str(p) for p in sorted(shards.glob("*.tar"))]
    dataset = wds.WebDataset(names, shardshuffle=len(names), seed=0).shuffle(BUFFER)
    read = dataset.map(lambda sample: dict(np.load(io.BytesIO(sample["npz"]))))
    return torch_batches(read.repeat(), batch_size, workers)


def mosaic_streaming(folder: Path, batch_size: int, workers: int) -> Iterator[dict]:
    import streaming

    local = tempfile.mkdtemp()
    with streaming.MDSWriter(out=local, columns=dict.fromkeys(COLUMNS, "ndarray")) as writer:
        for events in converted(folder):
            for event in events:
                # It has no bools.
                writer.write({name: v.view(np.uint8) if v.dtype == bool else v for name, v in event.items()})
    dataset = streaming.StreamingDataset(local=local, shuffle=True, batch_size=batch_size)
    return torch_batches(dataset, batch_size, workers)


LOADERS = {"Hugging Face datasets": hugging_face, "MosaicML Streaming": mosaic_streaming, "WebDataset": webdataset}
