"""Dtypes: names, the promotion table, Python scalars and 0-d tensors, casts and integer overflow."""

import itertools

import numpy as np
import pytest
from parity import DTYPES, FLOATS, INF, INTS, NAN, array, check, data, dtype_of, name_of

import gt

pytestmark = pytest.mark.transport

# --- the objects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_names_and_identity(dtype):
    of = dtype_of(dtype)
    assert repr(of) == f"gt.{dtype}" and str(of) == f"gt.{dtype}"
    assert isinstance(of, gt.dtype)
    assert gt.zeros(1, dtype=of).dtype is of
    assert of == of and hash(of) == hash(dtype_of(dtype))
    assert of.is_floating_point == (dtype in FLOATS)
    assert of.is_complex is False
    assert of.is_signed == (dtype in FLOATS or dtype in ("int8", "int32", "int64"))
    assert of.itemsize == gt.zeros(1, dtype=of).element_size()


def test_aliases():
    assert gt.float is gt.float32 and gt.double is gt.float64 and gt.half is gt.float16
    assert gt.long is gt.int64 and gt.int is gt.int32


def test_dtypes_differ():
    assert len({dtype_of(d) for d in DTYPES}) == len(DTYPES)
    assert gt.float32 != gt.float64 and gt.float32 != "float64"


@pytest.mark.parametrize("dtype", FLOATS)
def test_finfo(dtype):
    info = gt.finfo(dtype_of(dtype))
    if dtype == "bfloat16":
        assert info.eps == 2**-7 and info.bits == 16 and info.max == pytest.approx(3.3895e38, rel=1e-4)
        return
    expected = np.finfo(dtype)
    assert info.eps == float(expected.eps) and info.max == float(expected.max) and info.min == float(expected.min)
    assert info.tiny == float(expected.tiny) and info.bits == expected.bits


@pytest.mark.parametrize("dtype", INTS)
def test_iinfo(dtype):
    info, expected = gt.iinfo(dtype_of(dtype)), np.iinfo(dtype)
    assert (info.min, info.max, info.bits) == (expected.min, expected.max, expected.bits)


def test_is_floating_point():
    assert gt.is_floating_point(gt.zeros(1)) and not gt.is_floating_point(gt.zeros(1, dtype=gt.int64))
    assert gt.zeros(1).is_floating_point() and not gt.zeros(1, dtype=gt.bool).is_floating_point()


# --- promotion of two tensors ----------------------------------------------------------------------------------------

RANK = ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def promoted(left, right):
    """PyTorch's rule, except that uint8 with int8 gives int32, because GT has no int16."""
    if left == right:
        return left
    pair = {left, right}
    if pair == {"uint8", "int8"}:
        return "int32"
    if pair == {"float16", "bfloat16"}:
        return "float32"
    return max(left, right, key=RANK.index)


PAIRS = list(itertools.product(DTYPES, DTYPES))


@pytest.mark.parametrize("left, right", PAIRS)
def test_promotion_of_tensors(left, right):
    a, b = gt.ones(2, dtype=dtype_of(left)), gt.ones(2, dtype=dtype_of(right))
    expected = promoted(left, right)
    assert name_of((a + b).dtype) == expected
    assert name_of((a * b).dtype) == expected
    assert name_of(gt.maximum(a, b).dtype) == expected
    assert name_of(gt.where(gt.tensor([True, False]), a, b).dtype) == expected
    assert name_of(gt.promote_types(dtype_of(left), dtype_of(right))) == expected
    assert (a == b).dtype == gt.bool and (a + b).float().tolist() == ([1, 1] if expected == "bool" else [2, 2])
    divided = expected if expected in FLOATS else "float32"
    assert name_of((a / b).dtype) == divided
    assert name_of(gt.cat([a, b]).dtype) == expected


@pytest.mark.parametrize("left, right", PAIRS)
def test_promotion_with_zero_dim_tensors(left, right):
    """A 0-d operand counts only when its category (bool, integer, float) is higher."""
    a, b = gt.ones(2, dtype=dtype_of(left)), gt.tensor(1, dtype=dtype_of(right))
    category = lambda d: 0 if d == "bool" else 1 if d in INTS else 2  # noqa: E731
    expected = right if category(right) > category(left) else left
    assert name_of((a + b).dtype) == expected
    assert name_of((b + a).dtype) == expected
    assert name_of(gt.result_type(a, b)) == expected
    both = gt.tensor(1, dtype=dtype_of(left)) + b
    assert name_of(both.dtype) == promoted(left, right)


