"""where, masks, gathers, scatters, sorting and counting, against NumPy."""

import numpy as np
import pytest
from parity import FLOATS, INF, INTS, NAN, array, check, check_gradient, data, dtype_of, leaf

import gt

# --- where, masked_fill ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mask, left, right",
    [((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((), (3,), (3,)), ((4,), (3, 1), (1, 4)), ((0,), (0,), (1,))],
    ids=str,
)
def test_where(mask, left, right):
    m, a, b = data(*mask, dtype="bool"), data(*left, seed=1), data(*right, seed=2)
    check(gt.where(gt.tensor(m), gt.tensor(a), gt.tensor(b)), np.where(m, a, b), dtype="float64")
    check(gt.tensor(a).where(gt.tensor(m), gt.tensor(b)), np.where(m, a, b))


def test_where_with_scalars():
    m, a = data(3, 4, dtype="bool"), data(3, 4).astype("float32")
    check(gt.where(gt.tensor(m), gt.tensor(a), 0.0), np.where(m, a, 0), dtype="float32")
    check(gt.where(gt.tensor(m), 1, gt.tensor(a)), np.where(m, 1, a), dtype="float32")
    check(gt.where(gt.tensor(m), 1.0, 2.0), np.where(m, 1.0, 2.0), dtype="float32")
    check(gt.where(gt.tensor(m), 1, 2), np.where(m, 1, 2), dtype="int64")
    check(gt.where(gt.tensor(m), gt.tensor(a), float("-inf")), np.where(m, a, -INF), dtype="float32")


def test_where_promotes():
    m = gt.tensor([True, False])
    assert gt.where(m, gt.tensor([1, 2]), gt.tensor([1.5, 2.5])).dtype == gt.float32
    assert gt.where(m, gt.tensor([1, 2], dtype=gt.int32), gt.tensor([1, 2])).dtype == gt.int64


def test_where_stops_nan_gradients_only_by_selection():
    source = leaf(np.array([-1.0, 4.0]))
    gt.where(source > 0, source * 2, source * 0).sum().backward()
    assert source.grad.tolist() == [0, 2]


def test_where_of_a_condition_alone_is_nonzero():
    m = data(3, 4, dtype="bool")
    check(gt.where(gt.tensor(m)), np.where(m))


def test_masked_fill():
    m, a = data(3, 4, dtype="bool"), data(3, 4)
    check(gt.masked_fill(gt.tensor(a), gt.tensor(m), 7.0), np.where(m, 7.0, a))
    check(gt.tensor(a).masked_fill(gt.tensor(m), -INF), np.where(m, -INF, a))
    check(gt.tensor(a).masked_fill(gt.tensor(m[0]), 1), np.where(m[0], 1, a))
    check(gt.tensor(a).masked_fill(gt.tensor(m), gt.tensor(2.0)), np.where(m, 2.0, a))
    target = gt.tensor(a)
    assert target.masked_fill_(gt.tensor(m), 0) is target
    check(target, np.where(m, 0, a))
    with pytest.raises((RuntimeError, TypeError)):
        gt.tensor(a).masked_fill(gt.tensor(a), 0)
    with pytest.raises(RuntimeError):
        gt.tensor(a).masked_fill(gt.ones(5, dtype=gt.bool), 0)
    causal = gt.ones(4, 4).tril() == 0
    check(gt.zeros(2, 4, 4).masked_fill(causal, -INF)[1], np.where(np.triu(np.ones((4, 4)), 1) > 0, -INF, 0))


def test_masked_select_and_masked_scatter():
    m, a = data(3, 4, dtype="bool"), data(3, 4)
    check(gt.masked_select(gt.tensor(a), gt.tensor(m)), a[m])
    check(gt.tensor(a).masked_select(gt.tensor(m)), a[m])
    target, expected = gt.tensor(a), a.copy()
    source = data(12, seed=3)
    target.masked_scatter_(gt.tensor(m), gt.tensor(source))
    expected[m] = source[: m.sum()]
    check(target, expected)


# --- gather and scatter ----------------------------------------------------------------------------------------------

GATHERS = [
    ((5,), 0, (3,)),
    ((3, 4), 0, (2, 4)),
    ((3, 4), 1, (3, 6)),
    ((3, 4), -1, (2, 2)),
    ((2, 3, 4), 1, (2, 5, 4)),
    ((2, 3, 4), 2, (1, 3, 1)),
    ((3, 4), 1, (3, 0)),
    ((3, 4), 0, (0, 4)),
]


def positions(shape, extent, seed=0):
    return np.random.default_rng(seed).integers(0, extent, shape)


def np_gather(a, dim, index):
    a = a[tuple(slice(0, s) if d != dim % a.ndim else slice(None) for d, s in enumerate(index.shape))]
    return np.take_along_axis(a, index, axis=dim)


@pytest.mark.parametrize("shape, dim, index", GATHERS, ids=str)
def test_gather(shape, dim, index):
    a, i = data(*shape), positions(index, shape[dim])
    check(gt.gather(gt.tensor(a), dim, gt.tensor(i)), np_gather(a, dim, i))
    check(gt.tensor(a).gather(dim, gt.tensor(i)), np_gather(a, dim, i))
    check(gt.gather(gt.tensor(a), dim=dim, index=gt.tensor(i)), np_gather(a, dim, i))


@pytest.mark.parametrize("shape, dim, index", GATHERS, ids=str)
@pytest.mark.parametrize("add", [False, True])
def test_scatter(shape, dim, index, add):
    a = data(*shape)
    i = positions(index, shape[dim])
    if not add:
        # Unique targets along the dim, so that the order of writes cannot matter.
        extent = min(index[dim], shape[dim])
        index = tuple(extent if d == dim % len(index) else s for d, s in enumerate(index))
        i = np.argsort(
            np.random.default_rng(1).random(
                tuple(shape[dim] if d == dim % len(index) else s for d, s in enumerate(index))
            ),
            axis=dim,
        )
        i = i[tuple(slice(0, s) for s in index)]
    src = data(*index, seed=2)
    expected = a.copy()
    for place in np.ndindex(*i.shape):
        target = list(place)
        target[dim] = i[place]
        expected[tuple(target)] = expected[tuple(target)] + src[place] if add else src[place]
    name = "scatter_add" if add else "scatter"
    check(getattr(gt, name)(gt.tensor(a), dim, gt.tensor(i), gt.tensor(src)), expected)
    check(getattr(gt.tensor(a), name)(dim, gt.tensor(i), gt.tensor(src)), expected)
    target = gt.tensor(a)
    assert getattr(target, name + "_")(dim, gt.tensor(i), gt.tensor(src)) is target
    check(target, expected)


def test_scatter_of_a_scalar():
    one_hot = gt.zeros(3, 4).scatter_(1, gt.tensor([[2], [0], [3]]), 1.0)
    assert one_hot.tolist() == [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    check(gt.zeros(3).scatter(0, gt.tensor([1]), value=5), [0, 5, 0])


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_gather_and_scatter_by_dtype(dtype):
    a = gt.tensor([1, 2, 3], dtype=dtype_of(dtype))
    i = gt.tensor([2, 2, 0])
    check(a.gather(0, i), [3, 3, 1], dtype=dtype)
    check(a.scatter_add(0, i, gt.ones(3, dtype=dtype_of(dtype))), [2, 2, 5], dtype=dtype)


@pytest.mark.parametrize(
    "reduce, expected",
    [("sum", [4, 2, 9]), ("prod", [3, 2, 18]), ("amax", [3, 2, 6]), ("amin", [1, 2, 3]), ("mean", [2, 2, 4.5])],
)
def test_scatter_reduce(reduce, expected):
    target = gt.tensor([1.0, 2.0, 3.0])
    made = target.scatter_reduce(0, gt.tensor([0, 2]), gt.tensor([3.0, 6.0]), reduce=reduce)
    check(made, expected)


def test_gather_and_scatter_refuse():
    a = gt.zeros(3, 4)
    with pytest.raises(RuntimeError):
        a.gather(0, gt.tensor([0, 1]))
    with pytest.raises(RuntimeError):
        a.gather(0, gt.zeros(1, 4))
    with pytest.raises(RuntimeError):
        a.gather(1, gt.zeros(4, 1, dtype=gt.int64))
    with pytest.raises(IndexError):
        a.gather(2, gt.zeros(1, 1, dtype=gt.int64))
    with pytest.raises(RuntimeError):
        a.scatter(0, gt.zeros(1, 4, dtype=gt.int64), gt.zeros(1, 4, dtype=gt.float64))
    with pytest.raises((RuntimeError, IndexError)):
        a.gather(0, gt.full((1, 4), 3)).tolist()
    with pytest.raises((RuntimeError, IndexError)):
        a.scatter(0, gt.full((1, 4), 3), 1.0).tolist()


def test_take_along_dim():
    a = data(3, 4)
    order = np.argsort(a, axis=1)
    check(gt.take_along_dim(gt.tensor(a), gt.tensor(order), dim=1), np.take_along_axis(a, order, 1))
    check(gt.tensor(a).take_along_dim(gt.tensor(order), 1), np.take_along_axis(a, order, 1))
    check(gt.take_along_dim(gt.tensor(a), gt.tensor([[0]]), dim=1), a[:, :1])
    check(gt.take_along_dim(gt.tensor(a), gt.tensor([5, 0])), a.ravel()[[5, 0]])


def test_take():
    a = data(3, 4)
    check(gt.take(gt.tensor(a), gt.tensor([[0, 5], [11, 2]])), a.ravel()[[[0, 5], [11, 2]]])


# --- index_select, index_add -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("index", [[0, 2], [2, 2, 1], []])
def test_index_select(dim, index):
    a = data(3, 4, 3)
    i = np.array(index, dtype="int64")
    check(gt.index_select(gt.tensor(a), dim, gt.tensor(i)), np.take(a, i, axis=dim))
    check(gt.tensor(a).index_select(dim, gt.tensor(i)), np.take(a, i, axis=dim))
    check(gt.index_select(gt.tensor(a), dim, gt.tensor(i, dtype=gt.int32)), np.take(a, i, axis=dim))


def test_index_select_refuses():
    with pytest.raises(IndexError):
        gt.index_select(gt.zeros(3), 0, gt.tensor([[0]]))
    with pytest.raises(IndexError):
        gt.index_select(gt.zeros(3), 1, gt.tensor([0]))
    with pytest.raises((IndexError, RuntimeError)):
        gt.index_select(gt.zeros(3), 0, gt.tensor([0.5]))
    with pytest.raises((IndexError, RuntimeError)):
        gt.index_select(gt.zeros(3), 0, gt.tensor([3])).tolist()


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("alpha", [1, 2.5])
def test_index_add(dim, alpha):
    a = data(3, 4)
    i = np.array([0, 2, 0])
    src = data(*((3, 4) if dim == 0 else (3, 3)), seed=2)
    expected = a.copy()
    np.add.at(expected, (i,) if dim == 0 else (slice(None), i), alpha * src)
    check(gt.index_add(gt.tensor(a), dim, gt.tensor(i), gt.tensor(src), alpha=alpha), expected)
    target = gt.tensor(a)
    target.index_add_(dim, gt.tensor(i), gt.tensor(src), alpha=alpha)
    check(target, expected)


def test_index_fill_and_index_copy():
    check(gt.tensor([1.0, 2.0, 3.0]).index_fill(0, gt.tensor([0, 2]), 9), [9, 2, 9])
    check(
        gt.zeros(3, 2).index_copy(0, gt.tensor([2, 0]), gt.tensor([[1.0, 2.0], [3.0, 4.0]])), [[3, 4], [0, 0], [1, 2]]
    )


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape, dim",
    [((7,), 0), ((7,), -1), ((3, 6), 0), ((3, 6), 1), ((2, 3, 5), 1), ((0,), 0), ((3, 0), 1), ((1,), 0), ((2, 300), 1)],
    ids=str,
)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
def test_sort_and_argsort(shape, dim, descending, dtype):
    a = data(*shape, dtype=dtype)
    keys = -a.astype("float64") if descending else a.astype("float64")
    order = np.argsort(keys, axis=dim, kind="stable")
    expected = np.take_along_axis(a, order, axis=dim)
    made = gt.sort(gt.tensor(a), dim, descending)
    check(made.values, expected, dtype=dtype)
    made = gt.sort(gt.tensor(a), dim=dim, descending=descending, stable=True)
    check(made.indices, order, dtype="int64")
    values, indices = gt.tensor(a).sort(dim, descending=descending)
    check(values, expected)
    check(gt.take_along_dim(gt.tensor(a), indices, dim), expected)
    check(gt.argsort(gt.tensor(a), dim=dim, descending=descending, stable=True), order)


def test_sort_defaults_and_special_values():
    check(gt.sort(gt.tensor([[3.0, 1.0], [0.0, 2.0]])).values, [[1, 3], [0, 2]])
    assert gt.argsort(gt.tensor([3, 1, 2])).tolist() == [1, 2, 0]
    made = gt.sort(gt.tensor([2.0, NAN, -INF, INF, 1.0]))
    check(made.values, [-INF, 1, 2, INF, NAN])
    made = gt.sort(gt.tensor([2.0, NAN, -INF]), descending=True)
    check(made.values, [NAN, 2, -INF])
    assert gt.sort(gt.tensor(3.0)).values.item() == 3.0
    check(gt.sort(gt.tensor([True, False, True])).values, [False, True, True])


@pytest.mark.parametrize("k", [0, 1, 3, 6])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_topk(k, largest, dim):
    a = data(6, 7)
    order = np.argsort(-a if largest else a, axis=dim)
    order = np.take(order, range(k), axis=dim)
    made = gt.topk(gt.tensor(a), k, dim=dim, largest=largest)
    check(made.values, np.take_along_axis(a, order, axis=dim))
    check(made.indices, order, dtype="int64")
    values, indices = gt.tensor(a).topk(k, dim, largest, True)
    check(values, np.take_along_axis(a, order, axis=dim))


def test_topk_refuses_and_defaults():
    assert gt.topk(gt.tensor([1, 5, 3]), 2).values.tolist() == [5, 3]
    assert gt.topk(gt.tensor(4.0), 1).values.item() == 4
    with pytest.raises(RuntimeError):
        gt.topk(gt.zeros(3), 4)
    with pytest.raises(RuntimeError):
        gt.topk(gt.zeros(3), -1)
    values = gt.topk(gt.tensor([1.0, NAN, 3.0]), 2).values
    check(values, [NAN, 3])


# --- nonzero, unique, bincount ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [[0, 3, 0, 4], [[1, 0], [0, 2]], [], [0, 0], 5, 0, [True, False], [0.0, NAN, -0.0]], ids=str
)
def test_nonzero(values):
    a = np.array(values)
    check(gt.nonzero(gt.tensor(values)), np.argwhere(a), dtype="int64")
    check(gt.tensor(values).nonzero(), np.argwhere(a))
    if a.ndim:
        check(gt.nonzero(gt.tensor(values), as_tuple=True), np.nonzero(a))


