"""Making tensors: values, shapes, dtypes and the keywords every creation function takes."""

import numpy as np
import pytest
from parity import DTYPES, FLOATS, INF, INTS, NAN, array, check, data, dtype_of, name_of, same

import gt

pytestmark = pytest.mark.transport

# --- gt.tensor -------------------------------------------------------------------------------------------------------

LITERALS = [
    (5, [], "int64"),
    (-5, [], "int64"),
    (2**40, [], "int64"),
    (1.5, [], "float32"),
    (True, [], "bool"),
    ([], [0], "float32"),
    ([[]], [1, 0], "float32"),
    ([[], []], [2, 0], "float32"),
    ([[[]]], [1, 1, 0], "float32"),
    ([1, 2, 3], [3], "int64"),
    ((1, 2, 3), [3], "int64"),
    (range(4), [4], "int64"),
    ([1, 2.5], [2], "float32"),
    ([True, False], [2], "bool"),
    ([True, 2], [2], "int64"),
    ([True, 2.5], [2], "float32"),
    ([[1, 2], [3, 4]], [2, 2], "int64"),
    ([(1, 2), (3, 4)], [2, 2], "int64"),
    ([[[1.0]], [[2.0]]], [2, 1, 1], "float32"),
    ([INF, -INF, NAN], [3], "float32"),
    ([1e-45, 1e38], [2], "float32"),
]


