"""Indexing and assignment, against NumPy: every kind of index, alone and mixed, values and gradients."""

import numpy as np
import pytest
from parity import array, check, check_gradient, data, leaf

import gt

pytestmark = pytest.mark.transport

VALUES = np.arange(60.0).reshape(3, 4, 5)
MASK3 = np.array([True, False, True])
MASK34 = (np.arange(12).reshape(3, 4) % 3) == 0
MASK345 = VALUES % 7 < 3


class Index:
    """Spells an index as it would be written in brackets."""

    def __getitem__(self, index):
        return index


at = Index()
PLAIN = [
    at[0],
    at[-1],
    at[2, 1],
    at[0, 1, 2],
    at[-1, -1, -1],
    at[:],
    at[1:],
    at[:2],
    at[-2:],
    at[:-1],
    at[5:],
    at[1:1],
    at[2:1],
    at[::2],
    at[1::2],
    at[:, 1],
    at[:, -1, 0],
    at[:, 1:3],
    at[:, ::2, 1::3],
    at[..., 0],
    at[0, ...],
    at[...],
    at[..., 1:, ::2],
    at[1, ..., 2],
    at[None],
    at[:, None],
    at[..., None],
    at[None, ..., None],
    at[0, None, :, None],
    at[None, 0],
    at[1, :, 2],
    at[-100:100],
    at[:, :, -1:],
    at[()],
    at[1:, 1:, 1:],
    at[0:1],
    at[:0],
    at[2, 3:],
    at[:, 3:0],
    at[None, None, 0, ..., 0],
]
NUMPY_INT = [at[np.int64(1)], at[np.int32(2), np.int64(0)], at[np.int64(1) : np.int64(3)]]
# Index arrays become tensors on GT's side.
ADVANCED = [
    at[np.array([0, 2])],
    at[np.array([2, 0, 2, 1])],
    at[np.array([-1, -3])],
    at[np.array([], dtype=np.int64)],
    at[np.array(1)],
    at[np.array([[0, 1], [2, 0]])],
    at[:, np.array([0, 3])],
    at[:, :, np.array([4, 0])],
    at[..., np.array([1, 2])],
    at[np.array([0, 1]), np.array([2, 3])],
    at[np.array([0, 1]), np.array([2, 3]), np.array([4, 0])],
    at[np.array([0, 1]), :, np.array([4, 0])],
    at[:, np.array([0, 1]), np.array([4, 0])],
    at[np.array([[0], [2]]), np.array([1, 3])],
    at[np.array([0, 2]), 1],
    at[1, np.array([0, 2])],
    at[np.array([0, 2]), 1:3],
    at[1:, np.array([0, 2])],
    at[::2, np.array([0, 2]), ::2],
    at[np.array([0, 2]), None],
    at[None, np.array([0, 2])],
    at[np.array([0, 2]), ..., 0],
    at[np.array([0, 1]), ..., np.array([2, 3])],
    at[np.array([[0, 1], [1, 2]]), :, np.array([[0, 1], [1, 2]])],
    at[MASK3],
    at[MASK34],
    at[MASK345],
    at[MASK3, 1],
    at[MASK3, :, 2],
    at[:, np.array([True, False, True, True])],
    at[..., np.array([True, False, False, True, True])],
    at[MASK3, np.array([0, 3])],
    at[np.zeros(3, dtype=bool)],
    at[np.ones((3, 4), dtype=bool)],
    at[MASK34, 1:3],
    at[np.array([0, 2], dtype=np.int32)],
    at[np.array([0, 2], dtype=np.uint8).astype(np.int64)],
]
LISTS = [at[[0, 2]], at[[0, 2], [1, 3]], at[:, [1, 2]], at[[True, False, True]], at[[0, -1], :, 1]]


def spelled(index):
    """The same index with tensors for arrays."""
    if isinstance(index, tuple):
        return tuple(spelled(part) for part in index)
    return gt.tensor(index) if isinstance(index, np.ndarray) else index


def ids(indices):
    return [str(index).replace("slice", "").replace("\n", "")[:60] for index in indices]


@pytest.mark.parametrize("index", PLAIN, ids=str)
def test_plain_index(index):
    check(gt.tensor(VALUES)[index], VALUES[index])


NEGATIVE_STEPS = [
    at[::-1],
    at[:, ::-2],
    at[2:0:-1],
    at[..., -1:1:-1],
    at[1, ::-1, ::2],
    at[::-1, None, 1],
    at[::-3, ::-3, ::-3],
    at[0:2:-1],
]


