"""What recordings do not show: nothing waits, halves are computed in float32, shapes are named in errors, models learn."""

import math

import pytest
from nn_case_tables import TABLES
from nn_recording import Space, _flat, numbers

import gt
import gt.nn as nn
from gt.nn import functional as F


def round_trips():
    return sum(w["round_trips"] for w in gt.debug.get_worker_stats().values())


# One-hot without a number of classes reads the largest, as it says.
READS = "F.one_hot(T.tensor([0, 3, 1]))"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("table", sorted(set(TABLES) - {"errors"}))
def test_nothing_waits(table):
    """Forward and backward of every recorded program only record."""
    gt.ones(1).sum().item()
    before = round_trips()
    for program in TABLES[table]:
        if READS in program:
            continue
        space = Space(gt, "float32")
        names = {n: getattr(space, n) for n in ("x", "c", "p", "given", "ints", "bools", "signs", "m")}
        names |= {"T": gt, "nn": nn, "F": F, "dt": space.dtype, "inf": math.inf}
        exec(program, names)
        for i, out in enumerate(_flat(gt, names["r"])):
            if isinstance(out, gt.Tensor) and out.requires_grad:
                weights = gt.tensor(numbers(out.numel(), 5000 + i), dtype=out.dtype).reshape(tuple(out.shape))
                (out * weights).sum().backward(retain_graph=True)
        assert round_trips() == before, program


@pytest.mark.parametrize("dtype", [gt.float16, gt.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.layer_norm(x, (64,)),
        lambda x: F.rms_norm(x, (64,), eps=1e-6),
        lambda x: F.group_norm(x, 4),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.softmax(x, -1),
        lambda x: F.logsigmoid(x),
    ],
    ids=["layer_norm", "rms_norm", "group_norm", "batch_norm", "softmax", "logsigmoid"],
)
def test_halves_are_computed_in_float32(function, dtype):
    x = gt.randn(8, 64).to(dtype)
    out = function(x)
    assert out.dtype == dtype
    exact = function(x.double())
    step = 2**-10 if dtype == gt.float16 else 2**-7
    assert ((out.double() - exact).abs() <= 2 * step * exact.abs() + 2 * step).all().item()


def test_large_halves_do_not_overflow():
    x = gt.full((4, 8), 300.0, dtype=gt.float16) * gt.tensor([1, -1] * 4, dtype=gt.float16)
    assert F.layer_norm(x, (8,)).isfinite().all().item() and F.rms_norm(x, (8,)).isfinite().all().item()


