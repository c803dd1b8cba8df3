"""Small programs whose results were recorded from PyTorch and are replayed on GT.

A case is a name and a program. The program sees the module under test as `T` and leaves what it wants compared in `r`:
a tensor, a number, a tuple or list of those. A program that raises is recorded as the class it raised.

PROGRAMS-1: no program reads memory addresses or random numbers, so a recording holds on any machine.
PROGRAMS-2: floats are recorded as Python prints them; NaN and the infinities as strings, so that the file stays JSON.
PROGRAMS-3: every program is recorded, and the result of each depends on all of it: no part is behind a constant condition.
"""

from __future__ import annotations

import ast
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"
# The result of a program that PyTorch cannot run on the CPU. `programs_without_kernel.json` has the answers that GT gives.
LEFT_OUT = {"left_out": "PyTorch has no kernel"}
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def encode(module: Any, value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, module.Tensor):
        kept = value.detach()
        return {
            "dtype": str(kept.dtype).rpartition(".")[2],
            "shape": list(kept.shape),
            "data": encode(module, kept.tolist()),
        }
    if isinstance(value, module.dtype):
        return str(value).rpartition(".")[2]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [encode(module, part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a program may not result in {type(value)}")


def run(module: Any, program: str) -> Any:
    """The encoded result of a program, or the class of what it raised."""
    space = {"T": module, "nan": math.nan, "inf": math.inf}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(program, "<program>", "exec"), space)
            return encode(module, space["r"])
        except NotImplementedError:
            return {"raises": "RuntimeError"}
        except (RuntimeError, IndexError, ValueError, TypeError, OverflowError) as error:
            return {"raises": type(error).__name__}


def agree(actual: Any, expected: Any, tolerance: float = 1e-12) -> bool:
    """Whether two encoded results are the same, floats to the rounding of their dtype."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or actual.keys() != expected.keys():
            return False
        tolerance = TOLERANCE.get(expected.get("dtype", ""), tolerance)
        return all(agree(actual[key], expected[key], tolerance) for key in expected)
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(agree(a, e, tolerance) for a, e in zip(actual, expected))
        )
    if isinstance(expected, float) and isinstance(actual, float):
        return math.isclose(actual, expected, rel_tol=tolerance, abs_tol=tolerance)
    return type(actual) is type(expected) and actual == expected


def constant_conditions(program: str) -> list[str]:
    """The parts of a program that are chosen by a constant, so that some of it never runs."""
    nodes = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.If | ast.IfExp)]
    return [ast.unparse(node) for node in nodes if isinstance(node.test, ast.Constant)]


def record(
    module: Any, cases: list[tuple[str, str]], path: Path, *, left_out: Callable[[str], bool] = lambda program: False
) -> None:
    """Runs every case and writes the file that the tests read, one case a line; those that are left out are named there."""
    names = [name for name, _ in cases]
    if len(set(names)) != len(names):
        raise ValueError(f"names occur twice: {sorted({n for n in names if names.count(n) > 1})}")
    lines = []
    raised = 0
    for name, program in cases:
        result = LEFT_OUT if left_out(program) else run(module, program)
        raised += isinstance(result, dict) and "raises" in result
        entry = {"program": program, "result": result} if name != program else {"result": result}
        lines.append(f"{json.dumps(name)}: {json.dumps(entry)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{path.name}: {len(lines)} cases, {raised} of them raise")


def load(name: str) -> dict[str, Any]:
    """The cases of a fixture file. Where a case is its own name the program is not written twice."""
    recorded = json.loads((FIXTURES / name).read_text())
    return {case: {"program": case, **entry} for case, entry in recorded.items()}