UNIQUES = [[3, 1, 2, 1, 3], [1.5, -1.0, 1.5], [[2, 1], [1, 2]], [], [True, False, True], [7]]


@pytest.mark.parametrize("values", UNIQUES, ids=str)
def test_unique(values):
    a = np.array(values)
    expected, inverse, counts = np.unique(a, return_inverse=True, return_counts=True)
    check(gt.unique(gt.tensor(values)), expected)
    check(gt.tensor(values).unique(), expected)
    made = gt.unique(gt.tensor(values), return_inverse=True, return_counts=True)
    check(made[0], expected)
    check(made[1], inverse.reshape(a.shape), dtype="int64")
    check(made[2], counts, dtype="int64")
    values_only, only_counts = gt.unique(gt.tensor(values), return_counts=True)
    check(only_counts, counts)


def test_unique_of_rows():
    a = np.array([[2, 1], [1, 2], [2, 1]])
    check(gt.unique(gt.tensor(a), dim=0), np.unique(a, axis=0))
    check(gt.unique(gt.tensor(a), dim=1), np.unique(a, axis=1))
    made, inverse, counts = gt.unique(gt.tensor(a), dim=0, return_inverse=True, return_counts=True)
    assert inverse.tolist() == [1, 0, 1] and counts.tolist() == [1, 2]


