"""Stores what PyTorch's optimizers and schedules give, for `test_optim_*.py`. Run it where torch is installed:

python tests/python/optim/record_optim.py
"""

import json
import pathlib
import warnings

import numpy as np
import optim_cases as cases
import torch

HERE = pathlib.Path(__file__).parent
warnings.simplefilter("ignore")


def plain(value):
    """State as JSON: tensors become {"tensor": nested lists, "dtype": name}."""
    if isinstance(value, torch.Tensor):
        return {"tensor": value.tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, dict):
        return {"dict": [[key, plain(inner)] for key, inner in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [plain(inner) for inner in value]}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


def main():
    histories, layouts = {}, {}
    for name, kind, options, variation in cases.cases():
        for dtype in ("float32", "float64"):
            optimizer, _, history = cases.run(torch, kind, options, variation, dtype)
            histories[f"{name}/{dtype}"] = history.numpy()
        state = optimizer.state_dict()["state"]
        layouts[name] = {
            str(i): {key: [float(v) for v in np.ravel(value)] for key, value in entry.items() if value is not None}
            for i, entry in state.items()
        }
    np.savez_compressed(HERE / "optimizers.npz", **histories)

    resumed = {}
    for kind, options in cases.VARIED.items():
        half = {}

        def visit(step, optimizer, half=half):
            if step == 9:
                half["state"] = plain(optimizer.state_dict())
                half["params"] = [plain(p.detach()) for group in optimizer.param_groups for p in group["params"]]

        cases.run(torch, kind, options, None, "float64", visit)
        resumed[kind] = half

    schedules = {name: cases.run_schedule(torch, torch.optim.lr_scheduler, name)[0] for name in cases.SCHEDULES}
    jumps = {name: cases.run_jumps(torch, torch.optim.lr_scheduler, name) for name in cases.JUMPS}
    lbfgs = [cases.rosenbrock(torch, **options) for options in cases.LBFGS]
    stored = {"states": layouts, "resumed": resumed, "schedules": schedules, "jumps": jumps, "lbfgs": lbfgs}
    (HERE / "optim.json").write_text(json.dumps(stored, separators=(",", ":")) + "\n")


main()
