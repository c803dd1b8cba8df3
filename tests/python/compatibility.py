"""Writes docs/pytorch-compatibility.md from the package: which of PyTorch's public names GT has.

The page is checked by test_compatibility.py. `make golden` writes it again.
"""

import importlib
import json
import textwrap
from pathlib import Path

import gt

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pytorch-compatibility.md"
RECORDED = Path(__file__).parent / "fixtures" / "torch_names.json"
MARK = "<!-- generated: everything below is written by `make golden` -->"

TITLES = {
    "torch": "Functions and dtypes (`gt`)",
    "torch.Tensor": "Methods and attributes of tensors (`gt.Tensor`)",
}


def counterpart(path):
    """The object of GT that corresponds to a namespace of PyTorch, or None."""
    ours = path.replace("torch", "gt", 1)
    if ours == "gt.Tensor":
        return gt.Tensor
    try:
        return importlib.import_module(ours)
    except ModuleNotFoundError:
        return None


def has(space, name):
    # `gt.gt` is the module's own name in PyTorch's spelling of "greater than"; `getattr` also finds names loaded on demand.
    found = None if space is None else getattr(space, name, None)
    return found is not None and getattr(found, "_is_refused", False) is not True


def missing(path):
    """The names of a namespace of PyTorch that GT does not have."""
    space = counterpart(path)
    return [name for name in json.loads(RECORDED.read_text())["names"][path] if not has(space, name)]


def wrapped(title, names):
    text = title + " ".join(f"`{name}`" for name in names)
    return textwrap.wrap(text, width=120, break_long_words=False, break_on_hyphens=False)


def section(path, names):
    space = counterpart(path)
    title = TITLES.get(path, f"`{path.replace('torch', 'gt', 1)}`")
    there = [name for name in names if has(space, name)]
    lacking = [name for name in names if not has(space, name)]
    lines = [f"## {title}", ""]
    if space is None:
        return [*lines, f"Not in GT yet ({len(names)} names in PyTorch).", ""]
    lines += [f"{len(there)} of {len(names)} names.", ""]
    if lacking:
        lines += [*wrapped("**Missing:** ", lacking), ""]
    if there:
        lines += [
            "<details><summary>Present</summary>",
            "",
            *wrapped("", there),
            "",
            "</details>",
            "",
        ]
    return lines


def generated():
    recorded = json.loads(RECORDED.read_text())
    lines = [MARK, f"Compared with the public names of PyTorch {recorded['torch']}.", ""]
    for path, names in recorded["names"].items():
        lines += section(path, names)
    return "\n".join(lines).rstrip() + "\n"
