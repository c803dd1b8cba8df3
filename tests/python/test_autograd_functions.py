"""Custom functions, hooks and checkpoint."""

import numpy as np
import pytest
from parity import array, check, check_gradient, data, leaf

import gt

# --- custom functions ------------------------------------------------------------------------------------------------


class Cube(gt.autograd.Function):
    """x³ with a gradient by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


class ScaleAndShift(gt.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift, note="none"):
        ctx.scale = scale
        ctx.note = note
        ctx.needs = ctx.needs_input_grad
        return x * scale + shift

    @staticmethod
    def backward(ctx, grad):
        assert ctx.needs_input_grad[0]
        return grad * ctx.scale, None, grad.sum() if ctx.needs_input_grad[2] else None, None


class SumAndDifference(gt.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + b, a - b

    @staticmethod
    def backward(ctx, first, second):
        return first + second, first - second


class SignedMax(gt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.max(1)
        ctx.save_for_backward(indices)
        ctx.mark_non_differentiable(indices)
        ctx.shape = x.shape
        return values, indices

    @staticmethod
    def backward(ctx, grad, _):
        (indices,) = ctx.saved_tensors
        return gt.zeros(ctx.shape, dtype=grad.dtype).scatter(1, indices.unsqueeze(1), grad.unsqueeze(1))


def test_custom_function():
    a = leaf(np.array([1.0, 2.0]))
    out = Cube.apply(a)
    assert out.requires_grad and not out.is_leaf and "Cube" in type(out.grad_fn).__name__ + str(out.grad_fn)
    out.sum().backward()
    assert a.grad.tolist() == [3, 12]
    assert not Cube.apply(gt.ones(2)).requires_grad
    with gt.no_grad():
        assert not Cube.apply(a).requires_grad
    check_gradient(Cube.apply, data(2, 3))
    check_gradient(lambda x: Cube.apply(x.sin()) * 2, data(2, 3))


def test_custom_function_double_backward():
    a = gt.tensor(2.0, dtype=gt.float64, requires_grad=True)
    (first,) = gt.autograd.grad(Cube.apply(a), a, create_graph=True)
    (second,) = gt.autograd.grad(first, a)
    assert first.item() == 12 and second.item() == 12


def test_custom_function_with_other_arguments():
    a, shift = leaf(np.array([1.0, 2.0])), gt.tensor(1.0, dtype=gt.float64, requires_grad=True)
    ScaleAndShift.apply(a, 3.0, shift, "hello").sum().backward()
    assert a.grad.tolist() == [3, 3] and shift.grad.item() == 2
    a.grad = None
    ScaleAndShift.apply(a, 3.0, 1.0).sum().backward()
    assert a.grad.tolist() == [3, 3]


def test_custom_function_with_several_outputs():
    check_gradient(
        lambda a, b: SumAndDifference.apply(a, b)[0] * SumAndDifference.apply(a, b)[1], data(3, seed=1), data(3, seed=2)
    )
    a, b = leaf(np.array([1.0])), leaf(np.array([2.0]))
    total, _ = SumAndDifference.apply(a, b)
    total.backward()
    assert a.grad.item() == 1 and b.grad.item() == 1, "an unused output counts as zeros"


def test_custom_function_with_outputs_that_are_not_differentiable():
    a = leaf(data(3, 4))
    values, indices = SignedMax.apply(a)
    assert values.requires_grad and not indices.requires_grad
    values.sum().backward()
    check(a.grad, np.eye(4)[array(a).argmax(1)])


def test_custom_function_that_returns_too_few_gradients():
    class Wrong(gt.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError):
        Wrong.apply(gt.ones(1, requires_grad=True), gt.ones(1, requires_grad=True)).backward()


def test_error_in_a_custom_backward_reaches_the_caller():
    class Wrong(gt.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    a = gt.ones(1, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        Wrong.apply(a).backward()
    (a * 2).backward()
    assert a.grad.item() == 2


def test_custom_function_with_setup_context():
    class Square(gt.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            (x,) = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    check_gradient(Square.apply, data(3))


def test_straight_through_estimator():
    class Round(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return grad

    a = leaf(np.array([0.4, 1.6]))
    (Round.apply(a) * 3).sum().backward()
    assert a.grad.tolist() == [3, 3]
    a.grad = None
    (a + (a.round() - a).detach()).sum().backward()
    assert a.grad.tolist() == [1, 1]


# --- hooks -----------------------------------------------------------------------------------------------------------


def test_hook_sees_and_replaces_the_gradient():
    a = leaf(np.array([1.0, 2.0]))
    seen = []
    a.register_hook(lambda grad: seen.append(grad.tolist()))
    handle = a.register_hook(lambda grad: grad * 10)
    (a * 2).sum().backward()
    assert seen == [[2, 2]] and a.grad.tolist() == [20, 20]
    handle.remove()
    a.grad = None
    (a * 2).sum().backward()
    assert a.grad.tolist() == [2, 2] and len(seen) == 2


def test_hook_on_an_intermediate():
    a = leaf(np.array([1.0, 2.0]))
    b = a * 2
    seen = []
    b.register_hook(lambda grad: seen.append(grad.tolist()) or grad.clamp(max=1))
    (b * 3).sum().backward()
    assert seen == [[3, 3]] and a.grad.tolist() == [2, 2]


def test_hooks_run_in_order_and_see_the_sum():
    a = leaf(np.array([1.0]))
    b = a * 1
    order = []
    b.register_hook(lambda g: order.append(("first", g.item())))
    b.register_hook(lambda g: order.append(("second", g.item())))
    (b * 2 + b * 3).backward()
    assert order == [("first", 5.0), ("second", 5.0)]


def test_hook_needs_a_tensor_that_requires_grad():
    with pytest.raises(RuntimeError):
        gt.ones(2).register_hook(lambda g: g)


def test_error_in_a_hook_reaches_the_caller():
    a = gt.ones(1, requires_grad=True)

    def broken(grad):
        raise ZeroDivisionError("mine")

    handle = a.register_hook(broken)
    with pytest.raises(ZeroDivisionError, match="mine"):
        (a * 2).backward()
    handle.remove()
    (a * 2).backward()
    assert a.grad is not None


def test_hook_may_use_gt_and_read():
    a = leaf(np.array([1.0, 2.0]))
    norms = []
    a.register_hook(lambda grad: norms.append(grad.norm().item()))
    ((a * 2) ** 2).sum().backward()
    assert norms[0] == pytest.approx(np.linalg.norm([8, 16]))


def test_hook_with_retain_grad():
    a = leaf(np.array([1.0]))
    b = a * 2
    b.retain_grad()
    b.register_hook(lambda g: g * 5)
    (b * 1).backward()
    assert a.grad.item() == 10 and b.grad.item() in (1.0, 5.0)


def test_post_accumulate_grad_hook():
    a = leaf(np.array([1.0]))
    seen = []
    a.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (a * 2).backward()
    (a * 2).backward()
    assert seen == [2, 4]


# --- checkpoint ------------------------------------------------------------------------------------------------------


def block(x, w):
    return (x @ w).tanh() @ w.T


def test_checkpoint_gives_the_same_gradients():
    x, w = leaf(data(2, 3, seed=1)), leaf(data(3, 4, seed=2))
    block(x, w).sum().backward()
    plain = [array(x.grad), array(w.grad)]
    x.grad = w.grad = None
    calls = []

    def counted(x, w):
        calls.append(1)
        return block(x, w)

    out = gt.utils.checkpoint.checkpoint(counted, x, w, use_reentrant=False)
    assert len(calls) == 1
    out.sum().backward()
    assert len(calls) == 2, "the block runs again in backward"
    np.testing.assert_array_equal(array(x.grad), plain[0])
    np.testing.assert_array_equal(array(w.grad), plain[1])


def test_checkpoint_replays_its_random_numbers():
    x = leaf(data(50, 20))

    def dropped(x):
        return x * (gt.rand(50, 20) > 0.5).double() * 2

    gt.manual_seed(5)
    out = gt.utils.checkpoint.checkpoint(dropped, x, use_reentrant=False)
    after = gt.rand(3).tolist()
    out.sum().backward()
    made = array(x.grad)
    gt.manual_seed(5)
    x.grad = None
    plain = dropped(x)
    assert gt.rand(3).tolist() == after, "the stream of random numbers goes on as without the checkpoint"
    plain.sum().backward()
    np.testing.assert_array_equal(made, array(x.grad))
    assert (made == 0).any() and (made == 2).any()
    check(out, array(plain))


def test_backward_of_a_checkpoint_does_not_disturb_later_random_numbers():
    x = leaf(data(4))
    gt.manual_seed(5)
    out = gt.utils.checkpoint.checkpoint(lambda x: x * gt.rand(4), x, use_reentrant=False)
    out.sum().backward()
    after = gt.rand(3).tolist()
    gt.manual_seed(5)
    gt.rand(4)
    assert gt.rand(3).tolist() == after


def test_checkpoints_in_a_chain_and_nested():
    w = leaf(data(3, 3))
    run = gt.utils.checkpoint.checkpoint

    def layer(x):
        return (x @ w).sin()

    def two(x):
        return run(layer, run(layer, x, use_reentrant=False), use_reentrant=False)

    x = leaf(data(2, 3, seed=4))
    run(two, run(layer, x, use_reentrant=False), use_reentrant=False).sum().backward()
    made = [array(x.grad), array(w.grad)]
    x.grad = w.grad = None
    layer(layer(layer(x))).sum().backward()
    np.testing.assert_allclose(made[0], array(x.grad), rtol=1e-12)
    np.testing.assert_allclose(made[1], array(w.grad), rtol=1e-12)


def test_checkpoint_with_several_outputs_keywords_and_other_values():
    x = leaf(data(3))

    def split(x, factor, *, power=1):
        return x * factor, x**power, "note"

    a, b, note = gt.utils.checkpoint.checkpoint(split, x, 3.0, power=2, use_reentrant=False)
    assert note == "note"
    (a.sum() + b.sum()).backward()
    check(x.grad, 3 + 2 * array(x))


def test_checkpoint_without_gradients():
    made = gt.utils.checkpoint.checkpoint(lambda x: x * 2, gt.ones(2), use_reentrant=False)
    assert made.tolist() == [2, 2] and not made.requires_grad
    with gt.no_grad():
        assert gt.utils.checkpoint.checkpoint(
            lambda x: x * 2, gt.ones(2, requires_grad=True), use_reentrant=False
        ).tolist() == [2, 2]
