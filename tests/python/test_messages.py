"""Messages speak of what users wrote."""

import re

import pytest

import gt

INTERNAL = re.compile(
    r"window|instruction \d|%\d|Letter\(|torch\.|\bin check\b|payload|\bslot\b"
    r"|rejected the recorded|internal error in GT|tensor %"
)


def message(kind, f):
    gt.synchronize()
    with pytest.raises(kind) as error:
        f()
    said = str(error.value)
    assert not INTERNAL.search(said), said
    return said


def test_einsum_names_subscripts_as_they_were_written():
    said = message(RuntimeError, lambda: gt.einsum("ij,jk->ik", gt.ones(2, 3), gt.ones(4, 5)))
    assert said.endswith("differ at subscript 'j'")
    assert "subscript 'i' is repeated" in message(RuntimeError, lambda: gt.einsum("ii->i", gt.ones(2, 3)))
    assert "output subscript 'z'" in message(RuntimeError, lambda: gt.einsum("ij->iz", gt.ones(2, 3)))


@pytest.mark.parametrize(
    "f",
    [
        lambda: gt.cat([]),
        lambda: gt.clamp(gt.ones(2)),
        lambda: gt.histc(gt.ones(2), 3, 5, 1),
        lambda: gt.take_along_dim(gt.ones(2), gt.zeros(1, 1, dtype=gt.int64), 0),
        lambda: gt.hsplit(gt.tensor(1.0), 2),
        lambda: gt.hsplit(gt.ones(5), 2),
    ],
)
def test_no_message_speaks_of_torch(f):
    message((RuntimeError, ValueError), f)


@pytest.mark.parametrize(
    "f",
    [
        lambda: (gt.tensor([3]) // gt.tensor([0])).item(),
        lambda: gt.bernoulli(gt.tensor([2.0])).item(),
        lambda: gt.nn.functional.binary_cross_entropy(gt.tensor([2.0]), gt.ones(1)).item(),
        lambda: gt.linalg.inv(gt.zeros(2, 2)).tolist(),
        lambda: gt.multinomial(gt.tensor([-1.0, 1.0]), 1).item(),
    ],
)
def test_a_check_on_data_does_not_name_the_check(f):
    assert message(RuntimeError, f).splitlines()[0].endswith(")")
