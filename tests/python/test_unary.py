"""Functions of one tensor that are not rows of the table (test_table.py), and the edges of those that are."""

import math

import numpy as np
import pytest
from parity import FLOATS, INF, INTS, NAN, array, check, data, dtype_of, leaf, name_of

import gt


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_round_keeps_the_dtype(dtype):
    source = gt.tensor(data(4, 5, dtype=dtype if dtype != "bfloat16" else "float32"), dtype=dtype_of(dtype))
    changed = source.clone()
    assert changed.round_() is changed
    for made in (gt.round(source), source.round(), changed):
        check(made, np.round(array(source)), dtype=dtype)


@pytest.mark.parametrize("name, function", [("isposinf", np.isposinf), ("isneginf", np.isneginf)])
@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "uint8"])
def test_infinities_of_a_sign(name, function, dtype):
    values = [0.0, 1.0, INF, -INF, NAN] if dtype in FLOATS else [0, 1, 7]
    source = gt.tensor(values, dtype=dtype_of(dtype))
    for made in (getattr(gt, name)(source), getattr(source, name)()):
        check(made, function(array(source).astype(np.float64)), dtype="bool")


def test_isreal_values_of_bools():
    source = gt.tensor([True, False])
    assert gt.isnan(source).tolist() == [False, False]
    assert gt.isfinite(source).tolist() == [True, True]
    assert gt.logical_not(source).tolist() == [False, True]


@pytest.mark.parametrize("dtype", INTS)
def test_bitwise_not(dtype):
    values = data(9, dtype=dtype)
    source = gt.tensor(values)
    check(~source, ~values, dtype=dtype)
    check(gt.bitwise_not(source), ~values, dtype=dtype)


def test_bitwise_not_of_bool_and_float():
    assert (~gt.tensor([True, False])).tolist() == [False, True]
    with pytest.raises((RuntimeError, TypeError)):
        ~gt.tensor([1.0])


@pytest.mark.parametrize("dtype", INTS)
def test_neg_and_abs_wrap_at_the_edge(dtype):
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1], dtype=dtype)
    with np.errstate(all="ignore"):
        check(-gt.tensor(values), -values, dtype=dtype)
        check(gt.abs(gt.tensor(values)), np.abs(values), dtype=dtype)
        check(gt.square(gt.tensor(values)), values * values, dtype=dtype)


def test_neg_of_bool_is_refused():
    with pytest.raises((RuntimeError, TypeError)):
        -gt.tensor([True])


def test_operators_of_one_operand():
    source = gt.tensor([-1.5, 2.0])
    assert (-source).tolist() == [1.5, -2.0]
    assert (+source).tolist() == [-1.5, 2.0]
    assert abs(source).tolist() == [1.5, 2.0]


def test_rounding_is_half_to_even():
    assert gt.round(gt.tensor([0.5, 1.5, 2.5, -0.5, -1.5])).tolist() == [0, 2, 2, 0, -2]


@pytest.mark.parametrize("decimals", [0, 1, 2, -1])
def test_round_decimals(decimals):
    values = data(9, low=-99, high=99)
    check(gt.round(gt.tensor(values), decimals=decimals), np.round(values, decimals), rtol=1e-10)


def test_frac_and_deg2rad():
    values = data(9)
    check(gt.frac(gt.tensor(values)), values - np.trunc(values))
    check(gt.deg2rad(gt.tensor(values)), np.deg2rad(values))
    check(gt.rad2deg(gt.tensor(values)), np.rad2deg(values))


# --- softmax ---------------------------------------------------------------------------------------------------------


def _softmax(x, axis):
    shifted = np.exp(x - x.max(axis=axis, keepdims=True)) if x.size else x
    return shifted / shifted.sum(axis=axis, keepdims=True) if x.size else x


@pytest.mark.parametrize(
    "shape, dim",
    [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), -2), ((2, 3, 4), -1), ((0, 3), 1), ((2, 0), 1), ((1, 1), 0)],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_and_log_softmax(shape, dim, dtype):
    source = gt.tensor(data(*shape, low=-9, high=9), dtype=dtype_of(dtype))
    values = array(source).astype(np.float64)
    expected = _softmax(values, dim)
    check(gt.softmax(source, dim), expected, dtype=dtype)
    check(source.softmax(dim), expected, dtype=dtype)
    check(gt.softmax(source, dim=dim), expected)
    with np.errstate(all="ignore"):
        check(
            gt.log_softmax(source, dim=dim), np.log(expected), dtype=dtype, rtol=2e-6 if dtype == "float32" else 1e-11
        )
        check(source.log_softmax(dim), np.log(expected), rtol=2e-6 if dtype == "float32" else 1e-11)


