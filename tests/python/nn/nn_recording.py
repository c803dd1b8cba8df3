"""Small programs over `nn` whose outputs and gradients were recorded from PyTorch and are replayed on GT.

A program sees the package under test as `T`, its `nn` and `functional` as `nn` and `F`, and makes its tensors with the
functions of `Space`; it leaves what it computes in `r`. Every float in `r` then flows into one number with fixed weights, and
the gradients of all inputs and of all parameters of modules are recorded beside the outputs, and buffers as they are after it.

RECORDING-1: inputs are dyadic fractions that float32 holds exactly, so one recording (of float64) serves both precisions.
RECORDING-2: a program that raises is recorded as the class it raised.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"
# Relative to the largest element of what is compared, and absolute.
TOLERANCE = {"float32": 1e-5, "float64": 1e-7}
CAUGHT = (RuntimeError, ValueError, TypeError, IndexError, AssertionError, KeyError, AttributeError, ZeroDivisionError)


def numbers(count: int, seed: int) -> list[float]:
    """Fractions between -2 and 2, the same everywhere."""
    state = (seed * 2654435761 + 12345) & 0xFFFFFFFF
    made = []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        made.append(((state >> 12) - (1 << 19)) / (1 << 18))
    return made


class Space:
    """What a program may use."""

    def __init__(self, module: Any, dtype: str) -> None:
        self.module = module
        self.dtype = getattr(module, dtype)
        self.inputs: list[Any] = []
        self.modules: list[Any] = []
        self.seed = 0

    def values(self, shape: tuple[int, ...]) -> list[float]:
        self.seed += 1
        return numbers(math.prod(shape), self.seed)

    def x(self, *shape: int, scale: float = 1.0, shift: float = 0.0) -> Any:
        """An input that wants a gradient."""
        values = [v * scale + shift for v in self.values(shape)]
        made = self.module.tensor(values, dtype=self.dtype).reshape(shape).requires_grad_()
        self.inputs.append(made)
        return made

    def c(self, *shape: int, scale: float = 1.0, shift: float = 0.0) -> Any:
        """A constant."""
        return self.module.tensor([v * scale + shift for v in self.values(shape)], dtype=self.dtype).reshape(shape)

    def p(self, *shape: int) -> Any:
        """A probability between 1/16 and 15/16 that wants a gradient."""
        return self.x(*shape, scale=0.21875, shift=0.5)

    def given(self, *values: float) -> Any:
        """An input of these values that wants a gradient."""
        made = self.module.tensor(list(values), dtype=self.dtype).requires_grad_()
        self.inputs.append(made)
        return made

    def ints(self, high: int, *shape: int) -> Any:
        """Integers from 0 to high - 1."""
        values = [int((v + 2) / 4 * 4096) % high for v in self.values(shape)]
        return self.module.tensor(values, dtype=self.module.int64).reshape(shape)

    def bools(self, *shape: int, share: float = 0.5) -> Any:
        """True for about a share of the elements."""
        return self.module.tensor([v < 4 * share - 2 for v in self.values(shape)]).reshape(shape)

    def signs(self, *shape: int) -> Any:
        """1 and -1."""
        values = [1.0 if v > 0 else -1.0 for v in self.values(shape)]
        return self.module.tensor(values, dtype=self.dtype).reshape(shape)

    def m(self, made: Any, scale: float = 0.5) -> Any:
        """A module with fixed parameters, whose gradients are recorded."""
        made = made.to(self.dtype)
        with self.module.no_grad():
            for parameter in made.parameters():
                shape = tuple(parameter.shape)
                values = [v * scale for v in self.values(shape)]
                parameter.copy_(self.module.tensor(values, dtype=self.dtype).reshape(shape))
        self.modules.append(made)
        return made


def _flat(module: Any, value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _flat(module, part)]
    return [value]


def _encoded(module: Any, value: Any) -> Any:
    if isinstance(value, module.Tensor):
        flat = value.detach().reshape(-1).tolist()
        return {"shape": list(value.shape), "data": [_short(v) for v in flat]}
    return value if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


def _short(value: Any) -> Any:
    if isinstance(value, bool) or isinstance(value, int):
        return int(value)
    if not math.isfinite(value):
        return str(value)
    return float(f"{value:.9g}")


def run(module: Any, program: str, dtype: str) -> dict[str, Any]:
    """Outputs, gradients and buffers of a program, or the class of what it raised."""
    space = Space(module, dtype)
    names = {n: getattr(space, n) for n in ("x", "c", "p", "given", "ints", "bools", "signs", "m")}
    names |= {"T": module, "nn": module.nn, "F": module.nn.functional, "dt": space.dtype, "inf": math.inf}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(program, "<program>", "exec"), names)
            return _recorded(module, space, _flat(module, names["r"]))
        except NotImplementedError:
            return {"raises": "RuntimeError"}
        except CAUGHT as error:
            return {"raises": type(error).__name__}


def _recorded(module: Any, space: Space, outputs: list[Any]) -> dict[str, Any]:
    loss = None
    for i, out in enumerate(outputs):
        if isinstance(out, module.Tensor) and out.requires_grad:
            weights = module.tensor(numbers(out.numel(), 5000 + i), dtype=out.dtype).reshape(tuple(out.shape))
            part = (out * weights).sum()
            loss = part if loss is None else loss + part
    if loss is not None:
        loss.backward()
    made: dict[str, Any] = {"out": [_encoded(module, o) for o in outputs]}
    grads = [_encoded(module, x.grad) for x in space.inputs]
    if any(g is not None for g in grads):
        made["grads"] = grads
    params = {
        f"{i}.{n}": _encoded(module, p.grad) for i, m in enumerate(space.modules) for n, p in m.named_parameters()
    }
    if params:
        made["params"] = params
    buffers = {f"{i}.{n}": _encoded(module, b) for i, m in enumerate(space.modules) for n, b in m.named_buffers()}
    if buffers:
        made["buffers"] = buffers
    return made


def differences(actual: Any, expected: Any, tolerance: float, path: str = "") -> list[str]:
    """Where two recordings differ: tensors by more than a tolerance of their largest element and 1."""
    if isinstance(expected, dict) and set(expected) == {"shape", "data"}:
        return _tensor_differences(actual, expected, tolerance, path)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or set(actual) != set(expected):
            return [f"{path}: {actual if not isinstance(actual, dict) else sorted(actual)} is not {sorted(expected)}"]
        return [d for k in expected for d in differences(actual[k], expected[k], tolerance, f"{path}/{k}")]
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return [f"{path}: {actual} is not {expected}"]
        return [d for i, e in enumerate(expected) for d in differences(actual[i], e, tolerance, f"{path}/{i}")]
    if isinstance(expected, float) and isinstance(actual, (int, float)):
        return (
            [] if abs(actual - expected) <= tolerance * (1 + abs(expected)) else [f"{path}: {actual} is not {expected}"]
        )
    return [] if actual == expected else [f"{path}: {actual!r} is not {expected!r}"]


def _tensor_differences(actual: Any, expected: dict[str, Any], tolerance: float, path: str) -> list[str]:
    if not isinstance(actual, dict) or actual.get("shape") != expected["shape"]:
        shape = actual.get("shape") if isinstance(actual, dict) else actual
        return [f"{path}: shape {shape} is not {expected['shape']}"]
    finite = [abs(v) for v in expected["data"] if not isinstance(v, str)]
    allowed = tolerance * max([1.0, *finite])
    wrong = []
    for i, (a, e) in enumerate(zip(actual["data"], expected["data"])):
        agree = a == e if isinstance(a, str) or isinstance(e, str) else abs(a - e) <= allowed
        if not agree:
            wrong.append(f"{path}[{i}]: {a} is not {e}")
    return wrong[:4]


def record(module: Any, cases: list[str], path: Path) -> None:
    """Runs every program and writes the file that the tests read, one case a line."""
    unique = list(dict.fromkeys(cases))
    lines = []
    raised = []
    for program in unique:
        result = run(module, program, "float64")
        if "raises" in result:
            raised.append(program)
        lines.append(f"{json.dumps(program)}: {json.dumps(result, separators=(',', ':'))}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{path.name}: {len(lines)} cases, {path.stat().st_size // 1024} KB, {len(raised)} raise")
    for program in raised:
        if "raises:" not in program:
            print("   raises without being marked:", program)
    for program in unique:
        if "raises:" in program and program not in raised:
            print("   does not raise:", program)


def load(name: str) -> dict[str, Any]:
    """The cases of a fixture file."""
    return json.loads((FIXTURES / name).read_text())
