"""The extension's table of functions of one and two elements, row by row: values, gradients, methods, stubs.

A row that says how NumPy computes it is compared with that, one that does not with its exact values.
"""

import inspect
import math
import os

import numpy as np
import pytest
import table_stubs
from parity import FLOATS, INF, INTS, NAN, TOLERANCE, array, check, check_gradient, data, dtype_of

import gt
from gt import _core, _functions

ROWS = _core._rows()
SPECIALS = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 1e30, -1e30, 88.0, -104.0])
PAIRS = [
    ((3,), ()),
    ((), (3,)),
    ((3,), (1,)),
    ((2, 1), (1, 3)),
    ((4, 1, 3), (2, 1)),
    ((0, 3), (3,)),
    ((1, 1, 1, 1), (5, 67)),
]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 67)]


def first(row):
    return row.names[0][0]


def cases(*conditions):
    return pytest.mark.parametrize("row", [r for r in ROWS if all(c(r) for c in conditions)], ids=first)


def of_one(row):
    return not row.operand


def of_floats(row):
    return "int64" not in row.dtypes


def is_wide(row):
    return row.dtypes == ["float32", "float64"]


def has_in_place(row):
    return bool(row.names[0][1])


def called(row, x, *others):
    """The function of a row: that of `gt`, or the method where there is none."""
    return getattr(gt, first(row), getattr(gt.Tensor, first(row)))(x, *others)


def expected(row, x, *others):
    names = {"np": np, "math": math, "x": x, "each": lambda f: np.vectorize(f, otypes=[np.float64])}
    with np.errstate(all="ignore"):
        return eval(row.numpy, names, dict(zip("y", others)))


def samples(row, shape, dtype="float64"):
    """Operands of a row as tensors of one shape, and what it gives for them."""
    if row.points and not row.numpy:
        points = [(x, y) for x, y in row.points if math.isfinite(y) and abs(y) < 1e4 and abs(x) > 1e-3]
        count = math.prod(shape)
        x, y = (np.resize(np.array(part), count).reshape(shape) for part in zip(*points))
        tensor = gt.tensor(x, dtype=dtype_of(dtype))
        # A value that the dtype cannot hold has another result.
        return (tensor,), np.where(array(tensor).astype(np.float64) == x, y, NAN)
    operands = [data(*shape, low=low, high=high, seed=i) for i, (low, high) in enumerate(row.domains)]
    if dtype == "bool":
        operands = [o > 0.5 for o in operands]
    elif dtype in INTS:
        operands = [np.abs(o * 3).astype(np.int64) + i for i, o in enumerate(operands)]
    tensors = tuple(gt.tensor(o, dtype=dtype_of(dtype)) for o in operands)
    # In float64, unless the function is one of the dtype itself.
    own = is_wide(row) or not (dtype in FLOATS or of_floats(row))
    wide = [array(t) if own else array(t).astype(np.float64) for t in tensors]
    return tensors, expected(row, *wide)


def agree(row, actual, wanted, dtype):
    """Asserts that they are the same where the wanted value is known."""
    if row.points and not row.numpy:
        wanted = np.where(np.isnan(wanted), array(actual).astype(np.float64), wanted)
    if row.to_bool:
        return check(actual, wanted, dtype="bool")
    # What halves rounds to is near what NumPy gives in float64.
    rtol = TOLERANCE.get(dtype, 1e-5) * row.slack
    check(actual, wanted, dtype=dtype, rtol=rtol, atol=rtol)


@cases(lambda row: row.numpy or row.points)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_values_of_floats(row, dtype, shape):
    if dtype not in row.dtypes:
        pytest.skip("the row does not take it")
    if dtype in ("float16", "bfloat16") and first(row) in ("floor_divide", "remainder", "fmod"):
        pytest.skip("a quotient near a whole number is rounded before it is cut")
    operands, wanted = samples(row, shape, dtype)
    for name, _ in row.names:
        agree(row, getattr(operands[0], name)(*operands[1:]), wanted, dtype)
        if hasattr(gt, name):
            agree(row, getattr(gt, name)(*operands), wanted, dtype)
            out = gt.empty(0, dtype=gt.bool if row.to_bool else dtype_of(dtype))
            assert getattr(gt, name)(*operands, out=out) is out
            agree(row, out, wanted, dtype)


@cases(lambda row: row.numpy)
@pytest.mark.parametrize("dtype", [*INTS, "bool"])
def test_values_of_integers(row, dtype):
    if dtype not in row.dtypes and not of_floats(row):
        pytest.skip("the row does not take it")
    if is_wide(row):
        with pytest.raises(RuntimeError, match="not defined on"):
            called(row, *[gt.tensor([1], dtype=dtype_of(dtype)) for _ in row.domains])
        return
    operands, wanted = samples(row, (4, 5), dtype)
    agree(row, called(row, *operands), wanted, "float32" if of_floats(row) else dtype)


