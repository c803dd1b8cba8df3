"""Functions and operators of two tensors, against NumPy: broadcasting, scalars, in-place and reflected forms."""

import operator

import numpy as np
import pytest
from parity import FLOATS, INF, INTS, NAN, array, check, check_gradient, data, dtype_of, leaf

import gt

ARITHMETIC = [
    ("add", operator.add, np.add),
    ("sub", operator.sub, np.subtract),
    ("mul", operator.mul, np.multiply),
    ("div", operator.truediv, np.true_divide),
    ("floor_divide", operator.floordiv, np.floor_divide),
    ("remainder", operator.mod, np.mod),
    ("pow", operator.pow, np.power),
]
COMPARISONS = [
    ("eq", operator.eq, np.equal),
    ("ne", operator.ne, np.not_equal),
    ("lt", operator.lt, np.less),
    ("le", operator.le, np.less_equal),
    ("gt", operator.gt, np.greater),
    ("ge", operator.ge, np.greater_equal),
]
BITS = [
    ("bitwise_and", operator.and_, np.bitwise_and),
    ("bitwise_or", operator.or_, np.bitwise_or),
    ("bitwise_xor", operator.xor, np.bitwise_xor),
]
EXTREMES = [("maximum", np.maximum), ("minimum", np.minimum)]
LOGICAL = [("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)]

SHAPES = [
    ((), ()),
    ((3,), ()),
    ((), (3,)),
    ((3,), (3,)),
    ((3,), (1,)),
    ((2, 3), (3,)),
    ((2, 3), (2, 1)),
    ((2, 1), (1, 3)),
    ((4, 1, 3), (2, 1)),
    ((2, 3, 4), (2, 3, 4)),
    ((0,), (1,)),
    ((0, 3), (3,)),
    ((2, 0), (2, 1)),
    ((1, 1, 1, 1), (5, 67)),
]
IDS = [case[0] for case in ARITHMETIC]
C_IDS = [case[0] for case in COMPARISONS]
B_IDS = [case[0] for case in BITS]


@pytest.mark.parametrize("name, symbol, function", ARITHMETIC, ids=IDS)
@pytest.mark.parametrize("left, right", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arithmetic_broadcasts(name, symbol, function, left, right, dtype):
    a = data(*left, low=0.5, high=4, seed=1).astype(dtype)
    b = data(*right, low=0.5, high=3, seed=2).astype(dtype)
    expected = function(a, b)
    check(symbol(gt.tensor(a), gt.tensor(b)), expected, dtype=dtype, rtol=1e-6)
    check(getattr(gt, name)(gt.tensor(a), gt.tensor(b)), expected, dtype=dtype, rtol=1e-6)
    check(getattr(gt.tensor(a), name)(gt.tensor(b)), expected, dtype=dtype, rtol=1e-6)


@pytest.mark.parametrize("name, symbol, function", ARITHMETIC, ids=IDS)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_arithmetic_by_dtype(name, symbol, function, dtype):
    if dtype in FLOATS:
        a, b = data(4, 5, low=0.5, high=4, seed=1), data(4, 5, low=0.5, high=3, seed=2)
    else:
        a, b = np.arange(20).reshape(4, 5) % 3 + 3, np.arange(20).reshape(4, 5) % 3 + 1
    left, right = gt.tensor(a, dtype=dtype_of(dtype)), gt.tensor(b, dtype=dtype_of(dtype))
    x, y = array(left).astype("float64"), array(right).astype("float64")
    if name in ("floor_divide", "remainder") and dtype in ("float16", "bfloat16"):
        x, y = array(left).astype("float32"), array(right).astype("float32")
    expected = function(x, y)
    if name == "div" and dtype in INTS:
        check(symbol(left, right), expected, dtype="float32")
        return
    check(symbol(left, right), expected, dtype=dtype, atol=None if name != "remainder" else 0.05)


SPECIALS = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -3.5, INF, -INF, NAN])


@pytest.mark.parametrize("name, symbol, function", ARITHMETIC, ids=IDS)
def test_arithmetic_of_special_values(name, symbol, function):
    a, b = SPECIALS[:, None], SPECIALS[None, :]
    with np.errstate(all="ignore"):
        expected = function(a, b)
    actual = array(symbol(gt.tensor(a), gt.tensor(b)))
    if name in ("floor_divide", "remainder"):
        # Division by zero and by infinity: libraries differ; ordinary pairs must not.
        ordinary = np.isfinite(a) & np.isfinite(b) & (b != 0)
        actual, expected = np.where(ordinary, actual, 0), np.where(ordinary, expected, 0)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name, symbol, function", ARITHMETIC, ids=IDS)
@pytest.mark.parametrize("scalar", [2, 3.5, True, 0.5])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_arithmetic_with_scalars_on_both_sides(name, symbol, function, scalar, dtype):
    if isinstance(scalar, bool) and name == "sub":
        pytest.skip("subtraction of bool is refused")
    values = (np.arange(1, 7) % 4 + 1).astype(dtype)
    source = gt.tensor(values)
    wide = values.astype("float64")
    rounded = np.floor if dtype == "int64" and not isinstance(scalar, float) and name != "div" else (lambda x: x)
    check(symbol(source, scalar), rounded(function(wide, float(scalar))), rtol=2e-6)
    check(symbol(scalar, source), rounded(function(float(scalar), wide)), rtol=2e-6)


@pytest.mark.parametrize("name, symbol, function", ARITHMETIC, ids=IDS)
def test_arithmetic_in_place(name, symbol, function):
    a, b = data(3, 4, low=0.5, high=4, seed=1), data(4, low=0.5, high=3, seed=2)
    inplace = getattr(operator, "i" + symbol.__name__)
    target = gt.tensor(a)
    alias = target
    target = inplace(target, gt.tensor(b))
    assert target is alias
    check(target, function(a, b), rtol=1e-11)
    target = gt.tensor(a)
    target = inplace(target, 2.0)
    check(target, function(a, 2.0), rtol=1e-11)
    target = gt.tensor(a)
    assert getattr(target, name + "_")(gt.tensor(b)) is target
    check(target, function(a, b), rtol=1e-11)


def test_in_place_does_not_grow_the_target():
    with pytest.raises(RuntimeError):
        gt.zeros(3).add_(gt.zeros(2, 3))
    with pytest.raises(RuntimeError):
        gt.zeros(1).add_(gt.zeros(3))


def test_in_place_does_not_change_the_category():
    with pytest.raises(RuntimeError):
        gt.arange(3).add_(1.5)
    with pytest.raises(RuntimeError):
        gt.arange(3).div_(2)
    target = gt.arange(3.0)
    target += gt.tensor([1, 2, 3])
    assert target.dtype == gt.float32 and target.tolist() == [1, 3, 5]
    target = gt.zeros(3, dtype=gt.int32)
    target += gt.tensor([1, 2, 3])
    assert target.dtype == gt.int32


@pytest.mark.parametrize("alpha", [2, -0.5, 0])
def test_alpha(alpha):
    a, b = data(3, 4, seed=1), data(4, seed=2)
    check(gt.add(gt.tensor(a), gt.tensor(b), alpha=alpha), a + alpha * b)
    check(gt.sub(gt.tensor(a), gt.tensor(b), alpha=alpha), a - alpha * b)
    check(gt.tensor(a).add_(gt.tensor(b), alpha=alpha), a + alpha * b)
    check(gt.tensor(a).add(gt.tensor(b), alpha=alpha), a + alpha * b)
    check(gt.tensor(a).sub_(gt.tensor(b), alpha=alpha), a - alpha * b)


@pytest.mark.parametrize("mode, function", [("trunc", lambda a, b: np.trunc(a / b)), ("floor", np.floor_divide)])
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_rounding_mode_of_div(mode, function, dtype):
    a, b = np.array([7, -7, 7, -7], dtype=dtype), np.array([2, 2, -2, -2], dtype=dtype)
    check(gt.div(gt.tensor(a), gt.tensor(b), rounding_mode=mode), function(a, b), dtype=dtype)
    check(gt.div(gt.tensor([7.0]), 2, rounding_mode=None), [3.5])


@pytest.mark.parametrize("dtype", INTS)
def test_floor_division_and_remainder_of_negatives(dtype):
    if dtype == "uint8":
        pytest.skip("has no negatives")
    a, b = np.array([7, -7, 7, -7, 6, -6], dtype=dtype), np.array([2, 2, -2, -2, 3, -3], dtype=dtype)
    check(gt.tensor(a) // gt.tensor(b), a // b, dtype=dtype)
    check(gt.tensor(a) % gt.tensor(b), a % b, dtype=dtype)
    check(gt.fmod(gt.tensor(a), gt.tensor(b)), np.fmod(a, b), dtype=dtype)
    check(gt.tensor(a) // -3, a // np.int8(-3), dtype=dtype)


def test_floor_division_and_remainder_of_floats():
    a = np.array([5.5, -5.5, 5.5, -5.5, 0.0, 1e20])
    b = np.array([2.0, 2.0, -2.0, -2.0, 3.0, 3.0])
    check(gt.tensor(a) // gt.tensor(b), a // b)
    check(gt.tensor(a) % gt.tensor(b), a % b)
    check(gt.fmod(gt.tensor(a), gt.tensor(b)), np.fmod(a, b))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name, symbol, function", ARITHMETIC[:3], ids=IDS[:3])
def test_integer_arithmetic_wraps(name, symbol, function, dtype):
    info = np.iinfo(dtype)
    a = np.array([info.max, info.min, info.max, info.min], dtype=dtype)
    b = np.array([1, 1, 2, info.max], dtype=dtype)
    with np.errstate(all="ignore"):
        check(symbol(gt.tensor(a), gt.tensor(b)), function(a, b), dtype=dtype)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, -2, -0.5, 2.5, 2.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_powers_with_constant_exponents(exponent, dtype):
    values = data(3, 5, low=0.3, high=3).astype(dtype)
    check(gt.tensor(values) ** exponent, values.astype("float64") ** exponent, dtype=dtype)
    check(gt.pow(gt.tensor(values), exponent), values.astype("float64") ** exponent, dtype=dtype)


def test_powers_of_negatives_zero_and_integers():
    values = np.array([-2.0, -1.0, 0.0, 1.0])
    with np.errstate(all="ignore"):
        for exponent in (2, 3, 0, -1, 0.5):
            check(gt.tensor(values) ** exponent, values**exponent)
    assert (gt.tensor([2, 3, -2]) ** 3).tolist() == [8, 27, -8]
    assert (2 ** gt.tensor([0, 1, 10])).tolist() == [1, 2, 1024]
    assert (gt.tensor([2, 3]) ** gt.tensor([3, 2])).tolist() == [8, 9]
    assert (gt.tensor([2, 3]) ** 0.5).dtype == gt.float32
    assert gt.pow(2.0, gt.tensor([1.0, 2.0])).tolist() == [2, 4]
    with pytest.raises(RuntimeError):
        gt.tensor([2, 3]) ** -1


# --- comparisons -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, symbol, function", COMPARISONS, ids=C_IDS)
@pytest.mark.parametrize("left, right", SHAPES, ids=str)
def test_comparisons_broadcast(name, symbol, function, left, right):
    a, b = np.round(data(*left, seed=1)), np.round(data(*right, seed=2))
    expected = function(a, b)
    check(symbol(gt.tensor(a), gt.tensor(b)), expected, dtype="bool")
    check(getattr(gt, name)(gt.tensor(a), gt.tensor(b)), expected, dtype="bool")
    check(getattr(gt.tensor(a), name)(gt.tensor(b)), expected, dtype="bool")


@pytest.mark.parametrize("name, symbol, function", COMPARISONS, ids=C_IDS)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, "bool"])
def test_comparisons_by_dtype(name, symbol, function, dtype):
    a, b = np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1])
    left, right = gt.tensor(a, dtype=dtype_of(dtype)), gt.tensor(b, dtype=dtype_of(dtype))
    check(symbol(left, right), function(a, b), dtype="bool")
    check(symbol(left, 1), function(a, 1), dtype="bool")
    check(symbol(1, right), function(1, b), dtype="bool")


