"""Records how PyTorch prints the tensors of `print_cases.py`: `python tests/python/record_prints.py`, with torch installed."""

import json
from math import inf, nan

import torch
from print_cases import CASES
from programs import FIXTURES

if __name__ == "__main__":
    space = {"T": torch, "inf": inf, "nan": nan}
    texts = {case: repr(eval(case, space)).replace("torch.", "gt.") for case in CASES}
    lines = [f"{json.dumps(case)}: {json.dumps({'result': text})}" for case, text in texts.items()]
    (FIXTURES / "prints.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"prints.json: {len(lines)} cases")
