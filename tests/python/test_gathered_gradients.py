"""Gradients that reach a tensor in parts, or by several ways."""

import numpy as np
import pytest

import gt


def instructions(run):
    gt.synchronize()
    before = next(iter(gt.debug.get_worker_stats().values()))["total_instructions"]
    run()
    gt.synchronize()
    return next(iter(gt.debug.get_worker_stats().values()))["total_instructions"] - before


def test_a_hook_of_a_leaf_used_twice_sees_the_sum_once():
    w = gt.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    w.register_hook(lambda g: seen.append(g.tolist()))
    (w * 2 + w * 3).sum().backward()
    assert seen == [[5.0, 5.0]]
    assert w.grad.tolist() == [5.0, 5.0]


def test_a_hook_may_replace_the_sum():
    w = gt.tensor([1.0, 2.0], requires_grad=True)
    w.register_hook(lambda g: g * 10)
    (w + w).sum().backward()
    assert w.grad.tolist() == [20.0, 20.0]


def test_a_leaf_that_another_graph_uses_gets_its_gradient():
    w = gt.tensor([1.0, 2.0], requires_grad=True)
    other = (w * 7).sum()
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]
    other.backward()
    assert w.grad.tolist() == [9.0, 9.0]


def test_accumulated_hooks_run_once_per_backward():
    w = gt.tensor([1.0], requires_grad=True)
    seen = []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (w * 2 + w[:1] * 3 + w[gt.tensor([0])]).sum().backward()
    (w * 2).sum().backward()
    assert seen == [6.0, 8.0]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_chunks_that_are_the_whole(dim):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    t = gt.tensor(x, requires_grad=True)
    a, b = t.chunk(2, dim)
    (gt.cat((-b, a), dim) * gt.tensor(x)).sum().backward()
    first, second = np.split(x, 2, axis=dim)
    assert np.array_equal(t.grad.numpy(), np.concatenate((second, -first), axis=dim))


def test_slices_with_gaps_and_overlaps():
    t = gt.zeros(3, 6, requires_grad=True)
    (t[:, 1:4].sum() + 2 * t[:, 3:].sum() + 3 * t[1].sum() + 4 * t[:, ::2].sum() + 5 * t[1:, :2].sum()).backward()
    want = np.zeros((3, 6), np.float32)
    want[:, 1:4] += 1
    want[:, 3:] += 2
    want[1] += 3
    want[:, ::2] += 4
    want[1:, :2] += 5
    assert np.array_equal(t.grad.numpy(), want)


def test_a_weight_looked_up_and_multiplied():
    w = gt.zeros(5, 3, requires_grad=True)
    index = gt.tensor([4, 0, 4])
    ((w[index] * 2).sum() + (gt.ones(2, 5) @ w).sum()).backward()
    want = np.full((5, 3), 2.0, np.float32)
    np.add.at(want, [4, 0, 4], 2.0)
    assert np.array_equal(w.grad.numpy(), want)


def test_time_steps_of_a_sequence_cost_one_join():
    """A loop over `x[:, t]` used to fill, update and add a whole gradient per step."""

    def loop(steps):
        x = gt.ones(2, steps, 3, requires_grad=True)
        y = sum((x[:, t] * (t + 1)).sum() for t in range(steps))
        return x, y, instructions(lambda: y.backward())

    x, _, few = loop(4)
    _, _, many = loop(24)
    assert np.array_equal(x.grad.numpy()[0, :, 0], [1, 2, 3, 4])
    assert (many - few) / 20 < 5, "instructions of a backward pass per step"


def test_second_derivatives_through_parts():
    t = gt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = gt.autograd.grad(
        (t[:2] ** 3).sum() + (t[1:] ** 3).sum() + t[gt.tensor([0, 0])].pow(3).sum(), t, create_graph=True
    )
    (gg,) = gt.autograd.grad(g.sum(), t)
    assert g.tolist() == [9.0, 24.0, 27.0]
    assert gg.tolist() == [18.0, 24.0, 18.0]
