"""Functions of one tensor, element by element, against NumPy."""

import math

import numpy as np
import pytest
from parity import FLOATS, INF, INTS, NAN, TOLERANCE, array, check, data, dtype_of, leaf, name_of

import gt


def _each(function):
    return np.vectorize(function, otypes=[np.float64])


def np_sigmoid(x):
    return 1 / (1 + np.exp(-x))


# name, NumPy's function, the domain of ordinary samples
FLOAT_FUNCTIONS = [
    ("exp", np.exp, -3, 3),
    ("exp2", np.exp2, -3, 3),
    ("expm1", np.expm1, -1, 1),
    ("log", np.log, 0.1, 9),
    ("log2", np.log2, 0.1, 9),
    ("log10", np.log10, 0.1, 9),
    ("log1p", np.log1p, -0.9, 9),
    ("sqrt", np.sqrt, 0, 9),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 9),
    ("reciprocal", lambda x: 1 / x, 0.1, 9),
    ("sin", np.sin, -7, 7),
    ("cos", np.cos, -7, 7),
    ("tan", np.tan, -1.4, 1.4),
    ("asin", np.arcsin, -1, 1),
    ("acos", np.arccos, -1, 1),
    ("atan", np.arctan, -9, 9),
    ("sinh", np.sinh, -3, 3),
    ("cosh", np.cosh, -3, 3),
    ("tanh", np.tanh, -3, 3),
    ("asinh", np.arcsinh, -9, 9),
    ("acosh", np.arccosh, 1, 9),
    ("atanh", np.arctanh, -0.9, 0.9),
    ("sigmoid", np_sigmoid, -9, 9),
    ("erf", _each(math.erf), -3, 3),
    ("erfc", _each(math.erfc), -3, 3),
]
NUMBER_FUNCTIONS = [
    ("abs", np.abs),
    ("neg", np.negative),
    ("sign", np.sign),
    ("square", np.square),
    ("floor", np.floor),
    ("ceil", np.ceil),
    ("round", np.round),
    ("trunc", np.trunc),
    ("relu", lambda x: np.maximum(x, np.zeros_like(x))),
]
TESTS = [
    ("isnan", np.isnan),
    ("isinf", np.isinf),
    ("isfinite", np.isfinite),
    ("logical_not", np.logical_not),
    ("isposinf", np.isposinf),
    ("isneginf", np.isneginf),
]
SPECIALS = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 1e30, -1e30, 88.0, -104.0])
FLOAT_IDS = [case[0] for case in FLOAT_FUNCTIONS]
NUMBER_IDS = [case[0] for case in NUMBER_FUNCTIONS]
# Functions whose condition at the ends of the domain multiplies the rounding of the input.
LOOSE = {"tan": 8, "acosh": 8, "atanh": 8, "log1p": 8, "exp2": 4, "sinh": 4}


@pytest.mark.parametrize("name, function, low, high", FLOAT_FUNCTIONS, ids=FLOAT_IDS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 67)], ids=str)
def test_float_functions(name, function, low, high, dtype, shape):
    source = gt.tensor(data(*shape, low=low, high=high), dtype=dtype_of(dtype))
    expected = function(array(source).astype(np.float64))
    rtol = TOLERANCE[dtype] * LOOSE.get(name, 1)
    check(getattr(gt, name)(source), expected, dtype=dtype, rtol=rtol)
    check(getattr(source, name)(), expected, dtype=dtype, rtol=rtol)