def test_softmax_is_stable():
    source = gt.tensor([1000.0, 1000.0, -1000.0])
    assert gt.softmax(source, 0).tolist() == [0.5, 0.5, 0.0]
    check(gt.log_softmax(source, 0), np.array([-math.log(2), -math.log(2), -2000 - math.log(2)]), rtol=1e-6)
    assert gt.softmax(gt.tensor([-INF, 0.0]), 0).tolist() == [0.0, 1.0]
    assert np.isnan(array(gt.softmax(gt.tensor([-INF, -INF]), 0))).all()
    assert np.isnan(array(gt.softmax(gt.tensor([NAN, 0.0]), 0))).all()


def test_softmax_with_a_dtype():
    source = gt.tensor([1, 2, 3])
    assert gt.softmax(source, 0, dtype=gt.float64).dtype == gt.float64
    assert gt.softmax(gt.tensor([1.0, 2.0], dtype=gt.float16), 0, dtype=gt.float32).dtype == gt.float32
    with pytest.raises(IndexError):
        gt.softmax(gt.zeros(2, 3), 2)


def test_softmax_of_zero_dimensions():
    assert gt.softmax(gt.tensor(3.0), 0).item() == 1.0
    assert gt.log_softmax(gt.tensor(3.0), -1).item() == 0.0


# --- clamp, nan_to_num -----------------------------------------------------------------------------------------------

CLAMPS = [(-1, 1), (None, 0.5), (0, None), (1, -1), (-INF, INF), (0.25, 0.25)]


@pytest.mark.parametrize("low, high", CLAMPS, ids=str)
def test_clamp(low, high):
    values = np.append(data(9), [INF, -INF, NAN])
    source = gt.tensor(values)
    expected = np.clip(values, low, high)
    check(gt.clamp(source, low, high), expected)
    check(gt.clamp(source, min=low, max=high), expected)
    check(source.clamp(low, high), expected)
    check(gt.clip(source, low, high), expected)
    changed = source.clone()
    assert changed.clamp_(low, high) is changed
    check(changed, expected)


def test_clamp_of_one_bound_and_tensors():
    values = data(3, 4)
    source = gt.tensor(values)
    check(source.clamp(min=0), np.maximum(values, 0))
    check(source.clamp(max=0), np.minimum(values, 0))
    check(source.clamp_min(0.5), np.maximum(values, 0.5))
    check(source.clamp_max(0.5), np.minimum(values, 0.5))
    low, high = data(4, low=-1, high=0), data(3, 1, low=0, high=1)
    check(gt.clamp(source, gt.tensor(low), gt.tensor(high)), np.clip(values, low, high))
    check(gt.clamp(source, min=gt.tensor(low)), np.maximum(values, low))
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        gt.clamp(source)


def test_clamp_dtypes():
    assert gt.clamp(gt.arange(5), 1, 3).tolist() == [1, 1, 2, 3, 3]
    assert gt.clamp(gt.arange(5), 1, 3).dtype == gt.int64
    made = gt.clamp(gt.arange(5), 0.5, 3.5)
    assert name_of(made.dtype) == "float32" and made.tolist() == [0.5, 1, 2, 3, 3.5]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nan_to_num(dtype):
    values = np.array([NAN, INF, -INF, 1.5, 0.0], dtype=dtype)
    source = gt.tensor(values)
    check(gt.nan_to_num(source), np.nan_to_num(values), dtype=dtype)
    check(source.nan_to_num(), np.nan_to_num(values), dtype=dtype)
    check(gt.nan_to_num(source, 7.0), np.nan_to_num(values, nan=7.0))
    check(
        gt.nan_to_num(source, nan=1.0, posinf=2.0, neginf=-2.0), np.nan_to_num(values, nan=1.0, posinf=2.0, neginf=-2.0)
    )


def test_nan_to_num_of_integers_is_the_input():
    assert gt.nan_to_num(gt.tensor([1, 2])).tolist() == [1, 2]


# --- zero gradients and the edges of gradients -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, at, slope",
    [
        ("abs", 0.0, 0.0),
        ("relu", 0.0, 0.0),
        ("sign", 2.0, 0.0),
        ("floor", 1.5, 0.0),
        ("ceil", 1.5, 0.0),
        ("round", 1.2, 0.0),
        ("trunc", 1.2, 0.0),
    ],
)
def test_gradients_at_kinks(name, at, slope):
    source = leaf(np.array([at]))
    getattr(gt, name)(source).sum().backward()
    assert source.grad.tolist() == [slope]


def test_gradient_of_sqrt_at_zero_is_infinite():
    source = leaf(np.array([0.0, 4.0]))
    source.sqrt().sum().backward()
    assert source.grad.tolist() == [INF, 0.25]


def test_gradient_of_clamp():
    source = leaf(np.array([-2.0, -0.5, 0.0, 0.5, 2.0]))
    source.clamp(-1, 1).sum().backward()
    assert source.grad.tolist() == [0, 1, 1, 1, 0]
