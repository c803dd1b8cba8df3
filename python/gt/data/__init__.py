"""Loading data: datasets, samplers, loaders.

>>> dl = gt.data.DataLoader(gt.data.TensorDataset(gt.arange(4)), batch_size=2)
>>> [batch.tolist() for (batch,) in dl]
[[0, 1], [2, 3]]
"""

from __future__ import annotations

from gt._tuning import tune_batch_size
from gt.data._block_shuffle import BlockShuffleSampler
from gt.data._collate import default_collate, default_convert
from gt.data._dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from gt.data._loader import DataLoader, FileLoader
from gt.data._report import DryRun, Mixing, ShuffleReport
from gt.data._sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from gt.data._sources import (
    ArrowDataset,
    CachedDataset,
    FileDataset,
    JsonlDataset,
    NpyDataset,
    ParquetDataset,
    RowRanges,
    SafetensorsDataset,
    WebDataset,
)
from gt.data._sources import open as open
from gt.data._transforms import ColumnExpression, col
from gt.data._verdict import Verdict, verdict
from gt.data._worker import WorkerInfo, get_worker_info
from gt.data._write import write_parquet

# Without `open`: `from gt.data import *` leaves the builtin one alone.
__all__ = [
    "ArrowDataset",
    "BatchSampler",
    "BlockShuffleSampler",
    "CachedDataset",
    "ChainDataset",
    "ColumnExpression",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DryRun",
    "FileDataset",
    "FileLoader",
    "IterableDataset",
    "JsonlDataset",
    "Mixing",
    "NpyDataset",
    "ParquetDataset",
    "RandomSampler",
    "RowRanges",
    "SafetensorsDataset",
    "Sampler",
    "SequentialSampler",
    "ShuffleReport",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "Verdict",
    "WebDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "col",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
    "tune_batch_size",
    "verdict",
    "write_parquet",
]
