"""Records what PyTorch does in the `edge_cases_*.py`: `PYTHONPATH=tests/python python tests/python/edges/record_edges.py`."""

import sys
from pathlib import Path

import torch
from edge_cases import FAMILIES, programs
from programs import record

HERE = Path(__file__).parent / "fixtures"

if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for family in FAMILIES:
        if len(sys.argv) == 1 or family.__name__.rpartition("_")[2] in sys.argv[1:]:
            record(torch, programs(family), HERE / f"{family.__name__}.json")