@pytest.mark.parametrize("name, symbol, function", COMPARISONS, ids=C_IDS)
def test_comparisons_of_special_values(name, symbol, function):
    a, b = SPECIALS[:, None], SPECIALS[None, :]
    check(symbol(gt.tensor(a), gt.tensor(b)), function(a, b))
    check(symbol(gt.tensor(SPECIALS), NAN), function(SPECIALS, NAN))
    check(symbol(gt.tensor(SPECIALS), INF), function(SPECIALS, INF))


def test_comparisons_of_large_integers_are_exact():
    big = 2**62 + 1
    assert (gt.tensor([big, big - 1]) == big).tolist() == [True, False]
    assert (gt.tensor([big]) > gt.tensor([big - 1])).tolist() == [True]
    assert (gt.tensor([big]) - 1).tolist() == [big - 1]


def test_comparison_with_other_types():
    assert (gt.tensor([1.0]) == None) is False  # noqa: E711
    assert (gt.tensor([1.0]) != None) is True  # noqa: E711
    assert (gt.tensor([1.0]) == "a") is False
    with pytest.raises(TypeError):
        gt.tensor([1.0]) < "a"


def test_tensors_hash_by_identity():
    a, b = gt.tensor([1.0]), gt.tensor([1.0])
    assert hash(a) == hash(a) and len({a, b, a}) == 2
    assert {a: 1}[a] == 1


