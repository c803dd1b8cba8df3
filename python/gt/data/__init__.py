"""Loading data: datasets, samplers, loaders.

>>> dl = gt.data.DataLoader(gt.data.TensorDataset(gt.arange(4)), batch_size=2)
>>> [batch.tolist() for (batch,) in dl]
[[0, 1], [2, 3]]
"""

from __future__ import annotations

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
from gt.data._sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from gt.data._torch_loader import DataLoader
from gt.data._verdict import Verdict, verdict
from gt.data._worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "BlockShuffleSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "Verdict",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
    "verdict",
]
