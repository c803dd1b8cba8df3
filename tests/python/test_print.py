"""What `print(x)` shows: PyTorch's text, recorded, with `gt.` before the dtype."""

import pytest
from parity import INF, NAN
from print_cases import CASES
from programs import load

import gt

RECORDED = load("prints.json")
SPACE = {"T": gt, "inf": INF, "nan": NAN}


def test_the_recording_is_current():
    assert list(RECORDED) == CASES, "run record_prints.py again"


@pytest.mark.recorded
@pytest.mark.parametrize("case", RECORDED)
def test_repr(case):
    made = eval(case, dict(SPACE))
    assert repr(made) == RECORDED[case]["result"]
    assert str(made) == RECORDED[case]["result"]


def test_formatting():
    assert f"{gt.tensor([1, 2])}" == "tensor([1, 2])"
    assert f"{gt.tensor(1.5)}" == "1.5"
    assert f"{gt.tensor(1.23456):.2f}" == "1.23"
    assert f"{gt.tensor(7):>5d}" == "    7"
    assert f"{gt.tensor([2.0])[0]:.3f}" == "2.000"
    assert "%.1f" % gt.tensor(2.0) == "2.0"  # noqa: UP031
    with pytest.raises(TypeError):
        f"{gt.tensor([1, 2]):.2f}"


def test_size_and_dtype():
    assert repr(gt.zeros(2, 3).shape) == "gt.Size([2, 3])"
    assert str(gt.zeros(2).dtype) == "gt.float32"
    assert repr(gt.Size([])) == "gt.Size([])"


def test_printing_reads_the_current_value(capsys):
    x = gt.zeros(2)
    x += 1
    print(x, x.sum())
    assert capsys.readouterr().out == "tensor([1., 1.]) tensor(2.)\n"


def test_print_options():
    gt.set_printoptions(precision=2)
    try:
        assert repr(gt.tensor([1 / 3])) == "tensor([0.33])"
        gt.set_printoptions(threshold=5, edgeitems=1)
        assert repr(gt.arange(10)) == "tensor([0,  ..., 9])"
        gt.set_printoptions(sci_mode=True)
        assert "e" in repr(gt.tensor([1.5]))
    finally:
        gt.set_printoptions(profile="default", sci_mode=None)
    assert repr(gt.tensor([1 / 3])) == "tensor([0.3333])"


def test_a_printed_tensor_can_be_evaluated():
    x = gt.tensor([[1, 2], [3, 4]])
    assert gt.equal(eval(repr(x), {"tensor": gt.tensor}), x)
