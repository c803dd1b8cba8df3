"""Training programs as PyTorch users write them, run on GT and, when the losses are recorded, on PyTorch.

A program takes the module under test under the name `torch` and returns numbers: losses step by step, sometimes others.
TRAINING-1: parameters and data come from NumPy, not from the module's own random stream, so both start from the same.
TRAINING-2: nothing random is left in the numbers: dropout is 0 or in evaluation, samples are drawn greedily.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

FIXTURE = Path(__file__).parent / "fixtures" / "training_programs.json"
PROGRAMS: dict[str, Any] = {}


FAMILIES = ("images", "sequences", "language_models", "weights", "loops")


def all_programs() -> dict[str, Any]:
    """Every program by name."""
    for family in FAMILIES:
        import_module(f"training_{family}")
    return PROGRAMS


def program(function: Any) -> Any:
    PROGRAMS[function.__name__] = function
    return function


def numbers(torch: Any, seed: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def classes(torch: Any, seed: int, count: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.RandomState(seed).randint(0, count, shape).astype(np.int64))


def start_from(torch: Any, model: Any, seed: int = 0, scale: float = 0.3) -> Any:
    """Fills the parameters from NumPy."""
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            p.copy_(torch.from_numpy((rng.randn(*p.shape) * scale).astype(np.float32)))
    return model
