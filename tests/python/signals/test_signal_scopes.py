"""Scopes: what is recorded under which signal."""

import threading
import warnings

import pytest

import gt
from gt.utils.checkpoint import checkpoint

pytestmark = pytest.mark.transport


def now():
    return gt._core.signal_name(gt._core.signal_scope())


@pytest.fixture(autouse=True)
def signals():
    gt.register_config("outer", gt.SignalConfig(replicated=True))
    gt.register_config("inner", gt.SignalConfig(gt.ShardConfig(0), backward_signal="inner_back"))
    gt.register_config("inner_back", gt.SignalConfig(replicated=True))
    gt.register_config("window", gt.SignalConfig(compile=True))
    yield
    assert now() is None


def test_the_inner_scope_counts_until_it_is_left():
    with gt.signal.context("outer"):
        assert now() == "outer"
        with gt.signal.context("inner"):
            assert now() == "inner"
        assert now() == "outer"
        with gt.signal.context("window"):
            assert now() == "outer", "it says nothing of workers"
    assert now() is None


def test_a_scope_is_left_by_an_exception():
    with pytest.raises(KeyError), gt.signal.context("outer"):
        raise KeyError
    assert now() is None


def test_by_hand():
    gt.signal.enter("outer")
    with pytest.raises(RuntimeError, match='cannot exit signal "inner": the innermost scope is "outer"'):
        gt.signal.exit("inner")
    gt.signal.exit("outer")
    with pytest.raises(RuntimeError, match="no scope was entered"):
        gt.signal.exit("outer")


def test_a_decorator_enters_at_every_call():
    @gt.signal.context("inner", backward="outer")
    def depth(n):
        return [now()] if n == 0 else [now(), *depth(n - 1)]

    assert depth(2) == ["inner"] * 3


def test_threads_have_scopes_of_their_own():
    seen = []
    with gt.signal.context("outer"):
        thread = threading.Thread(target=lambda: seen.append(now()))
        thread.start()
        thread.join(timeout=20)
    assert seen == [None]


def test_an_unknown_signal_warns_once_and_is_ignored():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            with gt.signal.context("outer"), gt.signal.context("heard of by nobody"):
                assert now() == "outer"
    assert len(said) == 1 and said[0].filename == __file__ and "heard of by nobody" in str(said[0].message)


def test_a_warning_that_is_an_error_enters_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning), gt.signal.context("heard of by somebody else"):
            raise AssertionError
    with pytest.raises(RuntimeError, match="no scope was entered"):
        gt.signal.exit("heard of by somebody else")


class Watched(gt.autograd.Function):
    seen: list = []

    @staticmethod
    def forward(ctx, x):
        Watched.seen.append(now())
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Watched.seen.append(now())
        return grad * 2


def test_custom_functions_and_hooks_run_under_the_signal_of_the_gradients():
    x = gt.ones(4, requires_grad=True)
    hooked = []
    Watched.seen = []
    with gt.signal.context("inner"):
        y = Watched.apply(x)
        y.register_hook(lambda grad: hooked.append(now()))
        loss = y.sum()
    with gt.signal.context("outer"):
        loss.backward()
    assert Watched.seen == ["inner", "inner_back"] and hooked == ["inner_back"]
    assert x.grad.tolist() == [2] * 4


def test_a_checkpoint_computes_again_under_the_signal_of_its_first_run():
    seen = []

    def function(x):
        seen.append(now())
        return (x * x).sum()

    x = gt.ones(3, requires_grad=True)
    with gt.signal.context("inner"):
        loss = checkpoint(function, x)
    loss.backward()
    assert seen == ["inner", "inner"] and x.grad.tolist() == [2] * 3


def test_a_tensor_laid_out_by_a_signal():
    x = gt.arange(6.0).reshape(3, 2).requires_grad_()
    y = gt.signal.tensor(x, name="inner")
    assert y is not x and y.tolist() == x.tolist()
    (y * y).sum().backward()
    assert x.grad.tolist() == (2 * x).tolist()


def test_what_is_state():
    assert gt.nn.Parameter(gt.ones(2))._is_state and gt.nn.Parameter(gt.ones(2), requires_grad=False)._is_state
    assert not gt.ones(2)._is_state and gt.ones(2, requires_grad=True)._is_state
    norm = gt.nn.BatchNorm1d(2)
    norm(gt.randn(4, 2))
    assert norm.running_mean._is_state
    norm.running_mean = gt.zeros(2)
    assert norm.running_mean._is_state
    assert norm.double().running_mean._is_state
    weight = norm.weight
    weight.data = gt.zeros(2).double()
    assert weight._is_state


@pytest.mark.parametrize("optimizer", [gt.optim.SGD, gt.optim.Adam, gt.optim.Adagrad, gt.optim.Rprop])
def test_optimizer_states_are_state_and_hold_what_they_would_without_signals(optimizer):
    extra = {"momentum": 0.9} if optimizer is gt.optim.SGD else {}
    w = gt.nn.Parameter(gt.tensor([1.0, float("inf"), float("nan")]))
    opt = optimizer([w], lr=0.5, **extra)
    w.grad = gt.ones(3)
    opt.step()
    states = [s for s in opt.state[w].values() if isinstance(s, gt.Tensor) and s.dim()]
    assert states and all(s._is_state for s in states)
    assert all(gt.isfinite(s).all() for s in states)