def test_unique_consecutive():
    made, counts = gt.unique_consecutive(gt.tensor([1, 1, 2, 1]), return_counts=True)
    assert made.tolist() == [1, 2, 1] and counts.tolist() == [2, 1, 1]


def test_bincount():
    a = np.array([0, 3, 3, 1])
    check(gt.bincount(gt.tensor(a)), np.bincount(a), dtype="int64")
    check(gt.bincount(gt.tensor(a), minlength=6), np.bincount(a, minlength=6))
    weights = np.array([0.5, 1.0, 2.0, 4.0])
    check(gt.bincount(gt.tensor(a), gt.tensor(weights)), np.bincount(a, weights))
    check(gt.bincount(gt.tensor(a), weights=gt.tensor(weights, dtype=gt.float32)), np.bincount(a, weights))
    check(gt.bincount(gt.tensor([], dtype=gt.int64)), np.zeros(0))
    check(gt.tensor(a).bincount(), np.bincount(a))
    with pytest.raises(RuntimeError):
        gt.bincount(gt.tensor([-1])).tolist()
    with pytest.raises(RuntimeError):
        gt.bincount(gt.tensor([1.5]))
    with pytest.raises(RuntimeError):
        gt.bincount(gt.tensor([[1]]))


# --- gradients -------------------------------------------------------------------------------------------------------