# --- bits and logic --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, symbol, function", BITS, ids=B_IDS)
@pytest.mark.parametrize("dtype", [*INTS, "bool"])
def test_bitwise(name, symbol, function, dtype):
    a, b = data(4, 5, dtype=dtype, seed=1), data(5, dtype=dtype, seed=2)
    check(symbol(gt.tensor(a), gt.tensor(b)), function(a, b), dtype=dtype)
    check(getattr(gt, name)(gt.tensor(a), gt.tensor(b)), function(a, b), dtype=dtype)
    target = gt.tensor(a)
    target = getattr(operator, "i" + symbol.__name__.rstrip("_"))(target, gt.tensor(b))
    check(target, function(a, b), dtype=dtype)
    check(getattr(gt.tensor(a), name)(gt.tensor(b)), function(a, b), dtype=dtype)


@pytest.mark.parametrize("name, symbol, function", BITS, ids=B_IDS)
def test_bitwise_with_scalars(name, symbol, function):
    values = np.arange(8)
    check(symbol(gt.tensor(values), 3), function(values, 3))
    check(symbol(3, gt.tensor(values)), function(3, values))
    flags = np.array([True, False])
    check(symbol(gt.tensor(flags), True), function(flags, True), dtype="bool")
    with pytest.raises((RuntimeError, TypeError)):
        symbol(gt.tensor([1.0]), gt.tensor([2.0]))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_shifts(dtype):
    values = np.array([1, 2, 5, 100], dtype=dtype)
    check(gt.tensor(values) << 1, values << np.array(1, dtype=dtype), dtype=dtype)
    check(gt.tensor(values) >> 1, values >> np.array(1, dtype=dtype), dtype=dtype)
    check(gt.tensor([-8, -1]) >> 1, np.array([-4, -1]))


