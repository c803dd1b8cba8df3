"""The tape: gradients against finite differences, leaves, backward and the modes. Single functions: test_table.py."""

import gc

import numpy as np
import pytest
from parity import array, check, check_gradient, data, leaf, numeric_gradient

import gt

# Programs whose second derivative crosses several rules at once.
PROGRAMS = [
    ("matmul", lambda a, b: (a @ b).tanh(), ((2, 3), (3, 2))),
    ("softmax", lambda a, b: a.softmax(1) * b, ((2, 3), (2, 3))),
    ("log_softmax", lambda a, b: a.log_softmax(0) * b, ((2, 3), (2, 3))),
    ("logsumexp", lambda a, b: (a * b).logsumexp(1), ((2, 3), (3,))),
    ("div-pow", lambda a, b: (a / (b * b + 1)) ** 3, ((2, 3), (3,))),
    ("norm", lambda a, b: (a - b).norm(dim=1), ((2, 3), (2, 1))),
    ("var", lambda a, b: (a * b).var(1), ((2, 3), (2, 3))),
    ("index", lambda a, b: a[:, 1:] ** 2 * b[gt.tensor([1, 0])], ((2, 3), (2, 2))),
    ("shape", lambda a, b: gt.cat([a.T, b.reshape(3, 2)], 1).exp(), ((2, 3), (2, 3))),
    ("where", lambda a, b: gt.where(a.detach() > 0, a.sin(), b * a), ((2, 3), (2, 3))),
    ("prod", lambda a, b: (a * b).prod(1), ((2, 3), (2, 3))),
    ("cumsum", lambda a, b: (a * b).cumsum(1) ** 2, ((2, 3), (2, 3))),
    ("max", lambda a, b: (a * b).amax(1) ** 2, ((2, 3), (2, 3))),
    ("expand", lambda a, b: a.unsqueeze(0).expand(2, 2, 3) ** 2 * b, ((2, 3), (2, 2, 3))),
    ("write", lambda a, b: written(a, b), ((2, 3), (2,))),
    ("einsum", lambda a, b: gt.einsum("ij,kj->ik", a, b) ** 2, ((2, 3), (2, 3))),
    ("clamp", lambda a, b: a.clamp(-1, 1) ** 2 * b, ((2, 3), (2, 3))),
    ("gather", lambda a, b: a.gather(1, gt.tensor([[0, 0], [2, 1]])) ** 2 * b, ((2, 3), (2, 2))),
]


def written(a, b):
    target = a * 2
    target[:, 1] = b.exp()
    return target * target


@pytest.mark.parametrize("name, function, shapes", PROGRAMS, ids=[p[0] for p in PROGRAMS])
def test_programs(name, function, shapes):
    check_gradient(function, *[data(*shape, seed=i + 1) for i, shape in enumerate(shapes)])


@pytest.mark.parametrize("name, function, shapes", PROGRAMS, ids=[p[0] for p in PROGRAMS])
def test_double_backward_of_programs(name, function, shapes):
    def slope(*xs):
        xs = [x if x.requires_grad else x.detach().requires_grad_() for x in xs]
        with gt.enable_grad():
            out = function(*xs)
            weights = gt.tensor(np.random.default_rng(3).uniform(0.5, 1.5, tuple(out.shape)))
            made = gt.autograd.grad((out * weights).sum(), xs, create_graph=True, allow_unused=True)
        flat = [m.reshape(-1) for m in made if m is not None]
        return gt.cat(flat)

    check_gradient(slope, *[data(*shape, seed=i + 1) for i, shape in enumerate(shapes)], rtol=1e-3, atol=1e-5)


def test_third_derivative():
    x = gt.tensor(1.5, dtype=gt.float64, requires_grad=True)
    value = x**4
    for expected in (4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24.0):
        (value,) = gt.autograd.grad(value, x, create_graph=True)
        assert value.item() == pytest.approx(expected)


def test_a_small_network_against_differences():
    x = data(4, 3, seed=9)

    def network(w1, b1, w2):
        hidden = (gt.tensor(x) @ w1 + b1).relu()
        logits = hidden @ w2
        return -(logits.log_softmax(1))[gt.arange(4), gt.tensor([0, 1, 1, 0])].mean()

    check_gradient(network, data(3, 5, seed=1), data(5, seed=2), data(5, 2, seed=3))


# --- leaves ----------------------------------------------------------------------------------------------------------


def test_leaves_and_graph_nodes():
    a = gt.ones(2, requires_grad=True)
    b = a * 2
    assert a.is_leaf and a.requires_grad and a.grad_fn is None and a.grad is None
    assert not b.is_leaf and b.requires_grad and b.grad_fn is not None
    c = gt.ones(2)
    assert c.is_leaf and not c.requires_grad and (c * 2).is_leaf and (c * 2).grad_fn is None
    assert (a.detach() * 2).grad_fn is None


