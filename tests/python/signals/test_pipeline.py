"""gt.pipeline: the gradients and loss of the whole batch, in 1F1B order."""

import pytest

import gt
from gt._pipeline import order
from gt.nn import functional as F

pytestmark = pytest.mark.transport

NAMES = ["stage_1", "stage_2", "stage_3"]


@pytest.fixture(autouse=True)
def signals():
    for name in NAMES:
        gt.register_config(name, gt.SignalConfig(replicated=True))


@pytest.mark.parametrize("stages, batches", [(1, 1), (1, 4), (2, 1), (2, 5), (3, 2), (4, 8)])
def test_the_order_is_1f1b(stages, batches):
    steps = order(stages, batches)
    assert len(steps) == len(set(steps)) == 2 * stages * batches
    place = {step: i for i, step in enumerate(steps)}
    for stage in range(stages):
        own = [(forward, batch) for s, forward, batch in steps if s == stage]
        held = most = 0
        for forward, _ in own:
            held += 1 if forward else -1
            most = max(most, held)
        assert most <= stages - stage, "it keeps no more than the stages behind it need"
        assert [b for f, b in own if f] == [b for f, b in own if not f] == list(range(batches))
        for batch in range(batches):
            if stage:
                assert place[stage - 1, True, batch] < place[stage, True, batch]
                assert place[stage, False, batch] < place[stage - 1, False, batch]


def layers():
    gt.manual_seed(0)
    return gt.nn.Linear(3, 8), gt.nn.Linear(8, 8), gt.nn.Linear(8, 1)


@pytest.mark.parametrize("batches", [1, 2, 3, 7, 50])
def test_it_is_the_step_of_the_whole_batch(batches):
    a, b, c = layers()
    x, y = gt.randn(7, 3), gt.randn(7, 1)
    stages = [
        (NAMES[0], lambda x: a(x).tanh()),
        (NAMES[1], lambda h: (b(h).tanh(), h)),
        (NAMES[2], lambda h, skipped, y: F.mse_loss(c(h + skipped), y)),
    ]
    loss = gt.pipeline(stages, batches)(x, y)
    h = a(x).tanh()
    whole = F.mse_loss(c(b(h).tanh() + h), y)
    parameters = [p for layer in (a, b, c) for p in layer.parameters()]
    expected = gt.autograd.grad(whole, parameters)
    assert loss.item() == pytest.approx(whole.item(), abs=1e-6) and not loss.requires_grad
    for p, grad in zip(parameters, expected):
        assert gt.allclose(p.grad, grad, atol=1e-6)


def test_stages_run_under_their_signals():
    seen = []

    def stage(x, *rest):
        seen.append(gt._core.signal_name(gt._core.signal_scope()))
        return x.sum() if rest else x * 1

    w = gt.ones(4, requires_grad=True)
    step = gt.pipeline([(NAMES[0], lambda x: stage(x) * w), (NAMES[1], stage)], 2)
    step(gt.ones(4, 4), gt.ones(4))
    assert sorted(seen) == [NAMES[0]] * 2 + [NAMES[1]] * 2
    assert w.grad.tolist() == [2] * 4


def test_the_forward_pass_alone():
    a, b, _ = layers()
    step = gt.pipeline([(NAMES[0], a), (NAMES[1], b)], 3)
    x = gt.randn(5, 3)
    assert gt.allclose(step.forward(x), b(a(x)), atol=1e-6)


def test_wrong_use():
    with pytest.raises(ValueError, match="at least one stage"):
        gt.pipeline([], 1)
    with pytest.raises(ValueError, match="micro_batches"):
        gt.pipeline([("a", abs)], 0)
    with pytest.raises(TypeError, match="a pair"):
        gt.pipeline([abs], 1)
    with pytest.raises(ValueError, match="a loss"):
        gt.pipeline([(NAMES[0], lambda x: x)], 1)(gt.ones(4, 2))
    with pytest.raises(ValueError, match="the same first dimension"):
        gt.pipeline([(NAMES[0], lambda x, y: x)], 1)(gt.ones(4), gt.ones(3))