@pytest.mark.parametrize("name, function", LOGICAL)
@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
def test_logical(name, function, dtype):
    a, b = np.array([0, 1, 2, 0]).astype(dtype), np.array([0, 0, 3, 4]).astype(dtype)
    check(getattr(gt, name)(gt.tensor(a), gt.tensor(b)), function(a, b), dtype="bool")
    check(getattr(gt.tensor(a), name)(gt.tensor(b)), function(a, b), dtype="bool")


# --- other functions of two ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, function", EXTREMES)
def test_maximum_and_minimum_keep_nan(name, function):
    a, b = SPECIALS[:, None], SPECIALS[None, :]
    check(getattr(gt, name)(gt.tensor(a), gt.tensor(b)), function(a, b))


def test_max_and_min_of_two_tensors():
    a, b = data(3, 4, seed=1), data(4, seed=2)
    check(gt.max(gt.tensor(a), gt.tensor(b)), np.maximum(a, b))
    check(gt.min(gt.tensor(a), gt.tensor(b)), np.minimum(a, b))
    check(gt.tensor(a).max(gt.tensor(b)), np.maximum(a, b))


def test_fmax_and_fmin_ignore_nan():
    a, b = SPECIALS[:, None], SPECIALS[None, :]
    check(gt.fmax(gt.tensor(a), gt.tensor(b)), np.fmax(a, b))
    check(gt.fmin(gt.tensor(a), gt.tensor(b)), np.fmin(a, b))


