"""`gt.autograd.grad`: gradients of what is named, into nothing but the result."""

import numpy as np
import pytest
from parity import leaf

import gt


def test_grad_returns_and_does_not_accumulate():
    a, b = leaf(np.array([2.0])), leaf(np.array([3.0]))
    da, db = gt.autograd.grad(a * b, (a, b))
    assert da.item() == 3 and db.item() == 2 and a.grad is None and b.grad is None
    (only,) = gt.autograd.grad(a * b, a)
    assert only.item() == 3
    (only,) = gt.autograd.grad([a * b], [a])
    assert only.item() == 3


def test_grad_of_intermediate_tensors():
    a = leaf(np.array([2.0]))
    b = a * 3
    (made,) = gt.autograd.grad(b * b, b)
    assert made.item() == 12


def test_grad_outputs():
    a = leaf(np.array([1.0, 2.0]))
    (made,) = gt.autograd.grad(a * a, a, grad_outputs=gt.tensor([1.0, 10.0], dtype=gt.float64))
    assert made.tolist() == [2, 40]
    (made,) = gt.autograd.grad(
        [a * a, a * 3], a, grad_outputs=[gt.ones(2, dtype=gt.float64), gt.ones(2, dtype=gt.float64)]
    )
    assert made.tolist() == [5, 7]
    with pytest.raises(RuntimeError):
        gt.autograd.grad(a * a, a)
    with pytest.raises(RuntimeError):
        gt.autograd.grad(a * a, a, grad_outputs=gt.ones(3, dtype=gt.float64))


def test_unused_inputs():
    a, b = leaf(np.array([2.0])), leaf(np.array([3.0]))
    with pytest.raises(RuntimeError, match="unused|not have been used"):
        gt.autograd.grad(a * 2, [a, b])
    da, db = gt.autograd.grad(a * 2, [a, b], allow_unused=True)
    assert da.item() == 2 and db is None
    da, db = gt.autograd.grad(a * 2, [a, b], materialize_grads=True)
    assert db.tolist() == [0]
    with pytest.raises(RuntimeError):
        gt.autograd.grad(a * 2, gt.ones(1))


def test_grad_of_a_batch_of_gradients():
    a, unused = leaf(np.array([1.0, 2.0])), leaf(np.array([3.0]))
    rows = gt.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]], dtype=gt.float64)
    (made,) = gt.autograd.grad(a**3, a, rows, is_grads_batched=True)
    assert made.tolist() == [[3, 0], [0, 12], [6, 36]]
    # Several outputs, one of them a scalar; the graph of the passes can itself be differentiated.
    outs, weights = [a * a, a.sum()], [rows, gt.tensor([1.0, 10.0, 100.0], dtype=gt.float64)]
    made, none = gt.autograd.grad(
        outs, [a, unused], weights, create_graph=True, allow_unused=True, is_grads_batched=True
    )
    assert made.tolist() == [[3, 1], [10, 14], [104, 112]] and none is None
    (second,) = gt.autograd.grad(made.sum(), a)
    assert second.tolist() == [6, 8]


def test_a_batch_of_gradients_frees_the_graph_after_the_last():
    a = leaf(np.array([1.0, 2.0]))
    out = a * a
    gt.autograd.grad(out, a, gt.ones(3, 2, dtype=gt.float64), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="second time"):
        gt.autograd.grad(out.sum(), a)


@pytest.mark.parametrize(
    "given, raised",
    [(None, RuntimeError), (gt.tensor(1.0), IndexError), (gt.ones(0, 2), IndexError), (gt.ones(2, 3), RuntimeError)],
    ids=["none", "no dimension", "empty", "other shape"],
)
def test_what_is_no_batch_of_gradients(given, raised):
    a = leaf(np.array([1.0, 2.0]))
    with pytest.raises(raised):
        gt.autograd.grad(a * a, a, given, is_grads_batched=True)


def test_batches_of_gradients_that_differ_in_number():
    a = leaf(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        gt.autograd.grad([a * a, a * 2], a, [gt.ones(2, 2), gt.ones(3, 2)], is_grads_batched=True)


def test_grad_frees_the_graph_unless_retained():
    a = leaf(np.array([2.0]))
    out = a * a
    gt.autograd.grad(out, a, retain_graph=True)
    gt.autograd.grad(out, a)
    with pytest.raises(RuntimeError, match="second time"):
        gt.autograd.grad(out, a)