@pytest.mark.parametrize(
    "call, shapes",
    [
        (lambda: nn.Linear(4, 5)(gt.ones(3, 6)), ["3x6", "4x5"]),
        (lambda: nn.Conv2d(3, 4, 3)(gt.ones(2, 2, 5, 5)), ["[4, 3, 3, 3]", "[2, 2, 5, 5]"]),
        (lambda: nn.Conv2d(3, 4, 3)(gt.ones(2, 3, 2, 2)), ["(2, 3, 2, 2)", "(4, 3, 3, 3)"]),
        (lambda: nn.LayerNorm(4)(gt.ones(3, 5)), ["[4]", "[3, 5]"]),
        (lambda: F.cross_entropy(gt.ones(4, 5), gt.ones(3, dtype=gt.int64)), ["(4, 5)", "(3,)"]),
        (lambda: F.binary_cross_entropy(gt.ones(4), gt.ones(5)), ["(4,)", "(5,)"]),
        (lambda: nn.MaxPool2d(3)(gt.ones(1, 1, 2, 2)), ["(1, 1, 2, 2)"]),
        (
            lambda: F.scaled_dot_product_attention(gt.ones(2, 3, 4), gt.ones(2, 3, 5), gt.ones(2, 3, 5)),
            ["(2, 3, 4)", "(2, 3, 5)"],
        ),
        (
            lambda: F.scaled_dot_product_attention(gt.ones(2, 3, 4), gt.ones(2, 5, 4), gt.ones(2, 6, 4)),
            ["(2, 5, 4)", "(2, 6, 4)"],
        ),
        (lambda: nn.BatchNorm2d(3)(gt.ones(2, 4, 2, 2)), ["(2, 4, 2, 2)", "(3,)"]),
        (lambda: F.mse_loss(gt.ones(3), gt.ones(4)), ["3", "4"]),
        (lambda: F.unfold(gt.ones(2, 2), 1), ["(2, 2)"]),
        (lambda: nn.LSTM(3, 4)(gt.ones(5, 2, 3), (gt.ones(1, 3, 4), gt.ones(1, 3, 4))), ["(1, 2, 4)", "[1, 3, 4]"]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*target size")
def test_errors_name_the_shapes(call, shapes):
    with pytest.raises((RuntimeError, ValueError)) as caught:
        call()
    for shape in shapes:
        assert shape in str(caught.value)


def test_broadcast_targets_warn():
    with pytest.warns(UserWarning, match=r"target size \(\(3,\)\)"):
        F.mse_loss(gt.ones(3, 1), gt.ones(3))


def test_attention_twice_differentiable():
    q = gt.randn(1, 2, 3, 4, dtype=gt.float64)

    def plain(x):
        scores = (x @ x.mT) / 2
        seen = gt.ones(3, 3, dtype=gt.bool).tril()
        return gt.where(seen, scores, -math.inf).softmax(-1) @ x

    made = []
    for function in (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), plain):
        x = q.clone().requires_grad_()
        (g,) = gt.autograd.grad((function(x) ** 2).sum(), x, create_graph=True)
        (g**2).sum().backward()
        made.append((g.detach(), x.grad))
    assert gt.allclose(made[0][0], made[1][0]) and gt.allclose(made[0][1], made[1][1])


def test_conv_results_can_be_viewed():
    for bias in (True, False):
        out = nn.Conv2d(2, 3, 3, bias=bias)(gt.ones(2, 2, 5, 5))
        assert out.is_contiguous() and out.view(2, -1).shape == (2, 27)
        assert nn.ConvTranspose2d(2, 3, 3, bias=bias)(gt.ones(2, 2, 5, 5)).view(2, -1).shape == (2, 147)
    assert nn.MaxPool2d(2)(gt.ones(2, 2, 4, 4)).view(2, -1).shape == (2, 8)


def test_embedding_that_shortens_rows():
    table = nn.Embedding(4, 3, max_norm=1.0)
    with gt.no_grad():
        table.weight.fill_(1.0)
    table(gt.tensor([0, 2]))
    lengths = table.weight.detach().norm(dim=1)
    assert gt.allclose(lengths, gt.tensor([1.0, 3**0.5, 1.0, 3**0.5]))


def test_pretrained_tables():
    table = nn.Embedding.from_pretrained(gt.eye(3))
    assert not table.weight.requires_grad and table(gt.tensor([2])).tolist() == [[0, 0, 1]]
    assert nn.Embedding.from_pretrained(gt.eye(3), freeze=False).weight.requires_grad
    with pytest.raises(AssertionError, match="2-dimensional"):
        nn.Embedding.from_pretrained(gt.ones(3))


def trained(net, x, y, loss, steps, rate):
    """Plain gradient descent, so that this file needs no optimizer."""
    for _ in range(steps):
        net.zero_grad()
        loss(net(x), y).backward()
        with gt.no_grad():
            for p in net.parameters():
                p.sub_(p.grad * rate)
    return loss(net(x), y).item()


def test_a_small_network_learns():
    gt.manual_seed(0)
    x = gt.randn(64, 2)
    y = ((x[:, 0] * x[:, 1]) > 0).long()
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    assert trained(net, x, y, nn.CrossEntropyLoss(), 300, 0.5) < 0.2


def test_a_convolutional_network_learns():
    gt.manual_seed(0)
    x = gt.randn(16, 1, 8, 8)
    y = (x[:, 0, :4].mean((1, 2)) > x[:, 0, 4:].mean((1, 2))).long()
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 2),
    )
    assert trained(net, x, y, nn.CrossEntropyLoss(), 60, 0.2) < 0.2


def test_a_recurrent_network_learns():
    gt.manual_seed(0)

    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(1, 8, batch_first=True)
            self.head = nn.Linear(8, 1)

        def forward(self, x):
            return self.head(self.rnn(x)[1][-1])

    x = gt.randn(32, 5, 1)
    assert trained(Last(), x, x[:, 0], nn.MSELoss(), 150, 0.3) < 0.4


def test_calls_are_cheap():
    """A call of a module costs little beside what it records."""
    import time

    layer = nn.Identity()
    plain = layer.forward
    x = gt.ones(1)

    def seconds(call):
        best = math.inf
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(2000):
                call(x)
            best = min(best, time.perf_counter() - start)
        return best / 2000

    assert seconds(layer) - seconds(plain) < 2e-6