def test_lerp():
    a, b, w = data(3, 4, seed=1), data(3, 4, seed=2), data(4, seed=3, low=0, high=1)
    for weight in (0.0, 0.25, 0.75, 1.0, 1.5):
        check(gt.lerp(gt.tensor(a), gt.tensor(b), weight), a + weight * (b - a))
    check(gt.lerp(gt.tensor(a), gt.tensor(b), gt.tensor(w)), a + w * (b - a))
    check(gt.tensor(a).lerp(gt.tensor(b), 0.5), (a + b) / 2)
    target = gt.tensor(a)
    assert target.lerp_(gt.tensor(b), 0.1) is target
    check(target, a + 0.1 * (b - a))


@pytest.mark.parametrize("value", [1, 0.5, -2])
def test_addcmul_and_addcdiv(value):
    a, b, c = data(3, 4, seed=1), data(4, seed=2), data(3, 1, seed=3, low=0.5, high=2)
    check(gt.addcmul(gt.tensor(a), gt.tensor(b), gt.tensor(c), value=value), a + value * b * c)
    check(gt.tensor(a).addcmul(gt.tensor(b), gt.tensor(c), value=value), a + value * b * c)
    check(gt.tensor(a).addcmul_(gt.tensor(b), gt.tensor(c), value=value), a + value * b * c)
    check(gt.addcdiv(gt.tensor(a), gt.tensor(b), gt.tensor(c), value=value), a + value * b / c)
    check(gt.tensor(a).addcdiv_(gt.tensor(b), gt.tensor(c), value=value), a + value * b / c)


def test_allclose_and_equal():
    a = gt.tensor([1.0, 2.0, NAN])
    assert gt.equal(gt.tensor([1, 2]), gt.tensor([1, 2])) is True
    assert gt.equal(gt.tensor([1, 2]), gt.tensor([1, 3])) is False
    assert gt.equal(gt.tensor([1, 2]), gt.tensor([[1, 2]])) is False
    assert gt.equal(a, a.clone()) is False
    assert gt.allclose(gt.tensor([1.0, 2.0]), gt.tensor([1.0, 2.0 + 1e-6])) is True
    assert gt.allclose(gt.tensor([1.0]), gt.tensor([1.1])) is False
    assert gt.allclose(gt.tensor([1.0]), gt.tensor([1.1]), rtol=0.2) is True
    assert gt.allclose(gt.tensor([1.0]), gt.tensor([1.1]), atol=0.2) is True
    assert gt.allclose(a, a) is False
    assert gt.allclose(a, a, equal_nan=True) is True
    assert gt.allclose(gt.tensor([INF]), gt.tensor([INF])) is True
    assert a.allclose(a, equal_nan=True) and gt.tensor([1]).equal(gt.tensor([1]))


def test_isclose():
    a, b = np.array([1.0, 2.0, NAN, INF]), np.array([1.0 + 1e-9, 2.1, NAN, INF])
    check(gt.isclose(gt.tensor(a), gt.tensor(b)), np.isclose(a, b))
    check(gt.isclose(gt.tensor(a), gt.tensor(b), equal_nan=True), np.isclose(a, b, equal_nan=True))


@pytest.mark.parametrize(
    "alias, name",
    [
        ("subtract", "sub"),
        ("divide", "div"),
    ],
)
def test_aliases(alias, name):
    a, b = gt.tensor(data(3, seed=1)), gt.tensor(data(3, seed=2))
    check(getattr(gt, alias)(a, b), array(getattr(gt, name)(a, b)))