def test_requires_grad_setter_and_method():
    a = gt.ones(2)
    assert a.requires_grad_() is a and a.requires_grad
    assert a.requires_grad_(False).requires_grad is False
    a.requires_grad = True
    assert a.requires_grad
    b = a * 2
    with pytest.raises(RuntimeError):
        b.requires_grad = False
    with pytest.raises(RuntimeError):
        b.requires_grad_(False)
    with pytest.raises(RuntimeError):
        gt.tensor([1]).requires_grad_()
    with pytest.raises(RuntimeError):
        gt.tensor([1]).requires_grad = True


def test_grad_is_none_until_backward_and_can_be_set():
    a = gt.ones(2, requires_grad=True)
    assert a.grad is None
    (a * 3).sum().backward()
    assert a.grad.tolist() == [3, 3] and not a.grad.requires_grad and a.grad.is_leaf
    a.grad = None
    assert a.grad is None
    a.grad = gt.full((2,), 5.0)
    (a * 3).sum().backward()
    assert a.grad.tolist() == [8, 8]
    with pytest.raises((RuntimeError, TypeError)):
        a.grad = gt.ones(3)
    with pytest.raises(TypeError):
        a.grad = 3


def test_gradients_accumulate():
    a = gt.ones(2, requires_grad=True)
    for count in range(1, 4):
        (a * 2).sum().backward()
        assert a.grad.tolist() == [2 * count] * 2
    a.grad.zero_()
    (a * 2).sum().backward()
    assert a.grad.tolist() == [2, 2]


def test_a_tensor_used_twice():
    a = leaf(np.array([3.0]))
    (a * a + a).backward()
    assert a.grad.item() == 7
    a.grad = None
    b = a * 2
    (b * b + b).backward()
    assert a.grad.item() == 26


def test_grad_of_a_non_leaf_is_not_kept():
    a = gt.ones(2, requires_grad=True)
    b = a * 2
    b.sum().backward()
    with pytest.warns(UserWarning):
        assert b.grad is None


def test_retain_grad():
    a = gt.ones(2, requires_grad=True)
    b = a * 2
    b.retain_grad()
    assert b.retains_grad
    (b * 3).sum().backward()
    assert b.grad.tolist() == [3, 3] and a.grad.tolist() == [6, 6]
    with pytest.raises(RuntimeError):
        gt.ones(2).retain_grad()
    a.retain_grad()


def test_inputs_that_need_no_gradient_get_none():
    a, b = gt.ones(2, requires_grad=True), gt.ones(2)
    (a * b).sum().backward()
    assert a.grad is not None and b.grad is None


# --- backward --------------------------------------------------------------------------------------------------------


def test_backward_with_a_gradient():
    a = gt.ones(3, requires_grad=True)
    (a * 2).backward(gt.tensor([1.0, 10.0, 100.0]))
    assert a.grad.tolist() == [2, 20, 200]
    a.grad = None
    (a * 2).backward(gradient=gt.ones(3))
    assert a.grad.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError):
        (a * 2).backward(gt.ones(2))


def test_backward_of_one_element_tensors():
    a = gt.ones(1, requires_grad=True)
    (a * 2).backward()
    assert a.grad.tolist() == [2]
    a = gt.ones(1, 1, requires_grad=True)
    (a * 2).backward()
    assert a.grad.tolist() == [[2]]


def test_backward_of_many_elements_is_refused():
    a = gt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="scalar"):
        (a * 2).backward()


def test_backward_without_a_graph_is_refused():
    with pytest.raises(RuntimeError, match="does not require grad"):
        gt.ones(()).backward()
    with pytest.raises(RuntimeError):
        gt.ones((), requires_grad=True).detach().backward()


def test_backward_twice_is_refused_without_retain_graph():
    a = leaf(np.array([2.0]))
    out = (a * a).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()
    assert a.grad.item() == 4


def test_retain_graph():
    a = leaf(np.array([2.0]))
    out = (a * a).sum()
    out.backward(retain_graph=True)
    out.backward(retain_graph=True)
    assert a.grad.item() == 8
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_shared_subgraph_needs_retain_graph():
    a = leaf(np.array([2.0]))
    shared = a * a
    (shared * 2).backward(retain_graph=True)
    (shared * 3).backward()
    assert a.grad.item() == 20


def test_additions_may_be_walked_twice_because_nothing_is_saved():
    a = leaf(np.array([2.0]))
    out = (a + a).sum()
    out.backward()
    out.backward()
    assert a.grad.item() == 4


def test_create_graph_leaves_a_graph_on_grad():
    a = leaf(np.array([3.0]))
    (a**3).backward(create_graph=True)
    assert a.grad.requires_grad and a.grad.item() == 27
    (second,) = gt.autograd.grad(a.grad, a)
    assert second.item() == 18