@pytest.mark.parametrize("index", NEGATIVE_STEPS, ids=str)
def test_negative_steps_are_numpys(index):
    """PyTorch refuses them; GT reads, writes and differentiates them as NumPy would."""
    check(gt.tensor(VALUES)[index], VALUES[index])
    target, expected = gt.tensor(VALUES), VALUES.copy()
    target[index] = gt.tensor(-VALUES[index])
    expected[index] = -VALUES[index]
    check(target, expected)
    source = leaf(VALUES)
    weights = data(*VALUES[index].shape)
    source[index].backward(gt.tensor(weights))
    expected = np.zeros_like(VALUES)
    np.add.at(expected, index, weights)
    check(source.grad, expected)


@pytest.mark.parametrize("index", NUMPY_INT, ids=str)
def test_numpy_integers_in_an_index(index):
    check(gt.tensor(VALUES)[index], VALUES[index])


@pytest.mark.parametrize("index", ADVANCED, ids=ids(ADVANCED))
def test_index_by_tensors(index):
    check(gt.tensor(VALUES)[spelled(index)], VALUES[index])


def test_an_integer_beside_index_tensors_selects_first():
    """PyTorch takes the integer as a select, so the result keeps its place; NumPy would move it to the front."""
    made = gt.tensor(VALUES)[1, :, gt.tensor([0, 2])]
    check(made, VALUES[1][:, [0, 2]])


@pytest.mark.parametrize("index", LISTS, ids=str)
def test_index_by_lists(index):
    check(gt.tensor(VALUES)[index], VALUES[index])


@pytest.mark.parametrize("index", ADVANCED[:8], ids=ids(ADVANCED[:8]))
def test_index_by_arrays(index):
    check(gt.tensor(VALUES)[index], VALUES[index])


@pytest.mark.parametrize("index", ADVANCED, ids=ids(ADVANCED))
def test_index_by_tensors_of_a_view(index):
    base = np.arange(240.0).reshape(6, 5, 8).transpose(0, 2, 1)[::2, ::2]
    source = gt.tensor(np.arange(240.0).reshape(6, 5, 8)).permute(0, 2, 1)[::2, ::2]
    check(source[spelled(index)], base[index])


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8", "float16", "float32"])
def test_index_other_dtypes(dtype):
    values = data(3, 4, 5, dtype=dtype)
    source = gt.tensor(values)
    check(source[gt.tensor([2, 0])], values[[2, 0]], dtype=dtype)
    check(source[gt.tensor(MASK34)], values[MASK34], dtype=dtype)
    check(source[1:, ::2], values[1:, ::2], dtype=dtype)


def test_bool_and_none_indices():
    source = gt.tensor(VALUES)
    check(source[True], VALUES[True])
    check(source[False], VALUES[False])
    check(source[gt.tensor(True)], VALUES[np.array(True)])


def test_index_by_zero_dim_tensors():
    source = gt.tensor(VALUES)
    check(source[gt.tensor(1)], VALUES[1])
    check(source[gt.tensor(1), gt.tensor(2)], VALUES[1, 2])
    check(source[1:, gt.tensor(0)], VALUES[1:, 0])
    check(source[: gt.tensor(2)], VALUES[:2])


def test_index_zero_dims_and_empty():
    scalar = gt.tensor(5.0)
    assert scalar[...].item() == 5 and scalar[None].shape == (1,) and scalar[()].item() == 5
    assert gt.zeros(0, 3)[:, 1].shape == (0,)
    assert gt.zeros(0)[gt.tensor([], dtype=gt.int64)].shape == (0,)
    assert gt.zeros(3, 0)[gt.tensor([0, 2])].shape == (2, 0)
    with pytest.raises(IndexError):
        scalar[0]


# --- assignment ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", PLAIN, ids=str)
def test_assign_scalars_and_tensors_by_plain_index(index):
    for value in (7, -1.5, True):
        target, expected = gt.tensor(VALUES), VALUES.copy()
        target[index] = value
        expected[index] = value
        check(target, expected)
    shape = VALUES[index].shape
    update = data(*shape)
    target, expected = gt.tensor(VALUES), VALUES.copy()
    target[index] = gt.tensor(update)
    expected[index] = update
    check(target, expected)


