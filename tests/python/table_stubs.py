"""Writes what type checkers and lists read of the extension's table of functions: each region is between two comments.

Checked by test_table.py. `make generate` writes the regions again.
"""

import re
import textwrap
from pathlib import Path

import compatibility

import gt
from gt import _core, _functions

PACKAGE = Path(gt.__file__).parent
REGION = re.compile(r"(^ *#[^\n]*\bby `make generate`\.\n).*?(^ *# End of what is generated\.\n)", re.M | re.S)


def methods():
    """The methods of tensors."""
    lines = []
    for row in _core._rows():
        kind = "Tensor" if row.tensors_only else "Any"
        operand = f", {row.operand}: {kind}" if row.operand else ""
        for name, in_place in row.names:
            lines.append(f"def {name}(self{operand}) -> Tensor: ...")
            if in_place:
                lines.append(f"def {in_place}(self{operand}) -> Self: ...")
    return lines


def functions():
    """The functions of `gt`, and all names of the stub."""
    lines = []
    for row in _core._rows():
        for name in [name for name, _ in row.names if name in _functions.__all__]:
            first = "Tensor | Number" if name in _functions._WITH_NUMBER_FIRST else "Tensor"
            kind = "Tensor" if row.tensors_only else "Any"
            operand = f", {row.operand}: {kind}" if row.operand else ""
            lines.append(f"def {name}(input: {first}{operand}, *, out: Any = None) -> Tensor: ...")
    return [*lines, "", "__all__ = [", *(f'    "{name}",' for name in _functions.__all__), "]"]


def special():
    """The functions of `gt.special` that are rows: those of `gt`, if it has them."""
    own, shared = [], []
    for row in _core._rows():
        method = row.names[0][0]
        for name in row.special:
            if method.startswith("_"):
                own.append(f"def {name}(input: Tensor, *, out: Any = None) -> Tensor: ...")
            else:
                shared.append(f"{name} = _functions.{method}")
    return [*sorted(shared), "", *sorted(own), ""]


def missing():
    """Attributes of PyTorch's tensors that are not there."""
    return ['"""', *textwrap.wrap(" ".join(compatibility.missing("torch.Tensor")), width=112), '"""']


FILES = {"_core.pyi": methods, "_functions.pyi": functions, "special.py": special, "_missing.py": missing}


def written(name, text):
    """The text of a file with its region made anew."""
    lines = FILES[name]()

    def region(found):
        indent = re.match(" *", found[1])[0]
        return found[1] + textwrap.indent("\n".join(lines), indent) + "\n" + found[2]

    new, count = REGION.subn(region, text)
    assert count == 1, f"{name} has {count} regions that are generated"
    return new
