"""What the programs of `fixtures/nn_programs.json` see, and how their results are written down.

A program is a few lines of Python over `T` (the module under test, also `torch`), `nn`, `F` and the functions below; it
leaves its result in `r`. What it gave on PyTorch is stored beside it; one that raises is stored as the class it raised.

SPACE-1: tensors and parameters come from NumPy's generator with a seed, never from the module's own.
SPACE-2: floats are stored with seven digits: enough for float32, and for float64 to notice one computed in float32 wrongly.
"""

from __future__ import annotations

import math
import warnings
from importlib import import_module
from typing import Any

import numpy as np

TOLERANCE = {"float64": 3e-7, "float32": 3e-5, "float16": 6e-3, "bfloat16": 5e-2}
_COMPUTED_AS = {"bfloat16": "float32", "float16": "float32"}


class Space:
    """The functions a program may call, for one module under test."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def names(self) -> dict[str, Any]:
        """What a program sees."""
        return {
            "T": self.module,
            "torch": self.module,
            "nn": self.module.nn,
            "F": self.module.nn.functional,
            "np": np,
            "arr": self.arr,
            "fill": self.fill,
            "grads": self.grads,
            "mod": self.mod,
            "import_module": lambda name: import_module(f"{self.module.__name__}.{name}"),
        }

    def arr(
        self,
        seed: int,
        *shape: int,
        dtype: str = "float32",
        lo: int = 0,
        hi: int = 10,
        pos: bool = False,
        grad: bool = False,
        nc: bool = False,
    ) -> Any:
        """Random numbers: normal, of (0, 1) if `pos`, integers of [lo, hi), bools; `nc` is not contiguous."""
        random = np.random.RandomState(seed)
        if dtype.startswith(("int", "uint")):
            made = np.array(random.randint(lo, hi, shape))
        elif dtype == "bool":
            made = np.array(random.rand(*shape) > 0.5)
        else:
            made = np.array(random.randn(*shape))
            made = 1 / (1 + np.exp(-made)) if pos else made
        tensor = self._tensor(made, shape, dtype)
        if nc and tensor.dim() >= 2:
            tensor = tensor.transpose(0, -1).contiguous().transpose(0, -1)
        return tensor.requires_grad_(True) if grad else tensor

    def _tensor(self, made: Any, shape: tuple[int, ...], dtype: str) -> Any:
        kept = np.ascontiguousarray(made.astype(_COMPUTED_AS.get(dtype, dtype))).reshape(shape)
        tensor = self.module.from_numpy(kept)
        return tensor.to(getattr(self.module, dtype)) if dtype in _COMPUTED_AS else tensor

    def fill(self, module: Any, seed: int = 0, scale: float = 0.4) -> Any:
        """The module with parameters and buffers from a seed."""
        random = np.random.RandomState(seed)
        with self.module.no_grad():
            for _, p in sorted(module.named_parameters()):
                p.copy_(self._tensor(np.array(random.randn(*p.shape) * scale), tuple(p.shape), "float32").to(p.dtype))
            for _, b in sorted(module.named_buffers()):
                if b.dtype.is_floating_point and b.numel():
                    b.copy_(self._tensor(np.array(random.rand(*b.shape)) + 0.5, tuple(b.shape), "float32").to(b.dtype))
        return module

    def _tensors_in(self, value: Any) -> list[Any]:
        if isinstance(value, self.module.Tensor):
            return [value]
        if isinstance(value, (tuple, list)):
            return [found for part in value for found in self._tensors_in(part)]
        return []

    def grads(self, function: Any, *inputs: Any, params: tuple[Any, ...] = ()) -> list[Any]:
        """What a function gives, and the gradients of a weighted sum of it."""
        out = function(*inputs)
        total = None
        for i, made in enumerate(self._tensors_in(out)):
            if made.requires_grad:
                weights = np.array(np.random.RandomState(77 + i).randn(*made.shape))
                part = (made * self._tensor(weights, tuple(made.shape), "float32").to(made.dtype)).sum()
                total = part if total is None else total + part
        if total is None:
            return [out, "nograd"]
        total.backward()
        watched = [*inputs, *params]
        return [out, *(x.grad if isinstance(x, self.module.Tensor) and x.is_leaf else None for x in watched)]

    def mod(self, module: Any, *inputs: Any, seed: int = 0, **kwargs: Any) -> list[Any]:
        """As `grads`, for a module with parameters from a seed; its buffers follow."""
        self.fill(module, seed)
        params = tuple(p for _, p in sorted(module.named_parameters()))
        made = self.grads(lambda *args: module(*args, **kwargs), *inputs, params=params)
        return made + [b for _, b in sorted(module.named_buffers())]

    def written(self, value: Any) -> Any:
        """A result as JSON can hold it."""
        module = self.module
        if isinstance(value, module.Tensor):
            dtype = str(value.dtype).rpartition(".")[2]
            kept = value.detach().float() if dtype in _COMPUTED_AS else value.detach()
            flat = [_number(x) for x in kept.numpy().ravel().tolist()]
            return {"t": dtype, "s": list(value.shape), "g": bool(value.requires_grad), "d": flat}
        if isinstance(value, module.dtype):
            return str(value).rpartition(".")[2]
        if isinstance(value, dict):
            return {"keys": [[self.written(key), self.written(inner)] for key, inner in value.items()]}
        if isinstance(value, (tuple, list)):
            return [self.written(part) for part in value]
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return _number(value)
        raise TypeError(f"a program may not result in {type(value)}")

    def run(self, program: str) -> Any:
        """The written result of a program, or the class of what it raised."""
        names = self.names()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(compile(program, "<program>", "exec"), names)
                return self.written(names["r"])
            except NotImplementedError:
                return {"raises": "RuntimeError"}
            except Exception as error:
                return {"raises": type(error).__name__}


def _number(x: Any) -> Any:
    if not isinstance(x, float):
        return x
    return float(f"{x:.7g}") if math.isfinite(x) else str(x)


def agree(actual: Any, expected: Any, tolerance: float = 1e-5) -> bool:
    """Whether two written results are the same, floats to the rounding of their dtype."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or actual.keys() != expected.keys():
            return False
        allowed = TOLERANCE.get(expected.get("t"), 0.0)
        return all(agree(actual[key], expected[key], allowed) for key in expected)
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(agree(a, e, tolerance) for a, e in zip(actual, expected))
        )
    if isinstance(expected, float) and isinstance(actual, float):
        return abs(actual - expected) <= tolerance + 4 * tolerance * abs(expected)
    return type(actual) is type(expected) and actual == expected