@pytest.mark.parametrize("value, shape, dtype", LITERALS, ids=[repr(case[0]) for case in LITERALS])
def test_tensor_of_python_values(value, shape, dtype):
    made = gt.tensor(value)
    assert list(made.shape) == shape
    assert name_of(made.dtype) == dtype
    expected = np.array(value, dtype=dtype).reshape(shape)
    check(made, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensor_with_a_dtype(dtype):
    made = gt.tensor([0, 1, 2], dtype=dtype_of(dtype))
    assert name_of(made.dtype) == dtype
    assert made.tolist() == ([False, True, True] if dtype == "bool" else [0, 1, 2])


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_tensor_of_an_array_keeps_its_dtype(dtype):
    values = data(3, 4, dtype=dtype)
    for make in (gt.tensor, gt.as_tensor, gt.from_numpy):
        made = make(values)
        assert name_of(made.dtype) == dtype
        check(made, values)


def test_tensor_of_numpy_scalars():
    assert gt.tensor(np.float64(1.5)).dtype == gt.float64
    assert gt.tensor(np.float32(1.5)).dtype == gt.float32
    assert gt.tensor(np.int32(7)).dtype == gt.int32
    assert gt.tensor(np.bool_(True)).dtype == gt.bool
    assert gt.tensor(np.int64(7)).item() == 7
    assert gt.tensor([np.float32(1.0), np.float32(2.0)]).tolist() == [1.0, 2.0]


def test_tensor_of_tensors_and_lists_of_tensors():
    source = gt.tensor([1.0, 2.0])
    copy = source.clone()
    source.add_(1)
    assert copy.tolist() == [1.0, 2.0]
    assert gt.tensor([gt.tensor(1), gt.tensor(2)]).tolist() == [1, 2]
    assert gt.tensor([gt.tensor(1.5), 2]).tolist() == [1.5, 2.0]


def test_as_tensor_of_a_tensor_is_that_tensor():
    source = gt.tensor([1.0, 2.0])
    assert gt.as_tensor(source) is source
    assert gt.as_tensor(source, dtype=gt.float32) is source
    converted = gt.as_tensor(source, dtype=gt.float64)
    assert converted.dtype == gt.float64
    assert gt.as_tensor([1, 2]).dtype == gt.int64
    assert gt.as_tensor(3.5).item() == 3.5


@pytest.mark.parametrize(
    "values",
    [
        data(4, 5)[::-1],
        data(4, 5)[:, ::-2],
        data(4, 5).T,
        data(4, 5, 6).transpose(2, 0, 1),
        np.broadcast_to(data(1, 5), (4, 5)),
        np.asfortranarray(data(3, 4)),
        data(4, 5)[1:3, 2:2],
        data(3, 4).astype(">f8"),
    ],
    ids=["reversed", "negative-step", "transposed", "permuted", "broadcast", "fortran", "empty", "big-endian"],
)
def test_tensor_of_strided_arrays(values):
    try:
        made = gt.tensor(values)
    except (TypeError, ValueError):
        # PyTorch refuses negative strides and foreign byte orders; a copy is as good.
        assert values.dtype.byteorder == ">" or min(values.strides) < 0
        return
    check(made, values)


def test_tensor_takes_its_copy_at_the_call():
    values = np.ones(4)
    made = gt.tensor(values)
    values[:] = 7
    assert made.tolist() == [1, 1, 1, 1]


def test_ragged_nests_are_refused():
    with pytest.raises(ValueError):
        gt.tensor([[1, 2], [3]])
    with pytest.raises((ValueError, TypeError)):
        gt.tensor([[1, 2], 3])


@pytest.mark.parametrize("value", ["abc", ["a"], object(), {1: 2}, [None]])
def test_values_that_are_no_numbers_are_refused(value):
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        gt.tensor(value)


def test_int_out_of_range_is_refused():
    with pytest.raises((RuntimeError, OverflowError, ValueError)):
        gt.tensor(2**70)


@pytest.mark.parametrize("dtype", FLOATS)
def test_requires_grad_keyword(dtype):
    made = gt.tensor([1.0], dtype=dtype_of(dtype), requires_grad=True)
    assert made.requires_grad and made.is_leaf and made.grad is None


@pytest.mark.parametrize("dtype", [*INTS, "bool"])
def test_requires_grad_needs_a_float(dtype):
    with pytest.raises(RuntimeError):
        gt.tensor([1], dtype=dtype_of(dtype), requires_grad=True)


# --- filled tensors --------------------------------------------------------------------------------------------------

SHAPES = [(), (0,), (1,), (5,), (2, 3), (2, 0, 3), (2, 1, 3, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_ones_full_empty(shape, dtype):
    of = dtype_of(dtype)
    check(gt.zeros(shape, dtype=of), np.zeros(shape), dtype=dtype)
    check(gt.ones(shape, dtype=of), np.ones(shape), dtype=dtype)
    check(gt.full(shape, 1, dtype=of), np.ones(shape), dtype=dtype)
    assert tuple(gt.empty(shape, dtype=of).shape) == shape
    assert gt.empty(shape, dtype=of).dtype == of


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_shapes_in_every_spelling(name):
    make = getattr(gt, name)
    for made in (make(2, 3), make((2, 3)), make([2, 3]), make(gt.Size([2, 3])), make(size=(2, 3))):
        assert made.shape == (2, 3)
    assert make(()).shape == ()
    assert make(4).shape == (4,)
    assert make(0).shape == (0,)
    assert make(2, 3, dtype=gt.float64).dtype == gt.float64
    assert make(2, 3, requires_grad=True).requires_grad
    assert make(2, 3, device="cpu").shape == (2, 3)
    assert make(2, 3).dtype == gt.float32


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_negative_sizes_are_refused(name):
    with pytest.raises((RuntimeError, ValueError)):
        getattr(gt, name)(2, -1)


def test_sizes_must_be_integers():
    with pytest.raises(TypeError):
        gt.zeros(2.5)
    with pytest.raises(TypeError):
        gt.zeros("2")


def test_sizes_may_be_numpy_integers_and_tensors():
    assert gt.zeros(np.int64(3), np.int32(2)).shape == (3, 2)
    assert gt.zeros(gt.tensor(3).item(), 2).shape == (3, 2)


FULLS = [(2, "int64"), (2.5, "float32"), (True, "bool"), (-1, "int64"), (INF, "float32"), (NAN, "float32")]


@pytest.mark.parametrize("value, dtype", FULLS)
def test_full_takes_its_dtype_from_the_value(value, dtype):
    check(gt.full((2, 3), value), np.full((2, 3), value), dtype=dtype)
    check(gt.full((2, 3), value, dtype=gt.float64), np.full((2, 3), value, dtype=np.float64), dtype="float64")


def test_full_with_a_tensor_value():
    check(gt.full((2,), gt.tensor(3.0)), np.full(2, 3.0), dtype="float32")


LIKES = ["zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"]


@pytest.mark.parametrize("name", LIKES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_likes(name, shape):
    source = gt.zeros(shape, dtype=gt.float64)
    made = getattr(gt, name)(source)
    assert made.shape == source.shape and made.dtype == gt.float64 and not made.requires_grad
    narrowed = getattr(gt, name)(source, dtype=gt.float32)
    assert narrowed.dtype == gt.float32
    assert getattr(gt, name)(source, requires_grad=True).requires_grad


def test_like_values():
    source = gt.tensor([[1, 2, 3]])
    check(gt.zeros_like(source), np.zeros((1, 3)), dtype="int64")
    check(gt.ones_like(source), np.ones((1, 3)), dtype="int64")
    check(gt.full_like(source, 7), np.full((1, 3), 7), dtype="int64")
    check(gt.full_like(source, 2.5, dtype=gt.float32), np.full((1, 3), 2.5), dtype="float32")
    drawn = gt.randint_like(source, 5)
    assert drawn.dtype == gt.int64 and ((drawn >= 0) & (drawn < 5)).all()
    drawn = gt.randint_like(source, 3, 5)
    assert ((drawn >= 3) & (drawn < 5)).all()


def test_likes_do_not_follow_requires_grad():
    assert not gt.zeros_like(gt.ones(2, requires_grad=True)).requires_grad


def test_new_constructors():
    source = gt.zeros(2, dtype=gt.float64)
    check(source.new_zeros(3), np.zeros(3), dtype="float64")
    check(source.new_zeros((2, 3)), np.zeros((2, 3)), dtype="float64")
    check(source.new_ones(2, 2), np.ones((2, 2)), dtype="float64")
    check(source.new_full((2,), 3.0), np.full(2, 3.0), dtype="float64")
    check(source.new_tensor([1, 2]), np.array([1, 2]), dtype="float64")
    assert source.new_empty(3).shape == (3,)
    assert source.new_zeros(3, dtype=gt.int64).dtype == gt.int64


# --- sequences -------------------------------------------------------------------------------------------------------

ARANGES = [
    ((5,), "int64"),
    ((0,), "int64"),
    ((2, 7), "int64"),
    ((2, 7, 2), "int64"),
    ((7, 2, -2), "int64"),
    ((-3, 3), "int64"),
    ((2, 2), "int64"),
    ((5.0,), "float32"),
    ((0, 1, 0.25), "float32"),
    ((0.0, 1.0, 0.3), "float32"),
    ((1.0, -1.0, -0.5), "float32"),
    ((1, 2.5), "float32"),
    ((0, 10, 3), "int64"),
    ((2**40, 2**40 + 3), "int64"),
]


@pytest.mark.parametrize("arguments, dtype", ARANGES, ids=[str(c[0]) for c in ARANGES])
def test_arange(arguments, dtype):
    check(gt.arange(*arguments), np.arange(*arguments), dtype=dtype)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_arange_with_a_dtype(dtype):
    check(gt.arange(6, dtype=dtype_of(dtype)), np.arange(6), dtype=dtype)


def test_arange_keywords():
    check(gt.arange(end=4), np.arange(4))
    check(gt.arange(start=1, end=4), np.arange(1, 4))
    check(gt.arange(start=1, end=10, step=3), np.arange(1, 10, 3))
    assert gt.arange(3.0, requires_grad=True).requires_grad
    assert gt.arange(3, device="cpu").shape == (3,)


@pytest.mark.parametrize("arguments", [(0, 5, 0), (5, 0), (0, 5, -1)])
def test_arange_that_leads_nowhere_is_refused(arguments):
    with pytest.raises((RuntimeError, ValueError)):
        gt.arange(*arguments)


LINSPACES = [(0, 1, 5), (0, 1, 1), (0, 1, 0), (-3, 3, 7), (1, 0, 4), (0, 10, 11), (2.5, 2.5, 3), (0, 1, 1000)]


@pytest.mark.parametrize("start, end, steps", LINSPACES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linspace(start, end, steps, dtype):
    made = gt.linspace(start, end, steps, dtype=dtype_of(dtype))
    check(made, np.linspace(start, end, steps), dtype=dtype)
    check(gt.linspace(start, end, steps=steps), np.linspace(start, end, steps), dtype="float32")


def test_linspace_ends_exactly():
    made = gt.linspace(-1, 1, 101)
    assert made[0].item() == -1 and made[-1].item() == 1
    assert (made + made.flip(0)).abs().max().item() <= 1e-7


def test_linspace_needs_a_count_that_is_not_negative():
    with pytest.raises((RuntimeError, ValueError)):
        gt.linspace(0, 1, -1)


@pytest.mark.parametrize("arguments", [(3,), (0,), (1,), (2, 4), (4, 2), (3, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
def test_eye(arguments, dtype):
    check(gt.eye(*arguments, dtype=dtype_of(dtype)), np.eye(*arguments), dtype=dtype)
    assert gt.eye(*arguments).dtype == gt.float32


# --- Tensor and Size -------------------------------------------------------------------------------------------------


def test_size_is_a_tuple():
    size = gt.zeros(2, 3).shape
    assert isinstance(size, gt.Size) and isinstance(size, tuple)
    assert size == (2, 3) and size == gt.Size([2, 3]) and size[0] == 2 and len(size) == 2
    assert size.numel() == 6 and gt.Size([]).numel() == 1
    assert repr(size).endswith("Size([2, 3])")
    assert hash(size) == hash((2, 3))
    rows, columns = size
    assert (rows, columns) == (2, 3)
    assert isinstance(size[1:], gt.Size)
    assert list(size) == [2, 3]
    assert size + (4,) == (2, 3, 4)
    assert tuple(reversed(size)) == (3, 2)


def test_sizes_and_counts():
    made = gt.zeros(2, 3, 4)
    assert made.size() == (2, 3, 4) and made.size(0) == 2 and made.size(-1) == 4 and made.size(dim=1) == 3
    assert made.dim() == made.ndim == made.ndimension() == 3
    assert made.numel() == made.nelement() == gt.numel(made) == 24
    assert len(made) == 2
    assert gt.tensor(1.0).dim() == 0 and gt.tensor(1.0).numel() == 1
    assert gt.zeros(0, 3).numel() == 0 and len(gt.zeros(0, 3)) == 0
    assert made.element_size() == 4 and made.nbytes == 96 and made.itemsize == 4
    with pytest.raises(TypeError):
        len(gt.tensor(1.0))
    with pytest.raises(IndexError):
        made.size(3)
    with pytest.raises(IndexError):
        made.size(-4)


def test_is_tensor_and_the_constructor():
    assert isinstance(gt.zeros(1), gt.Tensor) and gt.is_tensor(gt.zeros(1)) and not gt.is_tensor(1)
    assert gt.Tensor([1, 2]).dtype == gt.float32
    assert gt.Tensor([1, 2]).tolist() == [1, 2]
    assert gt.Tensor(2, 3).shape == (2, 3)


def test_default_dtype():
    assert gt.get_default_dtype() == gt.float32
    gt.set_default_dtype(gt.float64)
    try:
        assert gt.tensor(1.5).dtype == gt.float64 and gt.zeros(2).dtype == gt.float64
        assert gt.tensor(1).dtype == gt.int64
    finally:
        gt.set_default_dtype(gt.float32)


# --- meshgrid and clones ---------------------------------------------------------------------------------------------


def test_meshgrid():
    a, b, c = gt.arange(2), gt.arange(3), gt.arange(4)
    arrays = [np.arange(n) for n in (2, 3, 4)]
    check(gt.meshgrid(a, b, indexing="ij"), np.meshgrid(*arrays[:2], indexing="ij"))
    check(gt.meshgrid(a, b, indexing="xy"), np.meshgrid(*arrays[:2], indexing="xy"))
    check(gt.meshgrid(a, b, c, indexing="ij"), np.meshgrid(*arrays, indexing="ij"))
    check(gt.meshgrid([a, b], indexing="ij"), np.meshgrid(*arrays[:2], indexing="ij"))
    check(gt.meshgrid(a, indexing="ij"), np.meshgrid(arrays[0], indexing="ij"))
    check(gt.meshgrid(gt.tensor(1), b, indexing="ij"), np.meshgrid(np.array(1), arrays[1], indexing="ij"))
    with pytest.raises(RuntimeError):
        gt.meshgrid(gt.zeros(2, 2), b, indexing="ij")


def test_clone_is_a_copy_with_a_gradient():
    source = gt.tensor([1.0, 2.0], requires_grad=True)
    copy = source.clone()
    assert copy is not source and copy.requires_grad and not copy.is_leaf
    same(copy, source)
    copy.sum().backward()
    assert source.grad.tolist() == [1, 1]
    plain = source.detach().clone()
    plain.add_(1)
    assert source.tolist() == [1, 2] and gt.clone(plain).tolist() == [2, 3]


def test_empty_like_of_a_view_has_its_shape():
    assert gt.empty_like(gt.zeros(3, 4).T).shape == (4, 3)
    assert array(gt.zeros_like(gt.ones(3, 4)[:, ::2])).shape == (3, 2)