def first_of_each(index):
    """Whether no element is written twice, so that the order of writes cannot matter."""
    counts = np.zeros(VALUES.shape, dtype=int)
    np.add.at(counts, index, 1)
    return counts.max(initial=0) <= 1


ASSIGNABLE = [index for index in ADVANCED if first_of_each(index)]


@pytest.mark.parametrize("index", ASSIGNABLE, ids=ids(ASSIGNABLE))
def test_assign_by_tensors(index):
    target, expected = gt.tensor(VALUES), VALUES.copy()
    target[spelled(index)] = 7.5
    expected[index] = 7.5
    check(target, expected)
    update = data(*VALUES[index].shape)
    target, expected = gt.tensor(VALUES), VALUES.copy()
    target[spelled(index)] = gt.tensor(update)
    expected[index] = update
    check(target, expected)


@pytest.mark.parametrize("index", [at[0], at[:, 1], at[..., 2], at[1:, ::2], at[np.array([0, 2])], at[MASK3]], ids=str)
def test_assign_broadcasts(index):
    shape = VALUES[index].shape
    update = data(shape[-1])
    target, expected = gt.tensor(VALUES), VALUES.copy()
    target[spelled(index)] = gt.tensor(update)
    expected[index] = update
    check(target, expected)


def test_assign_converts_to_the_target_dtype():
    target = gt.zeros(3, dtype=gt.int64)
    target[0] = 2.9
    target[1:] = gt.tensor([3.7, -3.7])
    assert target.tolist() == [2, 3, -3] and target.dtype == gt.int64
    flags = gt.zeros(3, dtype=gt.bool)
    flags[1] = 5
    assert flags.tolist() == [False, True, False]


@pytest.mark.parametrize("symbol", ["+=", "-=", "*=", "/="])
@pytest.mark.parametrize("index", [at[0], at[1:, ::2], at[..., 1], at[np.array([0, 2])], at[MASK34]], ids=str)
def test_augmented_assignment(symbol, index):
    target, expected = gt.tensor(VALUES), VALUES.copy()
    spaces = ({"x": target, "i": spelled(index)}, {"x": expected, "i": index})
    for space in spaces:
        exec(f"x[i] {symbol} 3.0", space)
    check(target, expected)


def test_assign_through_a_chain_of_views():
    target, expected = gt.tensor(VALUES), VALUES.copy()
    target[1:][:, ::2].permute(2, 0, 1)[1][0] = -9.0
    expected[1:][:, ::2].transpose(2, 0, 1)[1][0] = -9.0
    check(target, expected)
    matrix = gt.tensor(VALUES[0])
    matrix.T[0] = 0
    assert matrix[:, 0].tolist() == [0, 0, 0, 0] and matrix[0, 1].item() == 1


def test_assign_lists_and_arrays():
    target = gt.zeros(2, 3)
    target[0] = gt.tensor([1.0, 2.0, 3.0])
    target[1, :2] = gt.tensor(np.array([4.0, 5.0]))
    assert target.tolist() == [[1, 2, 3], [4, 5, 0]]
    target[:, [0, 2]] = 9
    assert target.tolist() == [[9, 2, 9], [9, 5, 9]]


def test_assign_shape_mismatch_is_refused():
    target = gt.zeros(3, 4)
    with pytest.raises(RuntimeError):
        target[0] = gt.zeros(3)
    with pytest.raises(RuntimeError):
        target[:2] = gt.zeros(3, 4)
    with pytest.raises((RuntimeError, IndexError)):
        target[gt.tensor([0, 1])] = gt.zeros(3, 4)
    assert target.sum().item() == 0


def test_assign_self_overlap():
    target = gt.arange(6.0)
    target[1:] = target[:-1].clone()
    assert target.tolist() == [0, 0, 1, 2, 3, 4]
    target = gt.arange(6.0)
    target[:] = target.flip(0)
    assert target.tolist() == [5, 4, 3, 2, 1, 0]


def test_last_write_by_mask_with_values():
    target = gt.zeros(5)
    target[gt.tensor([True, False, True, False, True])] = gt.tensor([1.0, 2.0, 3.0])
    assert target.tolist() == [1, 0, 2, 0, 3]
    target[target > 1] = 0
    assert target.tolist() == [1, 0, 0, 0, 0]
    target[target == 0] += 5
    assert target.tolist() == [1, 5, 5, 5, 5]


# --- index_put, index_fill, take -------------------------------------------------------------------------------------