SCALARS = [(True, 0), (2, 1), (2.5, 2)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scalar, category", SCALARS)
def test_promotion_with_python_scalars(dtype, scalar, category):
    own = 0 if dtype == "bool" else 1 if dtype in INTS else 2
    expected = dtype if own >= category else "int64" if category == 1 else "float32"
    for shape in ((2,), ()):
        a = gt.ones(shape, dtype=dtype_of(dtype))
        assert name_of((a + scalar).dtype) == expected
        assert name_of((scalar * a).dtype) == expected
        assert (a == scalar).dtype == gt.bool
        if expected != "bool":
            assert name_of((scalar - a).dtype if dtype != "bool" and category else (a * scalar).dtype) == expected
        assert name_of((a / scalar).dtype) == (expected if expected in FLOATS else "float32")


def test_large_python_integers():
    assert (gt.tensor([1]) + 2**40).item() == 2**40 + 1
    assert (gt.tensor([1.0], dtype=gt.float64) * (2**53)).item() == 2.0**53


def test_scalars_do_not_lose_bits():
    assert (gt.tensor([1.0], dtype=gt.float64) * 0.1).item() == 0.1
    assert (gt.tensor([0.0], dtype=gt.float64) + 1e-300).item() == 1e-300
    assert (gt.tensor([1.0]) * 0.1).item() == float(np.float32(0.1))
    assert (gt.tensor([0]) + (2**62 + 1)).item() == 2**62 + 1


def test_unary_promotion_of_integers():
    for dtype in (*INTS, "bool"):
        source = gt.ones(2, dtype=dtype_of(dtype))
        assert gt.exp(source).dtype == gt.float32 and gt.sqrt(source).dtype == gt.float32
        assert gt.sigmoid(source).dtype == gt.float32
        if dtype != "bool":
            assert name_of(gt.abs(source).dtype) == dtype


def test_can_cast():
    assert gt.can_cast(gt.float32, gt.float64) and gt.can_cast(gt.float64, gt.float32)
    assert not gt.can_cast(gt.float32, gt.int64) and gt.can_cast(gt.int64, gt.float32)


# --- casts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, target", PAIRS)
def test_casts_of_small_values(source, target):
    values = [0, 1, 1] if "bool" in (source, target) else [0, 1, 100]
    made = gt.tensor(values, dtype=dtype_of(source)).to(dtype_of(target))
    assert name_of(made.dtype) == target
    assert [float(v) for v in made.tolist()] == values


@pytest.mark.parametrize("dtype", INTS)
def test_float_to_integer_truncates(dtype):
    source = gt.tensor([0.9, 1.5, 2.999, 100.1])
    assert source.to(dtype_of(dtype)).tolist() == [0, 1, 2, 100]
    if dtype != "uint8":
        assert gt.tensor([-0.9, -1.5]).to(dtype_of(dtype)).tolist() == [0, -1]


@pytest.mark.parametrize(
    "source, target",
    [
        ("int64", "int32"),
        ("int64", "int8"),
        ("int64", "uint8"),
        ("int32", "int8"),
        ("int8", "uint8"),
        ("uint8", "int8"),
    ],
)
def test_integer_casts_wrap(source, target):
    info = np.iinfo(source)
    values = np.array([info.min, info.max, -1 if info.min < 0 else 255, 100], dtype=source)
    check(gt.tensor(values).to(dtype_of(target)), values.astype(target), dtype=target)


def test_casts_to_bool():
    assert gt.tensor([0.0, -0.0, 0.1, NAN, INF]).bool().tolist() == [False, False, True, True, True]
    assert gt.tensor([0, -1, 256]).bool().tolist() == [False, True, True]


def test_casts_between_floats():
    values = np.array([1e-8, 65504.0, 65520.0, 1e30, NAN, -INF, 1 / 3])
    with np.errstate(over="ignore"):
        check(gt.tensor(values).half(), values.astype("float16"), dtype="float16", rtol=0.0, atol=0.0)
    check(gt.tensor(values).float(), values.astype("float32"), dtype="float32")
    assert gt.tensor([1 / 3]).bfloat16().float().item() == 0.333984375
    assert gt.tensor([1.00390625, 1.01171875]).bfloat16().float().tolist() == [1.0, 1.015625], "rounds half to even"
    assert gt.tensor([2049.0, 2051.0]).half().float().tolist() == [2048, 2052]
    assert np.isnan(gt.tensor([NAN]).bfloat16().float().item())
    assert gt.tensor([3.4e38]).bfloat16().float().item() == INF
    assert gt.tensor([1e-7]).half().float().item() == pytest.approx(1e-7, rel=0.2)


SPELLINGS = [
    ("float", "float32"),
    ("double", "float64"),
    ("half", "float16"),
    ("bfloat16", "bfloat16"),
    ("long", "int64"),
    ("int", "int32"),
    ("bool", "bool"),
    ("byte", "uint8"),
    ("char", "int8"),
]


@pytest.mark.parametrize("method, dtype", SPELLINGS)
def test_cast_methods(method, dtype):
    source = gt.tensor([0, 1])
    assert name_of(getattr(source, method)().dtype) == dtype
    assert name_of(source.to(dtype_of(dtype)).dtype) == dtype
    assert name_of(source.to(dtype=dtype_of(dtype)).dtype) == dtype
    assert name_of(source.type(dtype_of(dtype)).dtype) == dtype
    assert name_of(source.to(gt.zeros(1, dtype=dtype_of(dtype))).dtype) == dtype
    assert name_of(source.type_as(gt.zeros(1, dtype=dtype_of(dtype))).dtype) == dtype


def test_to_the_same_dtype_is_the_same_tensor():
    source = gt.zeros(2)
    assert source.to(gt.float32) is source and source.float() is source
    assert source.to(gt.float32, copy=True) is not source
    assert source.to("cpu", gt.float64).dtype == gt.float64
    assert source.to(device="cpu", dtype=gt.float64).dtype == gt.float64
    assert source.to(gt.float64, non_blocking=True).dtype == gt.float64


def test_casts_carry_gradients():
    source = gt.tensor([1.0, 2.0], requires_grad=True)
    source.double().pow(2).sum().backward()
    assert source.grad.dtype == gt.float32 and source.grad.tolist() == [2, 4]
    source.grad = None
    source.half().sum().backward()
    assert source.grad.tolist() == [1, 1]
    assert not source.long().requires_grad


# --- overflow --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTS)
def test_integer_overflow_wraps(dtype):
    info = np.iinfo(dtype)
    top = gt.full((70,), int(info.max), dtype=dtype_of(dtype))
    assert set((top + 1).tolist()) == {int(info.min)}
    bottom = gt.full((70,), int(info.min), dtype=dtype_of(dtype))
    assert set((bottom - 1).tolist()) == {int(info.max)}
    with np.errstate(all="ignore"):
        squared = np.full(70, info.max, dtype=dtype) * np.full(70, info.max, dtype=dtype)
    check(top * top, squared, dtype=dtype)
    target = top.clone()
    target += 1
    assert target[0].item() == int(info.min)


def test_half_overflow_is_infinite():
    assert (gt.tensor([60000.0], dtype=gt.float16) * 2).item() == INF
    assert (gt.tensor([-60000.0], dtype=gt.float16) - 60000).item() == -INF


def test_half_rounds_after_every_operation():
    a = gt.tensor(data(500, low=0, high=1), dtype=gt.float16)
    expected = ((array(a) + np.float16(1)) * np.float16(1.5) - np.float16(0.25)).astype("float16")
    np.testing.assert_array_equal(array((a + 1) * 1.5 - 0.25), expected)


# --- item, tolist, bool, int, float ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_item_and_tolist_types(dtype):
    kind = bool if dtype == "bool" else int if dtype in INTS else float
    source = gt.tensor([[1], [0]], dtype=dtype_of(dtype))
    assert type(source[0].item()) is kind and type(source.tolist()[0][0]) is kind
    assert source.tolist() == [[1], [0]]
    assert gt.tensor(1, dtype=dtype_of(dtype)).tolist() == 1


def test_python_conversions():
    assert bool(gt.tensor([True])) is True and bool(gt.tensor(0.0)) is False and bool(gt.tensor([[2]])) is True
    assert int(gt.tensor(3.9)) == 3 and float(gt.tensor(3)) == 3.0 and int(gt.tensor([7])) == 7
    assert [10, 20, 30][gt.tensor(1)] == 20 and list(range(gt.tensor(3))) == [0, 1, 2]
    assert f"{gt.tensor(1.5):.2f}" == "1.50" and round(gt.tensor(2.5).item()) == 2
    assert complex(gt.tensor(2.0)) == 2 + 0j
    with pytest.raises(RuntimeError):
        bool(gt.tensor([1, 2]))
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        int(gt.tensor([1, 2]))
    with pytest.raises(TypeError):
        [1, 2][gt.tensor(1.0)]
    with pytest.raises(RuntimeError):
        bool(gt.zeros(0))


def test_membership():
    assert 2 in gt.tensor([1, 2, 3]) and 5 not in gt.tensor([1, 2, 3])
    assert gt.tensor(2) in gt.tensor([1, 2, 3])
