"""Runs every program of `fixtures/nn_programs.json` on PyTorch and stores what it gives beside it.

A new program is added to the file with any result and recorded by `python tests/python/nn/record_nn_programs.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from nn_program_space import Space

FIXTURE = Path(__file__).parent / "fixtures" / "nn_programs.json"


def main() -> None:
    torch.set_num_threads(1)
    space = Space(torch)
    rows = [[program, space.run(program)] for program, _ in json.loads(FIXTURE.read_text())]
    FIXTURE.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
