"""Records what PyTorch does in `view_cases.py`: `python tests/python/record_views.py`, in an environment with torch."""

import torch
from programs import FIXTURES, record
from view_cases import CASES

if __name__ == "__main__":
    record(torch, CASES, FIXTURES / "views.json")