@pytest.mark.parametrize("name, function, low, high", FLOAT_FUNCTIONS, ids=FLOAT_IDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_functions_of_special_values(name, function, low, high, dtype):
    if name == "tan":
        pytest.skip("large arguments need a reduction whose bits differ between libraries")
    values = SPECIALS[np.abs(SPECIALS) != 1e30] if name in ("sin", "cos") else SPECIALS
    source = gt.tensor(values, dtype=dtype_of(dtype))
    with np.errstate(all="ignore"):
        expected = function(array(source))
    check(getattr(gt, name)(source), expected, rtol=TOLERANCE[dtype] * 8, atol=1e-38)


@pytest.mark.parametrize("name, function, low, high", FLOAT_FUNCTIONS, ids=FLOAT_IDS)
@pytest.mark.parametrize("dtype", [*INTS, "bool"])
def test_float_functions_of_integers_give_float32(name, function, low, high, dtype):
    source = gt.tensor([1, 1, 0] if dtype == "bool" else [0, 1, 2], dtype=dtype_of(dtype))
    with np.errstate(all="ignore"):
        expected = function(array(source).astype(np.float64))
    check(getattr(gt, name)(source), expected, dtype="float32", rtol=1e-5)


@pytest.mark.parametrize("name, function, low, high", FLOAT_FUNCTIONS, ids=FLOAT_IDS)
def test_float_functions_in_place(name, function, low, high):
    source = gt.tensor(data(3, 5, low=low, high=high))
    expected = function(array(source))
    returned = getattr(source, name + "_")()
    assert returned is source
    check(source, expected, rtol=1e-11)


@pytest.mark.parametrize("name, function, low, high", FLOAT_FUNCTIONS, ids=FLOAT_IDS)
def test_float_functions_of_strided_views(name, function, low, high):
    values = data(4, 6, low=low, high=high)
    source = gt.tensor(values)
    for view, part in ((source.T, values.T), (source[:, ::2], values[:, ::2]), (source[1], values[1])):
        check(getattr(gt, name)(view), function(part), rtol=1e-11)
    check(getattr(gt, name)(source[:1].expand(4, 6)), function(np.broadcast_to(values[:1], (4, 6))), rtol=1e-11)


@pytest.mark.parametrize("name, function", NUMBER_FUNCTIONS, ids=NUMBER_IDS)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_number_functions_keep_the_dtype(name, function, dtype):
    source = gt.tensor(data(4, 5, dtype=dtype if dtype != "bfloat16" else "float32"), dtype=dtype_of(dtype))
    expected = function(array(source))
    check(getattr(gt, name)(source), expected, dtype=dtype)
    check(getattr(source, name)(), expected, dtype=dtype)
    changed = source.clone()
    getattr(changed, name + "_")()
    check(changed, expected, dtype=dtype)


@pytest.mark.parametrize("name, function", NUMBER_FUNCTIONS, ids=NUMBER_IDS)
def test_number_functions_of_special_values(name, function):
    with np.errstate(all="ignore"):
        expected = function(SPECIALS)
    if name == "relu":
        expected = np.where(np.isnan(SPECIALS), NAN, expected)
    if name == "sign":
        # PyTorch gives the sign of NaN as 0.
        expected = np.where(np.isnan(SPECIALS), 0.0, expected)
    check(getattr(gt, name)(gt.tensor(SPECIALS)), expected)


@pytest.mark.parametrize("name, function", TESTS, ids=[t[0] for t in TESTS])
@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "uint8"])
def test_tests_give_bool(name, function, dtype):
    if dtype in FLOATS:
        source = gt.tensor([0.0, -0.0, 1.0, INF, -INF, NAN], dtype=dtype_of(dtype))
    else:
        source = gt.tensor([0, 1, 7], dtype=dtype_of(dtype))
    check(getattr(gt, name)(source), function(array(source).astype(np.float64)), dtype="bool")
    check(getattr(source, name)(), function(array(source).astype(np.float64)), dtype="bool")


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


ALIASES = [
    ("absolute", "abs"),
    ("negative", "neg"),
    ("arcsin", "asin"),
    ("arccos", "acos"),
    ("arctan", "atan"),
    ("arcsinh", "asinh"),
    ("arctanh", "atanh"),
    ("fix", "trunc"),
]


@pytest.mark.parametrize("alias, name", ALIASES)
def test_aliases(alias, name):
    source = gt.tensor(data(7, low=-0.9, high=0.9))
    check(getattr(gt, alias)(source), array(getattr(gt, name)(source)))
    check(getattr(source, alias)(), array(getattr(gt, name)(source)))


# --- activations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_activations_of_the_namespace(dtype):
    source = gt.tensor(data(4, 9, low=-5, high=5), dtype=dtype_of(dtype))
    values = array(source).astype(np.float64)
    check(gt.relu(source), np.maximum(values, 0), dtype=dtype)
    check(gt.tanh(source), np.tanh(values), dtype=dtype)
    check(gt.sigmoid(source), np_sigmoid(values), dtype=dtype)
    check(source.relu(), np.maximum(values, 0), dtype=dtype)


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
