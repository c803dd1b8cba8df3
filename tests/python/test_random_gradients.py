"""Random differentiable programs with views and in-place writes: backward against finite differences.

GRADIENT-PROGRAM-1: a program is a function of its seed, so that both sides of a difference run the same steps.
GRADIENT-PROGRAM-2: every step is smooth, and writes go to values that no earlier step has saved for backward.
"""

from __future__ import annotations

import numpy as np
import pytest
from parity import check_gradient, data

import gt

SMOOTH = [
    lambda x: x.sin(),
    lambda x: x.tanh(),
    lambda x: (x * 0.5).exp(),
    lambda x: x * x * 0.3,
    lambda x: x.sigmoid(),
]
SMOOTH += [
    lambda x: x / (x * x + 1),
    lambda x: (x * x + 1).log(),
    lambda x: (x * x + 0.5).sqrt(),
    lambda x: x.cos() * 0.5 + x,
]
REDUCE = [
    lambda x, d: x.sum(d, keepdim=True),
    lambda x, d: x.mean(d, keepdim=True),
    lambda x, d: x.logsumexp(d, keepdim=True),
]
REDUCE += [
    lambda x, d: (x * 0.3).softmax(d),
    lambda x, d: x.cumsum(d) * 0.3,
    lambda x, d: (x * x + 0.1).sum(d, keepdim=True).sqrt(),
]
REDUCE += [lambda x, d: x.log_softmax(d) * 0.3, lambda x, d: (x * 0.2 + 1).prod(d, keepdim=True)]


def program(seed: int, steps: int):
    """A function of two 3×4 tensors to one 3×4 tensor."""

    def run(x, y):
        rng = np.random.default_rng(seed)
        values = [x, y]

        def draw():
            return values[rng.integers(len(values))]

        for _ in range(steps):
            kind = rng.integers(9)
            a, b = draw(), draw()
            if kind == 0:
                made = SMOOTH[rng.integers(len(SMOOTH))](a)
            elif kind == 1:
                made = [a + b, a - b, a * b * 0.5, a / (b * b + 1), gt.lerp(a, b, 0.3)][rng.integers(5)]
            elif kind == 2:
                made = a * 0.5 + REDUCE[rng.integers(len(REDUCE))](b, int(rng.integers(2)))
            elif kind == 3:
                made = (a @ b.T @ a) * 0.1
            elif kind == 4:
                rows = gt.tensor(rng.integers(0, 3, 3))
                made = a[rows] + b.T.reshape(3, 4) * 0.5
            elif kind == 5:
                made = gt.cat([a[:, 2:], b[:, :2].flip(0)], 1)
            elif kind == 6:
                made = gt.where(gt.tensor(rng.random((3, 4)) < 0.5), a, b * 2)
            else:
                # A fresh value is written through views; nothing has saved it yet.
                made = a + 0
                row, column = int(rng.integers(3)), int(rng.integers(4))
                made[row].mul_(0.5)
                made[:, column] = b[:, 0] * 0.7
                made.T[::2].add_(b.T[::2], alpha=0.3)
                if kind == 8:
                    made.view(12)[::3] = (b * b).sum() * 0.1
                    made[gt.tensor([0, 2]), 1:3] = b[1:, :2]
            values.append(made)
            if len(values) > 5:
                del values[rng.integers(2, len(values) - 1)]
        return sum(values[2:], x * 0.1 - y * 0.2)

    return run


@pytest.mark.parametrize("seed", range(60))
def test_gradient(seed):
    check_gradient(program(seed, 14), data(3, 4, seed=1), data(3, 4, seed=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(100, 120))
def test_second_gradient(seed):
    function = program(seed, 6)

    def slope(x, y):
        x, y = (t if t.requires_grad else t.detach().requires_grad_() for t in (x, y))
        with gt.enable_grad():
            out = function(x, y)
            made = gt.autograd.grad((out * out).sum(), (x, y), create_graph=True, materialize_grads=True)
        return gt.cat([m.reshape(-1) for m in made]) * 0.1

    check_gradient(slope, data(3, 4, seed=1), data(3, 4, seed=2), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(200, 230))
def test_checkpointed_program(seed):
    """The same program inside a checkpoint gives the same gradients, to the bit."""
    function = program(seed, 10)

    def gradients(run):
        x, y = gt.tensor(data(3, 4, seed=1), requires_grad=True), gt.tensor(data(3, 4, seed=2), requires_grad=True)
        run(x, y).sum().backward()
        return [t.grad.tolist() if t.grad is not None else None for t in (x, y)]

    plain = gradients(function)
    again = gradients(lambda x, y: gt.utils.checkpoint.checkpoint(function, x, y, use_reentrant=False))
    assert plain == again
