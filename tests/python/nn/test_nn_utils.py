"""Clipping gradients, parameters as vectors, sequences of different lengths."""

import math

import pytest

import gt
import gt.nn as nn
from gt.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)


def parameters():
    made = [nn.Parameter(gt.zeros(2)), nn.Parameter(gt.zeros(1)), nn.Parameter(gt.zeros(1))]
    made[0].grad, made[1].grad = gt.tensor([1.0, -2.0]), gt.tensor([2.0])
    return made


@pytest.mark.parametrize(
    "kind, total", [(2.0, 3), (1, 5), (math.inf, 2), ("inf", 2), (3.0, 17 ** (1 / 3)), (0.5, (2 * 2**0.5 + 1) ** 2)]
)
def test_total_norm(kind, total):
    made = parameters()
    assert get_total_norm([p.grad for p in made[:2]], kind).item() == pytest.approx(total)
    assert clip_grad_norm_(made, 1.0, norm_type=kind).item() == pytest.approx(total)
    clipped = get_total_norm([p.grad for p in made[:2]], kind).item()
    assert clipped == pytest.approx(1.0, rel=1e-5)


def test_clipping_keeps_the_object_and_small_gradients():
    made = parameters()
    held = made[0].grad
    clip_grad_norm_(iter(made), 1.5)
    assert made[0].grad is held and held.tolist() == pytest.approx([0.5, -1.0], rel=1e-5) and made[2].grad is None
    clip_grad_norm_(made, 100.0)
    assert held.tolist() == pytest.approx([0.5, -1.0], rel=1e-5)
    assert clip_grad_norm_([], 1.0).item() == 0 and clip_grad_norm_(made[2], 1.0).item() == 0


def test_norms_that_are_not_finite():
    made = parameters()
    made[1].grad = gt.tensor([math.inf])
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_(made, 1.0, error_if_nonfinite=True)
    assert made[0].grad.tolist() == [1, -2]
    assert math.isinf(clip_grad_norm_(made, 1.0).item())


def test_values():
    made = parameters()
    clip_grad_value_(made, 1.5)
    assert made[0].grad.tolist() == [1, -1.5] and made[1].grad.tolist() == [1.5]
    clip_grad_value_(made[0], 0.5)
    assert made[0].grad.tolist() == [0.5, -0.5]


def test_half_gradients_do_not_overflow():
    made = nn.Parameter(gt.zeros(4, dtype=gt.float16))
    made.grad = gt.full((4,), 300.0, dtype=gt.float16)
    assert clip_grad_norm_([made], 1.0).item() == 600
    assert made.grad.dtype == gt.float16 and made.grad.tolist() == pytest.approx([0.5] * 4, rel=1e-3)


def test_vectors():
    net = nn.Linear(2, 3)
    vector = parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    vector_to_parameters(gt.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and net.bias.tolist() == [6, 7, 8]
    assert net.weight.requires_grad and net.weight.is_leaf


def test_sequences():
    from gt.nn.utils.rnn import pad_sequence, unpad_sequence

    parts = [gt.tensor([1.0, 2.0]), gt.tensor([3.0]), gt.tensor([4.0, 5.0, 6.0])]
    padded = pad_sequence(parts, batch_first=True, padding_value=-1)
    assert padded.tolist() == [[1, 2, -1], [3, -1, -1], [4, 5, 6]]
    assert pad_sequence(parts).tolist() == [[1, 3, 4], [2, 0, 5], [0, 0, 6]]
    assert pad_sequence(parts, True, padding_side="left").tolist() == [[0, 1, 2], [0, 0, 3], [4, 5, 6]]
    back = unpad_sequence(padded, gt.tensor([2, 1, 3]), batch_first=True)
    assert [b.tolist() for b in back] == [p.tolist() for p in parts]
