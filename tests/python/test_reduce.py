"""Reductions and scans against NumPy: dims in every spelling, empty and 0-d tensors, NaN, integer sums."""

import numpy as np
import pytest
from parity import DTYPES, FLOATS, INF, INTS, NAN, array, check, check_gradient, data, dtype_of, leaf

import gt


def np_logsumexp(x, axis=None, keepdims=False):
    peak = np.max(x, axis=axis, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(x - peak), axis=axis, keepdims=True)) + peak
    return total if keepdims else np.squeeze(total, axis=axis)


# name, NumPy's, whether a tuple of dims is taken, whether it can be called with no dim
REDUCTIONS = [
    ("sum", np.sum, True, True),
    ("mean", np.mean, True, True),
    ("amax", np.max, True, True),
    ("amin", np.min, True, True),
    ("prod", np.prod, False, True),
    ("var", lambda x, axis=None, keepdims=False: np.var(x, axis=axis, keepdims=keepdims, ddof=1), True, True),
    ("std", lambda x, axis=None, keepdims=False: np.std(x, axis=axis, keepdims=keepdims, ddof=1), True, True),
    ("logsumexp", np_logsumexp, True, False),
    ("argmax", np.argmax, False, True),
    ("argmin", np.argmin, False, True),
]
IDS = [r[0] for r in REDUCTIONS]
DIMS = [
    ((5,), 0),
    ((5,), -1),
    ((3, 4), 0),
    ((3, 4), 1),
    ((3, 4), -2),
    ((2, 3, 4), 1),
    ((2, 3, 4), -1),
    ((2, 1, 4), 1),
    ((2, 3, 67), 2),
    ((130, 3), 0),
]
TUPLES = [
    ((2, 3, 4), (0, 1)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (-1, 0)),
    ((2, 3, 4), (0, 1, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((3, 4), (1,)),
]


@pytest.mark.parametrize("name, function, tuples, whole", REDUCTIONS, ids=IDS)
@pytest.mark.parametrize("shape, dim", DIMS, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_one_dim(name, function, tuples, whole, shape, dim, keepdim):
    values = data(*shape)
    source = gt.tensor(values)
    with np.errstate(all="ignore"):
        expected = function(values, axis=dim, keepdims=keepdim)
    check(getattr(gt, name)(source, dim=dim, keepdim=keepdim), expected)
    check(getattr(source, name)(dim=dim, keepdim=keepdim), expected)
    check(getattr(source, name)(dim, keepdim=keepdim), expected)


@pytest.mark.parametrize(
    "name, function, tuples, whole", [r for r in REDUCTIONS if r[2]], ids=[r[0] for r in REDUCTIONS if r[2]]
)
@pytest.mark.parametrize("shape, dims", TUPLES, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_tuples_of_dims(name, function, tuples, whole, shape, dims, keepdim):
    values = data(*shape)
    expected = function(values, axis=dims, keepdims=keepdim)
    check(getattr(gt, name)(gt.tensor(values), dim=dims, keepdim=keepdim), expected)
    check(getattr(gt.tensor(values), name)(list(dims), keepdim=keepdim), expected)


@pytest.mark.parametrize(
    "name, function, tuples, whole", [r for r in REDUCTIONS if r[3]], ids=[r[0] for r in REDUCTIONS if r[3]]
)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (1,), (1, 1), (4, 300)], ids=str)
def test_every_dim(name, function, tuples, whole, shape):
    values = data(*shape)
    with np.errstate(all="ignore"):
        expected = function(values)
    if name in ("var", "std") and values.size == 1:
        expected = np.array(NAN)
    check(getattr(gt, name)(gt.tensor(values)), expected)
    check(getattr(gt.tensor(values), name)(), expected)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod", "argmax", "argmin"])
def test_zero_dimensions(name):
    source = gt.tensor(3.5)
    expected = 0 if name.startswith("arg") else 3.5
    assert getattr(source, name)().item() == expected
    assert getattr(source, name)(dim=0).item() == expected
    assert getattr(source, name)(dim=-1).shape == ()


@pytest.mark.parametrize(
    "name, function, tuples, whole", [r for r in REDUCTIONS if r[0] not in ("argmax", "argmin")], ids=IDS[:-2]
)
def test_axis_and_keepdims_are_synonyms(name, function, tuples, whole):
    values = data(3, 4)
    source = gt.tensor(values)
    check(getattr(gt, name)(source, axis=1), function(values, axis=1))
    check(getattr(source, name)(axis=0, keepdims=True), function(values, axis=0, keepdims=True))


# --- dtypes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_and_prod_of_dtypes(dtype):
    source = gt.tensor([[1, 1, 0], [1, 1, 1]], dtype=dtype_of(dtype))
    wide = dtype if dtype in FLOATS else "int64"
    check(source.sum(), 5, dtype=wide)
    check(source.sum(0), [2, 2, 1], dtype=wide)
    check(source.prod(1), [0, 1], dtype=wide)
    check(source.cumsum(1), [[1, 2, 2], [1, 2, 3]], dtype=wide)
    check(source.cumprod(1), [[1, 1, 0], [1, 1, 1]], dtype=wide)
    check(source.sum(dtype=gt.float64), 5, dtype="float64")
    check(gt.sum(source, 0, dtype=gt.float32), [2, 2, 1], dtype="float32")
    check(source.amax(), 1, dtype=dtype)
    if dtype != "bool":
        check(source.argmax(1), [0, 0], dtype="int64")
    check(source.any(), True, dtype="bool" if dtype != "uint8" else "uint8")
    check(source.max(), 1, dtype=dtype)


@pytest.mark.parametrize("dtype", INTS)
def test_integer_sums_do_not_wrap_below_int64(dtype):
    top = np.iinfo(dtype).max
    if dtype == "int64":
        assert gt.tensor([top, 1]).sum().item() == np.iinfo("int64").min
    else:
        assert gt.full((100,), top, dtype=dtype_of(dtype)).sum().item() == 100 * int(top)


@pytest.mark.parametrize("name", ["mean", "var", "std", "logsumexp", "norm"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_float_reductions_keep_the_dtype(name, dtype):
    source = gt.tensor(data(4, 6), dtype=dtype_of(dtype))
    assert getattr(gt, name)(source, dim=1).dtype == dtype_of(dtype)


def test_mean_of_integers_is_refused_without_a_dtype():
    with pytest.raises(RuntimeError):
        gt.tensor([1, 2]).mean()
    assert gt.tensor([1, 2]).mean(dtype=gt.float32).item() == 1.5
    with pytest.raises(RuntimeError):
        gt.tensor([True]).mean()
    with pytest.raises(RuntimeError):
        gt.tensor([1, 2]).var()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_sums_accumulate_in_single_precision(dtype):
    assert gt.ones(4096, dtype=dtype_of(dtype)).sum().item() == 4096.0
    assert gt.full((4096,), 0.5, dtype=dtype_of(dtype)).mean().item() == 0.5


def test_float_sum_is_accurate():
    values = data(100_000).astype("float32")
    assert abs(gt.tensor(values).sum().item() - values.astype("float64").sum()) < 0.02
    assert gt.full((1 << 20,), 0.1).sum().item() == pytest.approx(104857.6, rel=1e-6)


# --- empty -----------------------------------------------------------------------------------------------------------


def test_empty_reductions():
    empty = gt.zeros(0)
    assert empty.sum().item() == 0 and empty.prod().item() == 1
    assert np.isnan(empty.mean().item()) and np.isnan(empty.var().item())
    assert empty.any().item() is False and empty.all().item() is True
    assert empty.norm().item() == 0
    assert empty.cumsum(0).shape == (0,)
    assert gt.logsumexp(empty, 0).item() == -INF


def test_empty_dims():
    empty = gt.zeros(2, 0)
    check(empty.sum(1), [0, 0])
    check(empty.sum(0), np.zeros(0))
    check(empty.prod(1), [1, 1])
    check(empty.all(1), [True, True])
    check(empty.any(1), [False, False])
    check(empty.amax(0), np.zeros(0))
    assert np.isnan(array(empty.mean(1))).all()
    assert empty.argmax(0).shape == (0,)


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "argmax", "argmin"])
def test_extremes_of_nothing_are_refused(name):
    with pytest.raises((RuntimeError, IndexError)):
        getattr(gt.zeros(0), name)()
    with pytest.raises((RuntimeError, IndexError)):
        getattr(gt.zeros(2, 0), name)(1)


# --- NaN and infinities ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, function", [("sum", np.sum), ("amax", np.max), ("amin", np.min), ("prod", np.prod), ("mean", np.mean)]
)
@pytest.mark.parametrize(
    "values", [[1, NAN, 3], [NAN, 1], [INF, 1, -INF], [-INF, -INF], [INF, 2], [0.0, -0.0]], ids=str
)
def test_special_values(name, function, values):
    with np.errstate(all="ignore"):
        expected = function(np.array(values))
    check(getattr(gt.tensor(values, dtype=gt.float64), name)(), expected)


def test_nan_is_the_extreme():
    source = gt.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0]])
    assert source.argmax(1).tolist() == [1, 2] and source.argmin(1).tolist() == [1, 0]
    assert np.isnan(source.max().item()) and np.isnan(source.min().item())
    values, indices = source.max(1)
    assert np.isnan(values[0].item()) and indices.tolist() == [1, 2]


