"""Records what PyTorch answers to the cases: `python tests/python/nn/record_nn.py`, in an environment with torch."""

import json

import torch
from nn_case_tables import REPRS, TABLES
from nn_recording import FIXTURES, record


def record_reprs() -> None:
    """How PyTorch prints modules, with its name replaced by ours."""
    space = {"nn": torch.nn, "T": torch, "F": torch.nn.functional}
    texts = {made: repr(eval(made, space)).replace("torch.", "gt.") for made in REPRS}
    (FIXTURES / "reprs.json").write_text(json.dumps(texts, indent=0) + "\n")
    print(f"reprs.json: {len(texts)}")


def record_states() -> None:
    """Names, shapes and dtypes of what each module stores, and its parameters in order."""
    space = {"nn": torch.nn, "T": torch, "F": torch.nn.functional}
    made = {text: eval(text, space) for text in REPRS}
    states = {
        text: {
            "state": {n: [list(t.shape), str(t.dtype).rpartition(".")[2]] for n, t in module.state_dict().items()},
            "parameters": [n for n, _ in module.named_parameters()],
            "buffers": [n for n, _ in module.named_buffers()],
            "modules": [n for n, _ in module.named_modules()],
        }
        for text, module in made.items()
        if isinstance(module, torch.nn.Module)
    }
    lines = [f"{json.dumps(text)}: {json.dumps(state)}" for text, state in states.items()]
    (FIXTURES / "states.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"states.json: {len(states)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, cases in TABLES.items():
        record(torch, cases, FIXTURES / f"{name}.json")
    record_reprs()
    record_states()
