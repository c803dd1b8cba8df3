"""Comparing GT's answers with NumPy's.

PARITY-1: shape and values must agree; NaN equals NaN, signed zeros are equal.
PARITY-2: the dtype is compared only where a test names it, because NumPy's promotion is not PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gt

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTS = ("int64", "int32", "int8", "uint8")
DTYPES = (*FLOATS, *INTS, "bool")

# What one rounding in each type may cost a function of a few operations, relative to the result.
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}

NAN = float("nan")
INF = float("inf")


def dtype_of(name: str) -> Any:
    return getattr(gt, name)


def name_of(dtype: Any) -> str:
    """`gt.float32` as `float32`."""
    return str(dtype).rpartition(".")[2]


def array(tensor: Any) -> np.ndarray:
    """The values as NumPy holds them; bfloat16, which NumPy lacks, as float32."""
    tensor = tensor.detach()
    if tensor.dtype == gt.bfloat16:
        tensor = tensor.float()
    return tensor.numpy()


def check(
    actual: Any, expected: Any, *, dtype: str | None = None, rtol: float | None = None, atol: float | None = None
) -> None:
    """Asserts that a tensor (or a nest of them) holds the values of an array (or a nest of them)."""
    if isinstance(expected, (tuple, list)) and not isinstance(actual, gt.Tensor):
        assert len(actual) == len(expected), f"{len(actual)} results, expected {len(expected)}"
        for one, other in zip(actual, expected):
            check(one, other, dtype=dtype, rtol=rtol, atol=atol)
        return
    if not isinstance(actual, gt.Tensor):
        assert actual == expected
        return
    expected = np.asarray(expected)
    assert tuple(actual.shape) == expected.shape, f"shape {tuple(actual.shape)}, expected {expected.shape}"
    if dtype is not None:
        assert name_of(actual.dtype) == dtype
    tolerance = TOLERANCE.get(name_of(actual.dtype), 0.0)
    values = array(actual)
    if tolerance == 0.0 and rtol is None:
        np.testing.assert_array_equal(
            values, expected.astype(values.dtype) if expected.dtype.kind in "biu" else expected
        )
        return
    rtol = tolerance if rtol is None else max(rtol, tolerance)
    np.testing.assert_allclose(
        values.astype(np.float64),
        expected.astype(np.float64),
        rtol=rtol,
        atol=rtol if atol is None else atol,
        equal_nan=True,
    )


def same(left: Any, right: Any) -> None:
    """Asserts that two tensors are equal in dtype, shape and every bit that NumPy can tell apart."""
    assert left.dtype == right.dtype
    assert tuple(left.shape) == tuple(right.shape)
    np.testing.assert_array_equal(array(left), array(right))


def data(*shape: int, dtype: str = "float64", seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Reproducible values of a NumPy dtype; integers span a wider range, so that they repeat rarely."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "uint8":
        return rng.integers(0, 20, shape).astype(dtype)
    if dtype.startswith("int"):
        return rng.integers(-10, 10, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype("float32" if dtype == "bfloat16" else dtype)


def leaf(values: np.ndarray) -> Any:
    """A leaf of the graph with these values."""
    return gt.tensor(values, requires_grad=True)


def numeric_gradient(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], weights: np.ndarray, step: float = 1e-6
) -> list[np.ndarray]:
    """Central differences of `sum(function(*arrays) * weights)` with respect to each array."""
    gradients = []
    moved = [np.array(a, dtype=np.float64) for a in arrays]

    def objective() -> float:
        with gt.no_grad():
            return float((array(function(*[gt.tensor(m) for m in moved])) * weights).sum())

    for values in moved:
        gradient = np.zeros_like(values)
        for index in np.ndindex(*values.shape):
            kept = values[index]
            values[index] = kept + step
            above = objective()
            values[index] = kept - step
            below = objective()
            values[index] = kept
            gradient[index] = (above - below) / (2 * step)
        gradients.append(gradient)
    return gradients


def check_gradient(function: Callable[..., Any], *arrays: np.ndarray, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Asserts that backward gives what finite differences give, with a random cotangent."""
    leaves = [leaf(np.asarray(a, dtype=np.float64)) for a in arrays]
    out = function(*leaves)
    weights = np.random.default_rng(7).uniform(0.5, 1.5, tuple(out.shape))
    out.backward(gt.tensor(weights, dtype=gt.float64))
    for index, (made, expected) in enumerate(zip(leaves, numeric_gradient(function, arrays, weights))):
        assert made.grad is not None, f"no gradient for input {index}"
        assert made.grad.dtype == gt.float64
        np.testing.assert_allclose(array(made.grad), expected, rtol=rtol, atol=atol, err_msg=f"input {index}")