def test_rsub():
    check(gt.rsub(gt.tensor([1.0, 2.0]), 5), [4.0, 3.0])


# --- numpy on the other side -----------------------------------------------------------------------------------------


def test_numpy_scalars_as_operands():
    source = gt.tensor([1.0, 2.0])
    assert (source + np.float32(1)).tolist() == [2, 3]
    assert (source * np.int64(3)).tolist() == [3, 6]
    assert (source * np.float64(0.5)).dtype == gt.float32


# --- gradients of broadcasting ---------------------------------------------------------------------------------------

GRADIENTS = [
    ("add", lambda a, b: a + b),
    ("sub", lambda a, b: a - b),
    ("mul", lambda a, b: a * b),
    ("div", lambda a, b: a / b),
    ("pow", lambda a, b: a**b),
    ("maximum", lambda a, b: gt.maximum(a, b)),
    ("minimum", lambda a, b: gt.minimum(a, b)),
    ("atan2", lambda a, b: gt.atan2(a, b)),
    ("lerp", lambda a, b: gt.lerp(a, b, 0.3)),
]


@pytest.mark.parametrize("name, function", GRADIENTS, ids=[g[0] for g in GRADIENTS])
@pytest.mark.parametrize(
    "left, right",
    [((), (3,)), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 1, 3), (4, 1)), ((2, 3), (2, 3)), ((1,), (3,))],
    ids=str,
)
def test_gradients_of_broadcast_operands(name, function, left, right):
    check_gradient(function, data(*left, low=0.5, high=2, seed=1), data(*right, low=0.5, high=2, seed=2))


def test_gradients_of_empty_operands():
    a, b = leaf(np.zeros((0, 3))), leaf(np.ones(3))
    (a * b).sum().backward()
    assert a.grad.shape == (0, 3) and b.grad.tolist() == [0, 0, 0]


def test_gradient_of_maximum_is_shared_by_equals():
    a, b = leaf(np.array([1.0, 2.0, 3.0])), leaf(np.array([1.0, 5.0, 0.0]))
    gt.maximum(a, b).sum().backward()
    assert a.grad.tolist() == [0.5, 0, 1] and b.grad.tolist() == [0.5, 1, 0]


def test_gradient_of_powers_at_zero():
    source = leaf(np.array([0.0, 2.0]))
    (source**2).sum().backward()
    assert source.grad.tolist() == [0, 4]
    base, exponent = leaf(np.array([0.0, 2.0])), leaf(np.array([2.0, 3.0]))
    (base**exponent).sum().backward()
    assert base.grad.tolist() == [0, 12]
    np.testing.assert_allclose(array(exponent.grad), [0, 8 * np.log(2)])


def test_gradient_of_mixed_precision_operands():
    a = gt.tensor([1.0, 2.0], dtype=gt.float32, requires_grad=True)
    b = gt.tensor([3.0, 4.0], dtype=gt.float64, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.dtype == gt.float32 and a.grad.tolist() == [3, 4]
    assert b.grad.dtype == gt.float64 and b.grad.tolist() == [1, 2]


def test_gradient_through_where_and_scalars():
    check_gradient(lambda x: 2.0 / x + (1 - x) ** 2 - 3 * x, data(5, low=0.5, high=2))
    check_gradient(lambda x: 2.0**x, data(5))
    check_gradient(lambda x: x % 0.7, np.array([0.35, 0.8, 1.2]))


def test_a_factor_before_the_tensor_is_the_old_form():
    x, y = gt.ones(2), gt.full((2,), 3.0)
    with pytest.warns(DeprecationWarning, match="add"):
        assert x.add_(2, y).tolist() == [7, 7]
    with pytest.warns(DeprecationWarning, match="addcdiv"):
        assert gt.addcdiv(x, -0.5, y, y).tolist() == [6.5, 6.5]
    with pytest.raises(TypeError, match="old form"):
        x.add_(2, y, alpha=3)