INDEX = np.array([[0, 2], [1, 1], [2, 0]])
GRADIENTS = [
    ("where", lambda a, b: gt.where(gt.tensor(data(3, 4, dtype="bool")), a, b), ((3, 4), (4,))),
    ("masked_fill", lambda a: a.masked_fill(gt.tensor(data(3, 4, dtype="bool")), 2.0) ** 2, ((3, 4),)),
    ("gather-0", lambda a: a.gather(0, gt.tensor(INDEX)) ** 2, ((3, 4),)),
    ("gather-1", lambda a: a.gather(1, gt.tensor(INDEX)) ** 2, ((3, 4),)),
    ("scatter", lambda a, b: a.scatter(1, gt.tensor([[0, 2], [1, 3], [2, 0]]), b) ** 2, ((3, 4), (3, 2))),
    ("scatter_add", lambda a, b: a.scatter_add(0, gt.tensor(INDEX), b) ** 2, ((3, 4), (3, 2))),
    ("index_select", lambda a: a.index_select(1, gt.tensor([1, 1, 3])) ** 2, ((3, 4),)),
    ("index_add", lambda a, b: a.index_add(0, gt.tensor([0, 2, 0]), b, alpha=2) ** 2, ((3, 4), (3, 4))),
    ("take_along_dim", lambda a: gt.take_along_dim(a, gt.tensor(INDEX), 1) ** 2, ((3, 4),)),
    ("topk", lambda a: a.topk(2, 1).values ** 2, ((3, 4),)),
    ("sort", lambda a: a.sort(0, descending=True).values * gt.arange(12.0, dtype=gt.float64).reshape(3, 4), ((3, 4),)),
    ("masked_select", lambda a: a.masked_select(gt.tensor(data(3, 4, dtype="bool"))) ** 2, ((3, 4),)),
    ("tril", lambda a: a.tril() ** 2, ((3, 4),)),
]


@pytest.mark.parametrize("name, function, shapes", GRADIENTS, ids=[g[0] for g in GRADIENTS])
def test_gradients(name, function, shapes):
    check_gradient(function, *[data(*shape, seed=i) for i, shape in enumerate(shapes)])


def test_integer_results_carry_no_gradient():
    source = leaf(data(3, 4))
    assert not source.argmax(1).requires_grad and not source.sort(1).indices.requires_grad
    assert not (source > 0).requires_grad and not source.nonzero().requires_grad
    assert source.sort(1).values.requires_grad
    assert array(source.topk(1).indices).dtype == np.int64