def test_arg_reductions_take_the_first_of_equals():
    source = gt.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    assert source.argmax(1).tolist() == [1, 0] and source.argmin(1).tolist() == [0, 0]
    assert source.argmax().item() == 1 and source.argmin().item() == 0
    assert source.max(1).indices.tolist() == [1, 0]


def test_arg_reductions_of_bools_and_integers():
    assert gt.tensor([3, 9, 2]).argmax().item() == 1
    assert gt.tensor([[3, 9], [7, 1]]).argmin(dim=1, keepdim=True).tolist() == [[0], [1]]


# --- max and min with a dim ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, function, where", [("max", np.max, np.argmax), ("min", np.min, np.argmin)])
@pytest.mark.parametrize("shape, dim", DIMS, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_max_and_min_give_values_and_indices(name, function, where, shape, dim, keepdim):
    values = data(*shape)
    result = getattr(gt, name)(gt.tensor(values), dim, keepdim=keepdim)
    check(result.values, function(values, axis=dim, keepdims=keepdim))
    check(result.indices, where(values, axis=dim, keepdims=keepdim), dtype="int64")
    top, index = getattr(gt.tensor(values), name)(dim=dim, keepdim=keepdim)
    check(top, function(values, axis=dim, keepdims=keepdim))
    check(index, where(values, axis=dim, keepdims=keepdim))


def test_max_and_min_of_everything():
    values = data(3, 4, dtype="int64")
    assert gt.max(gt.tensor(values)).item() == values.max()
    assert gt.tensor(values).min().item() == values.min()


def test_aminmax():
    values = data(3, 4)
    low, high = gt.aminmax(gt.tensor(values), dim=1)
    check(low, values.min(1))
    check(high, values.max(1))


# --- any, all --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, function", [("any", np.any), ("all", np.all)])
@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
def test_any_and_all(name, function, dtype):
    values = np.array([[0, 1, 1], [0, 0, 1]]).astype(dtype)
    source = gt.tensor(values)
    check(getattr(gt, name)(source), function(values), dtype="bool")
    for dim in (0, 1, -1):
        check(getattr(gt, name)(source, dim), function(values, axis=dim), dtype="bool")
        check(getattr(source, name)(dim=dim, keepdim=True), function(values, axis=dim, keepdims=True), dtype="bool")
    check(getattr(source, name)(dim=(0, 1)), function(values), dtype="bool")
    check(getattr(source, name)(axis=0), function(values, axis=0), dtype="bool")


def test_any_counts_nan_as_true():
    assert gt.tensor([0.0, NAN]).any().item() is True


# --- variance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, function", [("var", np.var), ("std", np.std)])
@pytest.mark.parametrize("ddof", [0, 1, 2])
def test_corrections(name, function, ddof):
    values = data(3, 8)
    source = gt.tensor(values)
    check(getattr(gt, name)(source, dim=1, correction=ddof), function(values, axis=1, ddof=ddof))
    check(getattr(source, name)(1, correction=ddof, keepdim=True), function(values, axis=1, ddof=ddof, keepdims=True))
    if ddof < 2:
        check(getattr(gt, name)(source, dim=1, unbiased=ddof == 1), function(values, axis=1, ddof=ddof))
        check(getattr(source, name)(unbiased=ddof == 1), function(values, ddof=ddof))
        check(getattr(source, name)(1, ddof == 1), function(values, axis=1, ddof=ddof))


def test_variance_far_from_zero_is_stable():
    values = data(1000) + 1e6
    check(gt.tensor(values).var(), np.var(values, ddof=1), rtol=1e-9)


def test_var_mean_and_std_mean():
    values = data(3, 8)
    check(gt.var_mean(gt.tensor(values), dim=1), (np.var(values, axis=1, ddof=1), values.mean(1)))
    check(gt.std_mean(gt.tensor(values), dim=1), (np.std(values, axis=1, ddof=1), values.mean(1)))


# --- norm ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 3, INF, -INF, 0, 0.5])
def test_vector_norms(order):
    values = data(3, 5)
    source = gt.tensor(values)
    check(gt.norm(source, p=order, dim=1), np.linalg.norm(values, ord=order, axis=1))
    check(source.norm(p=order, dim=0, keepdim=True), np.linalg.norm(values, ord=order, axis=0, keepdims=True))
    check(source.norm(order), np.linalg.norm(values.ravel(), ord=order))


def test_default_norms():
    values = data(3, 5)
    source = gt.tensor(values)
    check(source.norm(), np.linalg.norm(values))
    check(gt.norm(source), np.linalg.norm(values))
    check(source.norm(p="fro"), np.linalg.norm(values))
    check(source.norm(dim=(0, 1)), np.linalg.norm(values))
    check(gt.tensor(-3.0).norm(), 3.0)


# --- scans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, function", [("cumsum", np.cumsum), ("cumprod", np.cumprod)])
@pytest.mark.parametrize("shape, dim", [*DIMS, ((2, 0), 1), ((0, 2), 1)], ids=str)
def test_scans(name, function, shape, dim):
    values = data(*shape)
    source = gt.tensor(values)
    check(getattr(gt, name)(source, dim), function(values, axis=dim), rtol=1e-11)
    check(getattr(source, name)(dim=dim), function(values, axis=dim), rtol=1e-11)
    check(getattr(source, name)(axis=dim), function(values, axis=dim), rtol=1e-11)


def test_scans_of_zero_dimensions_and_dtypes():
    assert gt.cumsum(gt.tensor(3.0), 0).item() == 3.0
    check(gt.cumsum(gt.tensor([True, True]), 0), [1, 2], dtype="int64")
    check(gt.cumsum(gt.tensor([1, 2], dtype=gt.int8), 0, dtype=gt.float32), [1, 3], dtype="float32")
    check(gt.cumsum(gt.full((300,), 100, dtype=gt.uint8), 0)[-1], 30000, dtype="int64")


def test_cummax_cummin_and_logcumsumexp():
    values = data(3, 6)
    check(gt.cummax(gt.tensor(values), 1).values, np.maximum.accumulate(values, axis=1))
    check(gt.cummin(gt.tensor(values), 0).values, np.minimum.accumulate(values, axis=0))
    check(gt.logcumsumexp(gt.tensor(values), 1), np.logaddexp.accumulate(values, axis=1))


# --- logsumexp -------------------------------------------------------------------------------------------------------


def test_logsumexp_is_stable():
    check(gt.logsumexp(gt.tensor([1000.0, 1000.0]), 0), 1000 + np.log(2))
    assert gt.logsumexp(gt.tensor([-INF, -INF]), 0).item() == -INF
    assert gt.logsumexp(gt.tensor([INF, 1.0]), 0).item() == INF
    assert np.isnan(gt.logsumexp(gt.tensor([NAN, 1.0]), 0).item())
    check(gt.tensor([[0.0, 1.0]]).logsumexp((0, 1)), np.log(1 + np.e))


# --- views, wrong dims, gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, function, tuples, whole", REDUCTIONS, ids=IDS)
def test_reductions_of_views(name, function, tuples, whole):
    values = data(6, 8)
    source = gt.tensor(values)
    check(getattr(source.T, name)(dim=0), function(values.T, axis=0))
    check(getattr(source[::2, 1::3], name)(dim=1), function(values[::2, 1::3], axis=1))
    wide = np.broadcast_to(values[:1], (6, 8))
    check(getattr(source[:1].expand(6, 8), name)(dim=1), function(wide, axis=1))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod", "var", "logsumexp", "argmax", "max", "any", "cumsum"])
def test_dims_out_of_range(name):
    for dim in (2, -3):
        with pytest.raises(IndexError):
            getattr(gt.zeros(2, 3), name)(dim)


def test_repeated_dims_are_refused():
    with pytest.raises(RuntimeError):
        gt.zeros(2, 3).sum((0, 0))
    with pytest.raises(RuntimeError):
        gt.zeros(2, 3).sum((0, -2))


def test_empty_tuple_of_dims_is_every_dim():
    check(gt.ones(2, 3).sum(()), 6.0)


GRADIENTS = [
    ("sum", lambda x: x.sum()),
    ("sum-dim", lambda x: x.sum(1)),
    ("sum-tuple", lambda x: x.sum((0, 2), keepdim=True)),
    ("mean", lambda x: x.mean((0, 1))),
    ("prod", lambda x: x.prod()),
    ("prod-dim", lambda x: x.prod(1)),
    ("amax", lambda x: x.amax(1)),
    ("amin", lambda x: x.amin((0, 2))),
    ("max", lambda x: x.max()),
    ("max-dim", lambda x: x.max(1).values),
    ("min-dim", lambda x: x.min(-1, keepdim=True)[0]),
    ("var", lambda x: x.var()),
    ("var-dim", lambda x: x.var(1, correction=0)),
    ("std", lambda x: x.std(2)),
    ("norm", lambda x: x.norm()),
    ("norm-1", lambda x: x.norm(p=1, dim=1)),
    ("norm-3", lambda x: x.norm(p=3, dim=1)),
    ("norm-inf", lambda x: x.norm(p=INF, dim=1)),
    ("logsumexp", lambda x: x.logsumexp(1)),
    ("cumsum", lambda x: x.cumsum(1)),
    ("cumprod", lambda x: x.cumprod(2)),
    ("softmax", lambda x: x.softmax(1)),
    ("log_softmax", lambda x: x.log_softmax(-1)),
]


@pytest.mark.parametrize("name, function", GRADIENTS, ids=[g[0] for g in GRADIENTS])
def test_gradients(name, function):
    check_gradient(function, data(2, 3, 4, low=0.3, high=2))


def test_gradient_of_prod_with_zeros():
    for values in ([2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]):
        check_gradient(lambda x: x.prod(), np.array(values))
        check_gradient(lambda x: x.cumprod(0), np.array(values))


def test_gradient_of_max_goes_to_one_place_with_a_dim_and_is_shared_without():
    source = leaf(np.array([3.0, 1.0, 3.0]))
    source.max(0).values.backward()
    assert source.grad.tolist() == [1, 0, 0]
    source.grad = None
    source.max().backward()
    assert source.grad.tolist() == [0.5, 0, 0.5]
    source.grad = None
    source.amax().backward()
    assert source.grad.tolist() == [0.5, 0, 0.5]


def test_gradient_of_norm_at_zero_is_zero():
    source = leaf(np.zeros(3))
    source.norm().backward()
    assert source.grad.tolist() == [0, 0, 0]


def test_count_nonzero_and_nansum():
    values = np.array([[0.0, 1.0, NAN], [2.0, 0.0, 0.0]])
    check(gt.count_nonzero(gt.tensor(values)), 3)
    check(gt.count_nonzero(gt.tensor(values), dim=1), [2, 1])
    check(gt.nansum(gt.tensor(values)), 3.0)
    check(gt.nanmean(gt.tensor(values), 1), np.nanmean(values, axis=1))


def test_median():
    values = data(3, 5)
    check(gt.median(gt.tensor(values)), np.median(values))
    check(gt.median(gt.tensor(values), dim=1).values, np.median(values, axis=1))