def test_gradient_penalty():
    weight = leaf(data(3, 3))
    x = leaf(data(2, 3, seed=2))

    def penalty(w):
        out = (x @ w).tanh().sum()
        (slope,) = gt.autograd.grad(out, x, create_graph=True)
        return ((slope.norm(dim=1) - 1) ** 2).mean()

    penalty(weight).backward()
    kept = weight.grad.clone()
    weights = np.array(1.0)

    def objective(w):
        with gt.enable_grad():
            return penalty(w).detach()

    check(kept, numeric_gradient(objective, [array(weight)], weights)[0], rtol=1e-5)


def test_backward_with_inputs():
    a, b = gt.ones(2, requires_grad=True), gt.ones(2, requires_grad=True)
    (a * b).sum().backward(inputs=[a])
    assert a.grad is not None and b.grad is None


def test_autograd_backward_function():
    a = gt.ones(2, requires_grad=True)
    gt.autograd.backward([(a * 2).sum(), (a * 3).sum()])
    assert a.grad.tolist() == [5, 5]
    a.grad = None
    gt.autograd.backward((a * 2,), (gt.tensor([1.0, 2.0]),))
    assert a.grad.tolist() == [2, 4]


def test_long_chains_do_not_recurse():
    a = gt.ones(1, requires_grad=True)
    out = a
    for _ in range(5000):
        out = out + 1
    out.sum().backward()
    assert a.grad.item() == 1
    del out
    gc.collect()


def test_wide_graphs():
    a = gt.ones(2, requires_grad=True)
    total = sum(a * i for i in range(300))
    total.sum().backward()
    assert a.grad.tolist() == [44850, 44850]


# --- modes -----------------------------------------------------------------------------------------------------------


def test_no_grad_as_context_and_decorator():
    a = gt.ones(2, requires_grad=True)
    with gt.no_grad():
        assert not gt.is_grad_enabled()
        b = a * 2
        assert not b.requires_grad and b.is_leaf
        made = gt.ones(2, requires_grad=True)
        assert made.requires_grad
    assert gt.is_grad_enabled() and not b.requires_grad

    @gt.no_grad()
    def double(x):
        """Doubles."""
        return x * 2

    assert not double(a).requires_grad and double.__name__ == "double" and double.__doc__ == "Doubles."
    assert gt.is_grad_enabled()


def test_modes_nest():
    a = gt.ones(2, requires_grad=True)
    with gt.no_grad():
        with gt.enable_grad():
            assert (a * 2).requires_grad
            with gt.no_grad():
                assert not (a * 2).requires_grad
            assert (a * 2).requires_grad
        assert not (a * 2).requires_grad

    @gt.enable_grad()
    def double(x):
        return x * 2

    with gt.no_grad():
        assert double(a).requires_grad


def test_modes_survive_exceptions():
    with pytest.raises(KeyError):
        with gt.no_grad():
            raise KeyError
    assert gt.is_grad_enabled()


def test_set_grad_enabled():
    a = gt.ones(2, requires_grad=True)
    with gt.set_grad_enabled(False):
        assert not (a * 2).requires_grad
    with gt.no_grad(), gt.set_grad_enabled(True):
        assert (a * 2).requires_grad
    gt.set_grad_enabled(False)
    try:
        assert not gt.is_grad_enabled()
    finally:
        gt.set_grad_enabled(True)


def test_inference_mode():
    a = gt.ones(2, requires_grad=True)
    with gt.inference_mode():
        b = a * 2
        assert not b.requires_grad and gt.is_inference_mode_enabled()
        b.add_(1)
    assert b.tolist() == [3, 3] and not gt.is_inference_mode_enabled()

    @gt.inference_mode()
    def double(x):
        return x * 2

    assert not double(a).requires_grad
    with gt.inference_mode(False):
        assert (a * 2).requires_grad


def test_no_grad_on_generators():
    a = gt.ones(2, requires_grad=True)

    @gt.no_grad()
    def produce():
        yield a * 2
        yield a * 3

    for made in produce():
        assert not made.requires_grad and gt.is_grad_enabled()


def test_parameter_update_idiom():
    a = gt.ones(2, requires_grad=True)
    for _ in range(3):
        a.grad = None
        (a * a).sum().backward()
        with gt.no_grad():
            a -= 0.1 * a.grad
    np.testing.assert_allclose(array(a), [0.512, 0.512], rtol=1e-6)
    assert a.is_leaf and a.requires_grad


def test_both_operands_of_copysign_get_a_gradient():
    for track in ((True, True), (True, False), (False, True)):
        x, y = gt.tensor([1.0, -2.0, 0.0]), gt.tensor([-3.0, 4.0, -0.0])
        x.requires_grad_(track[0])
        y.requires_grad_(track[1])
        z = gt.copysign(x, y)
        assert [str(v) for v in z.tolist()] == ["-1.0", "2.0", "-0.0"]
        z.sum().backward()
        assert (x.grad.tolist() if track[0] else x.grad) == ([-1.0, -1.0, 0.0] if track[0] else None)
        assert (y.grad.tolist() if track[1] else y.grad) == ([0.0, 0.0, 0.0] if track[1] else None)
