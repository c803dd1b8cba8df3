"""Products of matrices, against NumPy: every rank, transposes without copies, empty extents, dtypes, einsum."""

import numpy as np
import pytest
from parity import FLOATS, INF, NAN, array, check, check_gradient, data, dtype_of

import gt

MATMULS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (5, 3, 4)),
    ((2, 5, 2, 3), (2, 5, 3, 4)),
    ((6, 1, 2, 3), (1, 5, 3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (3, 0)),
    ((0, 2, 3), (0, 3, 4)),
    ((0,), (0,)),
    ((33, 65), (65, 17)),
    ((128, 130), (130, 64)),
    ((1, 257), (257, 1)),
    ((257, 1), (1, 65)),
]
IDS = [f"{a}@{b}" for a, b in MATMULS]


@pytest.mark.parametrize("left, right", MATMULS, ids=IDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_matmul(left, right, dtype):
    a, b = data(*left, seed=1).astype(dtype), data(*right, seed=2).astype(dtype)
    expected = a.astype("float64") @ b.astype("float64")
    rtol = 1e-12 if dtype == "float64" else 1e-5
    for made in (gt.tensor(a) @ gt.tensor(b), gt.matmul(gt.tensor(a), gt.tensor(b)), gt.tensor(a).matmul(gt.tensor(b))):
        check(made, expected, dtype=dtype, rtol=rtol, atol=rtol * 10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_matmul_of_halves_accumulates_in_single_precision(dtype):
    a = gt.tensor(data(16, 64, seed=1), dtype=dtype_of(dtype))
    b = gt.tensor(data(64, 8, seed=2), dtype=dtype_of(dtype))
    expected = array(a).astype("float64") @ array(b).astype("float64")
    check(a @ b, expected, dtype=dtype, atol=0.05 if dtype == "bfloat16" else 0.01)
    ones = gt.ones(1, 4096, dtype=dtype_of(dtype)) @ gt.ones(4096, 1, dtype=dtype_of(dtype))
    assert ones.item() == 4096


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_matmul_of_integers(dtype):
    a, b = data(3, 4, dtype=dtype, seed=1), data(4, 5, dtype=dtype, seed=2)
    with np.errstate(all="ignore"):
        check(gt.tensor(a) @ gt.tensor(b), a @ b, dtype=dtype)


def test_matmul_needs_one_dtype():
    with pytest.raises(RuntimeError):
        gt.zeros(2, 2) @ gt.zeros(2, 2, dtype=gt.float64)
    with pytest.raises(RuntimeError):
        gt.zeros(2, 2) @ gt.zeros(2, 2, dtype=gt.int64)


@pytest.mark.parametrize(
    "left, right",
    [((2, 3), (4, 5)), ((3,), (4,)), ((2, 3), (4,)), ((2, 2, 3), (3, 3, 4)), ((5, 2, 3), (5, 4, 3))],
    ids=str,
)
def test_matmul_names_both_shapes(left, right):
    with pytest.raises(RuntimeError) as error:
        gt.zeros(left) @ gt.zeros(right)
    assert str(left[-1]) in str(error.value) and str(right[0]) in str(error.value)


def test_matmul_of_zero_dimensions_is_refused():
    with pytest.raises(RuntimeError):
        gt.tensor(1.0) @ gt.tensor(2.0)
    with pytest.raises((RuntimeError, TypeError)):
        gt.zeros(2) @ 3


LAYOUTS = [
    ("nn", lambda x: x, lambda a: a),
    ("T", lambda x: x.contiguous().mT.contiguous().mT, lambda a: a),
    ("step", lambda x: gt.stack([x, x], -1).flatten(-2)[..., ::2], lambda a: a),
    ("row-step", lambda x: gt.stack([x, x], -2).flatten(-3, -2)[..., ::2, :], lambda a: a),
]


@pytest.mark.parametrize("left", LAYOUTS, ids=[entry[0] for entry in LAYOUTS])
@pytest.mark.parametrize("right", LAYOUTS, ids=[entry[0] for entry in LAYOUTS])
@pytest.mark.parametrize("shapes", [((9, 7), (7, 5)), ((3, 9, 7), (3, 7, 5))], ids=str)
def test_bits_do_not_depend_on_strides(left, right, shapes):
    a, b = gt.tensor(data(*shapes[0], seed=1).astype("float32")), gt.tensor(data(*shapes[1], seed=2).astype("float32"))
    expected = array(a @ b)
    np.testing.assert_allclose(array(left[1](a) @ right[1](b)), expected, rtol=1e-6, atol=1e-6)


def test_transposed_operands():
    a, b = data(4, 6, seed=1), data(4, 5, seed=2)
    check(gt.tensor(a).T @ gt.tensor(b), a.T @ b)
    check(gt.tensor(b).T @ gt.tensor(a), b.T @ a)
    check(gt.tensor(a) @ gt.tensor(a).T, a @ a.T)
    check(gt.tensor(a)[::2] @ gt.tensor(a)[1::2].T, a[::2] @ a[1::2].T)
    q = data(2, 3, 4, 5)
    check(gt.tensor(q) @ gt.tensor(q).transpose(-2, -1), q @ q.swapaxes(-1, -2))
    check(gt.tensor(q).transpose(1, 2) @ gt.tensor(q).permute(0, 2, 3, 1), q.swapaxes(1, 2) @ q.transpose(0, 2, 3, 1))
    check(gt.tensor(a[:1]).expand(4, 6) @ gt.tensor(a).T, np.broadcast_to(a[:1], (4, 6)) @ a.T)


def test_special_values():
    a = gt.tensor([[1.0, INF], [NAN, 0.0]])
    result = array(a @ gt.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert np.isnan(result[0, 0]) and result[0, 1] == INF and np.isnan(result[1]).all()
    assert (gt.tensor([[0.0]]) @ gt.tensor([[5.0]])).item() == 0


# --- the other products ----------------------------------------------------------------------------------------------


def test_mm_and_mv():
    a, b, v = data(3, 4, seed=1), data(4, 5, seed=2), data(4, seed=3)
    check(gt.mm(gt.tensor(a), gt.tensor(b)), a @ b)
    check(gt.tensor(a).mm(gt.tensor(b)), a @ b)
    check(gt.mv(gt.tensor(a), gt.tensor(v)), a @ v)
    for wrong in (
        lambda: gt.mm(gt.tensor(a), gt.tensor(v)),
        lambda: gt.mm(gt.tensor(a), gt.tensor(a)),
        lambda: gt.mm(gt.zeros(2, 3, 4), gt.zeros(4, 2)),
    ):
        with pytest.raises(RuntimeError):
            wrong()


def test_bmm():
    a, b = data(5, 3, 4, seed=1), data(5, 4, 2, seed=2)
    check(gt.bmm(gt.tensor(a), gt.tensor(b)), a @ b)
    check(gt.tensor(a).bmm(gt.tensor(b)), a @ b)
    for left, right in (((3, 4), (4, 2)), ((5, 3, 4), (4, 4, 2)), ((5, 3, 4), (5, 3, 2)), ((1, 3, 4), (5, 4, 2))):
        with pytest.raises(RuntimeError):
            gt.bmm(gt.zeros(left), gt.zeros(right))


@pytest.mark.parametrize("bias", [(3, 5), (5,), (1, 5), (3, 1), ()], ids=str)
@pytest.mark.parametrize("beta, alpha", [(1, 1), (0.5, 2), (0, 1), (1, 0)])
def test_addmm(bias, beta, alpha):
    c, a, b = data(*bias, seed=3), data(3, 4, seed=1), data(4, 5, seed=2)
    expected = beta * c + alpha * (a @ b)
    check(gt.addmm(gt.tensor(c), gt.tensor(a), gt.tensor(b), beta=beta, alpha=alpha), expected)
    check(gt.tensor(c).addmm(gt.tensor(a), gt.tensor(b), beta=beta, alpha=alpha), expected)


def test_addmm_ignores_the_bias_when_beta_is_zero():
    made = gt.addmm(gt.full((2, 2), NAN), gt.ones(2, 2), gt.ones(2, 2), beta=0)
    assert made.tolist() == [[2, 2], [2, 2]]
    with pytest.raises(RuntimeError):
        gt.addmm(gt.zeros(7), gt.zeros(2, 3), gt.zeros(3, 4))


def test_baddbmm():
    c, a, b = data(2, 3, 5, seed=3), data(2, 3, 4, seed=1), data(2, 4, 5, seed=2)
    check(gt.baddbmm(gt.tensor(c), gt.tensor(a), gt.tensor(b), beta=0.5, alpha=2), 0.5 * c + 2 * (a @ b))


def test_outer_and_dot():
    a, b = data(3, seed=1), data(4, seed=2)
    check(gt.outer(gt.tensor(a), gt.tensor(b)), np.outer(a, b))
    check(gt.tensor(a).outer(gt.tensor(b)), np.outer(a, b))
    check(gt.dot(gt.tensor(a), gt.tensor(a)), a @ a)
    check(gt.tensor(a).dot(gt.tensor(a)), a @ a)
    assert gt.dot(gt.tensor([1, 2]), gt.tensor([3, 4])).item() == 11
    assert gt.outer(gt.tensor([1, 2]), gt.tensor([3, 4])).tolist() == [[3, 4], [6, 8]]
    assert gt.dot(gt.zeros(0), gt.zeros(0)).item() == 0
    for wrong in (
        lambda: gt.dot(gt.tensor(a), gt.tensor(b)),
        lambda: gt.dot(gt.zeros(2, 2), gt.zeros(2)),
        lambda: gt.outer(gt.zeros(2, 2), gt.zeros(2)),
    ):
        with pytest.raises(RuntimeError):
            wrong()


# --- einsum ----------------------------------------------------------------------------------------------------------

EINSUMS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,kj->ik", [(2, 3), (4, 3)]),
    ("ij->ji", [(2, 3)]),
    ("ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ij->i", [(2, 3)]),
    ("ij->j", [(2, 3)]),
    ("ii->i", [(3, 3)]),
    ("ii->", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("i,i->", [(3,), (3,)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,i->i", [(3,), (3,)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("ij,j->i", [(2, 3), (3,)]),
    ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
    ("bij,jk->bik", [(5, 2, 3), (3, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("bhqk,bhkd->bqhd", [(2, 3, 4, 6), (2, 3, 6, 5)]),
    ("bqhd,bkhd->bhqk", [(2, 4, 3, 5), (2, 6, 3, 5)]),
    ("...ij,...jk->...ik", [(2, 5, 2, 3), (2, 5, 3, 4)]),
    ("...ij,jk->...ik", [(2, 5, 2, 3), (3, 4)]),
    ("...i->...", [(2, 3, 4)]),
    ("i...->...i", [(2, 3, 4)]),
    ("...,...->...", [(2, 3), (2, 3)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("i,j,k->ijk", [(2,), (3,), (4,)]),
    ("bn,anm,bm->ba", [(2, 5), (3, 5, 4), (2, 4)]),
    ("ijk,ijk->i", [(2, 3, 4), (2, 3, 4)]),
    ("ijk,jil->kl", [(2, 3, 4), (3, 2, 5)]),
    ("ik,jk->ij", [(2, 0), (3, 0)]),
    ("iij->ij", [(3, 3, 2)]),
    ("ij,ik->jk", [(5, 2), (5, 3)]),
    ("ab,cd->abcd", [(2, 3), (4, 5)]),
    (" i j , j k -> i k ", [(2, 3), (3, 4)]),
    (",i->i", [(), (3,)]),
    ("aB,Bc->ac", [(2, 3), (3, 4)]),
]


@pytest.mark.parametrize("equation, shapes", EINSUMS, ids=[e[0] for e in EINSUMS])
def test_einsum(equation, shapes):
    arrays = [data(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = np.einsum(equation, *arrays)
    check(gt.einsum(equation, *[gt.tensor(a) for a in arrays]), expected, rtol=1e-11)
    check(gt.einsum(equation, [gt.tensor(a) for a in arrays]), expected, rtol=1e-11)


@pytest.mark.parametrize(
    "equation, shapes", [e for e in EINSUMS if e[0] != "ik,jk->ij"], ids=[e[0] for e in EINSUMS if e[0] != "ik,jk->ij"]
)
def test_einsum_gradients(equation, shapes):
    if sum(int(np.prod(s)) for s in shapes) > 130:
        shapes = [tuple(min(extent, 3) for extent in shape) for shape in shapes]
    check_gradient(lambda *xs: gt.einsum(equation, *xs), *[data(*shape, seed=i) for i, shape in enumerate(shapes)])


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(2, 3), (4, 5)]),
        ("ij->k", [(2, 3)]),
        ("ij", [(2, 3, 4)]),
        ("ij,jk->ik", [(2, 3)]),
        ("i1->i", [(2, 3)]),
        ("ij->ii", [(2, 3)]),
    ],
)
def test_wrong_einsums(equation, shapes):
    with pytest.raises((RuntimeError, ValueError)):
        gt.einsum(equation, *[gt.zeros(s) for s in shapes])


# --- gradients -------------------------------------------------------------------------------------------------------

GRADIENT_SHAPES = [m for m in MATMULS if 0 < np.prod(m[0]) * np.prod(m[1]) <= 3600]


@pytest.mark.parametrize("left, right", GRADIENT_SHAPES, ids=[f"{a}@{b}" for a, b in GRADIENT_SHAPES])
def test_gradients_of_matmul(left, right):
    check_gradient(lambda a, b: a @ b, data(*left, seed=1), data(*right, seed=2))


def test_gradients_of_the_other_products():
    check_gradient(
        lambda c, a, b: gt.addmm(c, a, b, beta=0.5, alpha=2), data(4, seed=3), data(2, 3, seed=1), data(3, 4, seed=2)
    )
    check_gradient(gt.bmm, data(2, 2, 3, seed=1), data(2, 3, 2, seed=2))
    check_gradient(gt.outer, data(3, seed=1), data(2, seed=2))
    check_gradient(gt.dot, data(3, seed=1), data(3, seed=2))
    check_gradient(lambda a, b: a.T @ b.T, data(3, 2, seed=1), data(4, 3, seed=2))
    check_gradient(lambda a: a @ a.T, data(3, 2))


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_keep_the_dtype(dtype):
    a = gt.ones(2, 3, dtype=dtype_of(dtype), requires_grad=True)
    b = gt.ones(3, 2, dtype=dtype_of(dtype), requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad.dtype == dtype_of(dtype) and a.grad.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_augmented_matmul_binds_the_name_anew():
    a = gt.tensor(data(3, 3))
    before, expected = a, array(a) @ array(a)
    a @= a
    check(a, expected)
    check(before, data(3, 3))
    a = gt.tensor([1.0, 2.0])
    a @= gt.tensor([3.0, 4.0])
    assert a.item() == 11