def test_index_put():
    target = gt.zeros(3, 3)
    target.index_put_((gt.tensor([0, 1]), gt.tensor([2, 0])), gt.tensor([5.0, 6.0]))
    assert target.tolist() == [[0, 0, 5], [6, 0, 0], [0, 0, 0]]
    target.index_put_((gt.tensor([0, 0]), gt.tensor([2, 2])), gt.tensor([1.0, 1.0]), accumulate=True)
    assert target[0, 2].item() == 7


# --- wrong indices ---------------------------------------------------------------------------------------------------

WRONG_NOW = [
    (at[3], IndexError),
    (at[-4], IndexError),
    (at[0, 4], IndexError),
    (at[0, 0, 0, 0], IndexError),
    (at[..., 5], IndexError),
    (at[0, ..., 0, 0, 0], IndexError),
    (at["a"], (IndexError, TypeError)),
    (at[1.5], (IndexError, TypeError)),
    (at[::0], ValueError),
]


@pytest.mark.parametrize("index, error", WRONG_NOW, ids=[str(w[0]) for w in WRONG_NOW])
def test_wrong_index_raises_at_once(index, error):
    source = gt.tensor(VALUES)
    with pytest.raises(error):
        source[index]
    with pytest.raises(error):
        source[index] = 0


def test_mask_of_the_wrong_shape_raises():
    for mask in (gt.ones(4, dtype=gt.bool), gt.ones(3, 5, dtype=gt.bool)):
        with pytest.raises(IndexError):
            gt.tensor(VALUES)[mask].tolist()


def test_float_tensor_index_raises():
    with pytest.raises(IndexError):
        gt.tensor(VALUES)[gt.tensor([0.0, 1.0])]


def test_index_tensors_that_do_not_broadcast_raise():
    with pytest.raises(IndexError):
        gt.tensor(VALUES)[gt.tensor([0, 1]), gt.tensor([0, 1, 2])]


@pytest.mark.parametrize("bad", [3, -4, 100])
def test_index_tensor_out_of_range_raises_at_the_read(bad):
    source = gt.tensor(VALUES)
    with pytest.raises(IndexError):
        source[gt.tensor([0, bad])].tolist()
    check(source[0], VALUES[0])


# --- gradients -------------------------------------------------------------------------------------------------------

GRADIENT_PLAIN = [at[0], at[1:, ::2], at[..., 1], at[:, None, 2], at[-1, 1:3], at[1, 2, 3], at[:0]]
GRADIENT_ADVANCED = [ADVANCED[i] for i in (0, 1, 2, 5, 6, 9, 11, 13, 14, 18, 22, 24, 25, 26, 28)]


@pytest.mark.parametrize("index", [*GRADIENT_PLAIN, *GRADIENT_ADVANCED], ids=ids([*GRADIENT_PLAIN, *GRADIENT_ADVANCED]))
def test_gradient_of_reading(index):
    source = leaf(VALUES)
    out = source[spelled(index)]
    weights = data(*out.shape)
    out.backward(gt.tensor(weights))
    expected = np.zeros_like(VALUES)
    np.add.at(expected, index, weights)
    check(source.grad, expected)


@pytest.mark.parametrize(
    "index",
    [at[0], at[1:, ::2], at[..., 1], at[np.array([0, 2])], at[MASK34], at[np.array([0, 1]), np.array([2, 3])]],
    ids=str,
)
def test_gradient_of_writing(index):
    base, update = leaf(VALUES), leaf(data(*VALUES[index].shape))
    target = base * 2
    target[spelled(index)] = update
    weights = data(*VALUES.shape, seed=3)
    (target * gt.tensor(weights)).sum().backward()
    expected = 2 * weights
    expected[index] = 0
    check(base.grad, expected)
    check(update.grad, weights[index])


def test_gradient_of_broadcast_write():
    base, update = leaf(data(3, 4)), leaf(np.array(2.0))
    target = base * 1
    target[:, 1:3] = update
    target.sum().backward()
    assert update.grad.item() == 6
    assert array(base.grad).sum() == 6


def test_gradients_by_differences():
    rows = gt.tensor([2, 0, 2])

    def write(x, v):
        y = x * 1
        y[1:, 0] = v * 3
        y[0] *= 2
        return y * y

    check_gradient(write, data(3, 4), data(2))
    check_gradient(lambda x: x[rows] * x[rows], data(3, 4))
    check_gradient(lambda x: x[x.detach() > 0] ** 3, data(3, 4))