@cases(lambda row: row.operand and row.numpy, lambda row: "float64" in row.dtypes)
@pytest.mark.parametrize("left, right", PAIRS, ids=str)
def test_broadcasting(row, left, right):
    x, y = data(*left, low=0.5, high=4, seed=1), data(*right, low=0.5, high=3, seed=2)
    wanted = expected(row, x, y)
    agree(row, called(row, gt.tensor(x), gt.tensor(y)), wanted, "float64")
    if not row.tensors_only:
        agree(row, called(row, gt.tensor(x), 1.5), expected(row, x, 1.5), "float64")


@cases(of_one, lambda row: row.numpy, lambda row: "float64" in row.dtypes)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(row, dtype):
    # Large angles need a reduction whose bits differ between libraries.
    kept = {"tan": 0.0, "sin": 1e29, "cos": 1e29}.get(first(row), INF)
    values = SPECIALS[~(np.abs(SPECIALS) > kept) | ~np.isfinite(SPECIALS)].astype(dtype)
    agree(row, called(row, gt.tensor(values)), expected(row, values), dtype)


@cases(lambda row: row.points)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_values(row, dtype):
    x, y = (np.array(part) for part in zip(*row.points))
    held = x.astype(dtype).astype(np.float64)
    x, y = x[(held == x) | np.isnan(x)], y[(held == x) | np.isnan(x)]
    with np.errstate(over="ignore"):
        wanted = y.astype(dtype)
    values = array(called(row, gt.tensor(x, dtype=dtype_of(dtype))))
    rtol = 1e-13 if dtype == "float64" else 2e-7
    np.testing.assert_allclose(values, wanted, rtol=rtol, atol=rtol / 100, equal_nan=True)


@cases(has_in_place, lambda row: row.numpy or row.points, lambda row: "float64" in row.dtypes)
def test_in_place(row):
    for _, in_place in row.names:
        operands, wanted = samples(row, (3, 5))
        target = operands[0].clone()
        assert getattr(target, in_place)(*operands[1:]) is target
        agree(row, target.bool() if row.to_bool else target, wanted, "float64")


@cases(lambda row: row.numpy, lambda row: "float64" in row.dtypes)
def test_strided_views(row):
    operands, wanted = samples(row, (4, 6))
    for view in (lambda a: a.T, lambda a: a[:, ::2], lambda a: a[1]):
        agree(row, called(row, *[view(t) for t in operands]), view(wanted), "float64")
    wide = [t[:1].expand(4, 6) for t in operands]
    agree(row, called(row, *wide), np.broadcast_to(wanted[:1], (4, 6)), "float64")


def is_curved(row):
    """Whether the slope changes within the domain."""
    return row.differentiable and first(row) not in "neg abs sign relu floor ceil trunc".split()


@cases(of_one, lambda row: row.differentiable)
def test_first_derivative(row):
    check_gradient(lambda x: called(row, x), data(2, 3, low=row.domains[0][0], high=row.domains[0][1]))


@cases(of_one, is_curved)
def test_second_derivative(row):
    def slope(x):
        x = x if x.requires_grad else x.detach().requires_grad_()
        with gt.enable_grad():
            (made,) = gt.autograd.grad(called(row, x).sum(), x, create_graph=True)
        return made

    check_gradient(slope, data(4, low=row.domains[0][0], high=row.domains[0][1]), rtol=1e-4)


@cases(lambda row: row.operand and row.differentiable and row.numpy)
def test_derivatives_of_two(row):
    (a, b), low = row.domains, 0.5
    x, y = data(2, 3, low=low, high=max(a[1], 1), seed=1), data(3, low=low, high=max(b[1], 1), seed=2)
    check_gradient(lambda x, y: called(row, x, y), x, y)


@cases()
def test_signatures(row):
    operand = [row.operand] if row.operand else []
    for name, in_place in row.names:
        for method in [name, in_place] if in_place else [name]:
            made = inspect.signature(getattr(gt.Tensor, method))
            assert list(made.parameters) == ["self", *operand]
            assert getattr(gt.Tensor, method).__doc__.endswith(f"{row.says}.")
        if name in _functions.__all__:
            made = inspect.signature(getattr(gt, name))
            assert list(made.parameters) == ["input", *operand, "out"]
    for name in row.special:
        assert callable(getattr(gt.special, name)) and name in gt.special.__all__


@cases(of_one, lambda row: row.example[0], lambda row: "float16" in row.dtypes, lambda row: not row.to_bool)
def test_dtype_under_autocast(row):
    x = gt.full((2,), 0.5, dtype=gt.bfloat16)
    with gt.autocast("cuda"):
        made = called(row, x)
    assert made.dtype == (gt.float32 if row.autocast else gt.bfloat16)


@pytest.mark.parametrize("name", table_stubs.FILES)
def test_golden_stubs_match_the_table(name):
    path = table_stubs.PACKAGE / name
    text = path.read_text()
    made = table_stubs.written(name, text)
    if os.environ.get("GT_GOLDEN") == "write":
        path.write_text(made)
        return
    assert text == made, f"python/gt/{name} is out of date: run `make generate`"
