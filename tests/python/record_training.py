"""Records what the training programs give on PyTorch: `python tests/python/record_training.py` with torch installed."""

from __future__ import annotations

import json
import warnings

import torch
from training_programs import FIXTURE, all_programs


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    recorded = {name: [float(f"{value:.8g}") for value in run(torch)] for name, run in sorted(all_programs().items())}
    FIXTURE.write_text(json.dumps(recorded, separators=(",", ":")).replace('],"', '],\n"') + "\n")


if __name__ == "__main__":
    main()
