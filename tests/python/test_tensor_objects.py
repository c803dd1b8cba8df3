"""Tensors as Python objects, however they were made."""

import sys
import weakref

import pytest

import gt

MAKERS = {
    "operator": lambda x: x + x,
    "comparison": lambda x: x < x,
    "number": lambda x: x * 2,
    "method": lambda x: x.add(x),
    "part": lambda x: x[0],
    "picked": lambda x: x[gt.tensor([1, 0])],
    "data": lambda x: gt.tensor([1.0, 2.0]),
    "matmul": lambda x: x @ x,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_result_takes_attributes_and_weak_references(make):
    x = gt.ones(2, 2)
    first, second = make(x), make(x)
    assert type(first) is gt.Tensor and vars(first) == {}
    first.note = "kept"
    assert vars(first) == {"note": "kept"} and not hasattr(second, "note")
    values = second.tolist()
    del first.note
    assert first.tolist() == values
    seen = weakref.ref(first)
    assert seen() is first
    del first
    assert seen() is None


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_results_leave_no_reference_to_their_class(make):
    x = gt.ones(2, 2)
    make(x)
    before = sys.getrefcount(gt.Tensor)
    for _ in range(100):
        make(x)
    assert abs(sys.getrefcount(gt.Tensor) - before) < 10


def test_a_result_that_nobody_shares_frees_its_value_once():
    x = gt.ones(1024, 1024)
    gt.synchronize()
    before = gt.cuda.memory_allocated()
    for _ in range(20):
        y = x + x
        view, alias = y[0], y.detach()
        y += 1
        assert (view[0] + alias[1][0]).item() == 6.0
    del y, view, alias
    gt.synchronize()
    assert gt.cuda.memory_allocated() <= before
