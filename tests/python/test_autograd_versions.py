"""Detaching, in-place writes with their version check, views, and what a graph keeps alive."""

import gc
import weakref

import numpy as np
import pytest
from parity import array, check, data, leaf

import gt

# --- detach and data -------------------------------------------------------------------------------------------------


def test_detach():
    a = gt.ones(2, requires_grad=True)
    b = (a * 2).detach()
    assert not b.requires_grad and b.is_leaf and b.grad_fn is None
    (a * b).sum().backward()
    assert a.grad.tolist() == [2, 2]
    c = a.detach()
    c.fill_(7)
    assert a.tolist() == [7, 7], "detach shares memory"
    d = (a * 2).detach_()
    assert not d.requires_grad and d.is_leaf


def test_data():
    a = gt.ones(2, requires_grad=True)
    assert not a.data.requires_grad and a.data.tolist() == [1, 1]
    a.data.mul_(3)
    assert a.tolist() == [3, 3]
    a.data = gt.tensor([5.0, 6.0])
    assert a.tolist() == [5, 6] and a.requires_grad and a.is_leaf
    assert a.data.numpy().tolist() == [5, 6]
    (a * 2).sum().backward()
    a.data -= 0.5 * a.grad
    assert a.tolist() == [4, 5]


def test_data_writes_are_not_seen_by_the_version_check():
    a = leaf(np.array([2.0]))
    b = a * 1
    out = b * b
    b.data.fill_(5)
    out.backward()
    assert a.grad.item() in (4.0, 10.0)


# --- in-place and versions -------------------------------------------------------------------------------------------


def test_leaf_in_place_is_refused():
    a = gt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        a.add_(1)
    with pytest.raises(RuntimeError, match="leaf"):
        a += 1
    with pytest.raises(RuntimeError):
        a[0] = 5
    with pytest.raises(RuntimeError):
        a[0].add_(1)
    with pytest.raises(RuntimeError):
        a.zero_()
    assert a.tolist() == [1, 1]
    with gt.no_grad():
        a.add_(1)
        a[0] = 9
    assert a.tolist() == [9, 2] and a.is_leaf


def test_in_place_on_an_intermediate():
    a = leaf(np.array([1.0, 2.0]))
    b = a * 2
    b.mul_(3)
    b += 1
    b.sum().backward()
    assert a.grad.tolist() == [6, 6] and b.tolist() == [7, 13]


def test_saved_tensor_that_was_modified():
    a = leaf(np.array([1.0, 2.0]))
    b = a * 2
    out = b * b
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_saved_output_that_was_modified():
    a = leaf(np.array([1.0, 2.0]))
    b = a.exp()
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


def test_saved_tensor_modified_through_a_view():
    a = leaf(np.array([1.0, 2.0]))
    b = a * 2
    out = b * b
    b[0] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_saved_leaf_modified_under_no_grad():
    weight = leaf(np.array([1.0, 2.0]))
    x = leaf(np.array([3.0, 4.0]))
    out = (weight * x).sum()
    with gt.no_grad():
        weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_modifying_what_is_not_saved_is_fine():
    a = leaf(np.array([1.0, 2.0]))
    b = a * 2
    out = b + 1
    b.add_(5)
    out.sum().backward()
    assert a.grad.tolist() == [2, 2]
    a.grad = None
    c = a.exp()
    d = c + 0
    d.mul_(2)
    d.sum().backward()
    np.testing.assert_allclose(array(a.grad), 2 * np.exp([1.0, 2.0]))


def test_version_counter():
    a = gt.zeros(2)
    before = a._version
    a.add_(1)
    assert a._version == before + 1
    a[0] = 5
    assert a._version == before + 2
    view = a[1:]
    view.mul_(2)
    assert a._version == view._version == before + 3


def test_in_place_makes_a_tensor_require_grad():
    a = leaf(np.array([1.0, 2.0]))
    b = gt.zeros(2, dtype=gt.float64)
    b += a * 3
    assert b.requires_grad and not b.is_leaf
    b.sum().backward()
    assert a.grad.tolist() == [3, 3]
    c = gt.zeros(3, dtype=gt.float64)
    c[1:] = a * 5
    assert c.requires_grad
    a.grad = None
    c.sum().backward()
    assert a.grad.tolist() == [5, 5]


# --- gradients of views ----------------------------------------------------------------------------------------------


def test_in_place_on_a_view_of_an_intermediate():
    a = leaf(data(3, 4))
    b = a * 2
    b[1].mul_(5)
    view = b[:, 0]
    view += 1
    b.sum().backward()
    expected = np.full((3, 4), 2.0)
    expected[1] = 10
    check(a.grad, expected)


def test_view_follows_a_write_to_its_base():
    a = leaf(data(3, 4))
    b = a * 2
    view = b.T
    b.mul_(3)
    view.sum().backward()
    check(a.grad, np.full((3, 4), 6.0))


def test_base_follows_a_write_to_a_view_of_a_view():
    a = leaf(data(4, 4))
    b = a * 1
    b[1:3].T[::2].mul_(10)
    (b * b).sum().backward()
    values, scale = array(a), np.ones((4, 4))
    scale[1:3, ::2] = 10
    check(a.grad, 2 * values * scale**2)


@pytest.mark.parametrize("parts", [lambda b: b.split(2), lambda b: b.chunk(2), lambda b: b.view(2, 2).unbind()])
def test_in_place_on_one_of_several_views_is_refused_or_right(parts):
    a = leaf(np.ones(4))
    b = a * 2
    try:
        parts(b)[0].mul_(3)
        b.sum().backward()
    except RuntimeError:
        return
    assert a.grad.tolist() == [6, 6, 2, 2]


# --- memory and identity ---------------------------------------------------------------------------------------------


def test_the_graph_is_freed_with_its_output():
    a = gt.ones(2, requires_grad=True)
    b = a * 2
    ghost = weakref.ref(b)
    out = (b * b).sum()
    del b
    out.backward()
    del out
    gc.collect()
    assert ghost() is None


def test_gradients_do_not_alias_each_other():
    a, b = gt.ones(2, requires_grad=True), gt.ones(2, requires_grad=True)
    (a + b).sum().backward()
    a.grad.add_(5)
    assert b.grad.tolist() == [1, 1]


def test_gradient_argument_is_not_modified():
    a = gt.ones(2, requires_grad=True)
    seed = gt.ones(2)
    (a + 0).backward(seed)
    a.grad.mul_(7)
    assert seed.tolist() == [1, 1]
    (a + 0).backward(seed)
    assert seed.tolist() == [1, 1] and a.grad.tolist() == [8, 8]


def test_empty_gradients():
    a = gt.zeros(0, 3, requires_grad=True)
    (a * 2).sum().backward()
    assert a.grad.shape == (0, 3)


def test_nan_gradients_travel():
    a = leaf(np.array([0.0, 1.0]))
    (a.log() * gt.tensor([0.0, 1.0], dtype=gt.float64)).sum().backward()
    assert np.isnan(a.grad.tolist()[0]) and a.grad.tolist()[1] == 1


def test_grad_has_the_shape_and_dtype_of_its_tensor():
    for dtype in (gt.float16, gt.bfloat16, gt.float32, gt.float64):
        a = gt.ones(2, 3, dtype=dtype, requires_grad=True)
        (a.float() * 2).sum().backward()
        assert a.grad.dtype == dtype and a.grad.shape == (2, 3)
