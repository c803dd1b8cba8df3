"""Training under signals gives what one worker gives, and moves what theory says."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import gt
from gt import nn, optim
from gt.models import Qwen3Config, Qwen3ForCausalLM

STEPS = 30
COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROWS = ("o_proj", "down_proj")


@pytest.fixture(autouse=True)
def one_worker_afterwards():
    """Each test leaves the session as it found it."""
    yield
    gt.gpu_workers(1)


def replicated(workers):
    """A signal under which everything is whole on these workers."""
    return gt.SignalConfig(replicated=True, workers=workers)


def split(axis, workers):
    """A signal under which what is made is cut along an axis."""
    return gt.SignalConfig(shard=gt.ShardConfig(axis=axis, workers=workers))


def tiny():
    """A small Qwen3 with weights that depend on the seed alone."""
    gt.manual_seed(3)
    config = Qwen3Config(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=False,
    )
    return Qwen3ForCausalLM(config)


def under(signal, module):
    """Everything the module computes is under the signal."""
    module.forward = gt.signal.context(signal)(module.forward)


def cut_weights(module, columns, rows):
    """Lays out the matrices of a layer by columns, then by rows."""
    for name, part in module.named_modules():
        last = name.split(".")[-1]
        if last in COLUMNS:
            part.weight.data = gt.signal.tensor(part.weight.data, name=columns)
        elif last in ROWS:
            part.weight.data = gt.signal.tensor(part.weight.data, name=rows)


def nothing(model):
    """One worker."""
    return contextlib.nullcontext


def data_parallel(model):
    """Batches in parts, the model outside the scope."""
    return lambda: gt.signal.context("data_parallel")


def tensor_parallel(model):
    """Weights in parts."""
    cut_weights(model, "columns", "rows")
    return lambda: gt.signal.context("everywhere")


def pipeline(model):
    """Layers on different workers."""
    layers = model.model.layers
    under("first", model.model.embed_tokens)
    for number, layer in enumerate(layers):
        under("first" if number < len(layers) // 2 else "last", layer)
    under("last", model.model.norm)
    under("last", model.lm_head)
    return contextlib.nullcontext


def grid(model):
    """Layers on different pairs of workers, weights in parts on each pair."""
    layers = model.model.layers
    start = pipeline(model)
    for number, layer in enumerate(layers):
        stage = "first" if number < len(layers) // 2 else "last"
        cut_weights(layer, f"{stage}_columns", f"{stage}_rows")
    return start


def curve(way, steps=STEPS):
    """The losses of some steps on the same data."""
    model = tiny()
    scope = way(model)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    data = np.random.default_rng(0).integers(0, 96, (steps, 8, 12))
    losses = []
    for batch in data:
        tokens = gt.tensor(batch)
        with scope():
            loss = model(tokens, labels=tokens).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


@pytest.fixture(scope="module")
def alone():
    """What one worker gives."""
    gt.gpu_workers(1)
    return curve(nothing)


CASES = {
    "data ×2": (2, data_parallel, {"data_parallel": split(0, [0, 1])}),
    "data ×4": (4, data_parallel, {"data_parallel": split(0, [0, 1, 2, 3])}),
    "data ×3, uneven": (3, data_parallel, {"data_parallel": split(0, [0, 1, 2])}),
    "tensor ×2": (
        2,
        tensor_parallel,
        {"everywhere": replicated([0, 1]), "columns": split(0, [0, 1]), "rows": split(1, [0, 1])},
    ),
    "pipeline ×2": (2, pipeline, {"first": replicated([0]), "last": replicated([1])}),
    "grid 2×2": (
        4,
        grid,
        {
            "first": replicated([0, 1]),
            "first_columns": split(0, [0, 1]),
            "first_rows": split(1, [0, 1]),
            "last": replicated([2, 3]),
            "last_columns": split(0, [2, 3]),
            "last_rows": split(1, [2, 3]),
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_language_model_learns_the_same(case, alone):
    workers, way, signals = CASES[case]
    gt.gpu_workers(workers)
    for name, config in signals.items():
        gt.register_config(name, config)
    np.testing.assert_allclose(curve(way), alone, rtol=0, atol=1e-4)


def sent():
    """Bytes that each worker has sent to others."""
    return np.array([stats["moved_bytes_out"] for _, stats in sorted(gt.debug.get_worker_stats().items())])


@pytest.mark.parametrize("workers", [2, 4])
def test_data_parallel_moves_what_a_ring_moves(workers):
    gt.gpu_workers(workers)
    gt.register_config("data_parallel", split(0, list(range(workers))))
    gt.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = optim.SGD(model.parameters(), lr=1e-2)
    gradient_bytes = sum(p.numel() * 4 for p in model.parameters())

    def step():
        x = gt.randn(16, 64)
        with gt.signal.context("data_parallel"):
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    step()
    gt.synchronize()
    before = sent()
    for _ in range(5):
        step()
    gt.synchronize()
    each = (sent() - before) / 5
    ring = 2 * (workers - 1) / workers * gradient_bytes
    # What worker 0 sends besides is the batch itself; sums of a few numbers are not worth two rounds.
    batch_bytes = 16 * 64 * 4
    assert np.all(each[1:] >= ring * 0.98) and np.all(each[1:] <= ring * 1.02 + 256)
    assert each[0] <= ring * 1.02 + batch_bytes + 256


def test_dropout_and_init_do_not_depend_on_the_split():
    gt.register_config("halves", replicated([0]))

    def run():
        gt.manual_seed(11)
        with gt.signal.context("halves"):
            weight = gt.randn(7, 6)
            layer = nn.Linear(6, 5)
            kept = nn.functional.dropout(gt.ones(9, 6), 0.5)
            noise = gt.rand(5, 3)
        return [x.detach().numpy() for x in (weight, layer.weight, layer.bias, kept, noise)]

    alone = run()
    for workers in (2, 3):
        gt.gpu_workers(workers)
        for axis in (0, 1):
            gt.register_config("halves", split(axis, list(range(workers))))
            for one, many in zip(alone, run(), strict=True):
                np.testing.assert_array_equal(one, many)


class Block(nn.Module):
    """A pair of matrices, cut by columns and by rows, around which the rest is whole."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(16)
        with gt.signal.context("columns"):
            self.up = nn.Linear(16, 48, bias=False)
        with gt.signal.context("rows"):
            self.down = nn.Linear(48, 16, bias=False)

    def forward(self, x):
        """Adds to what comes in."""
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


@pytest.mark.parametrize("workers", [2, 4])
def test_a_column_row_pair_is_one_sum_forward_and_one_backward(workers):
    gt.gpu_workers(workers)
    everyone = list(range(workers))
    gt.register_config("everywhere", replicated(everyone))
    gt.register_config("columns", split(0, everyone))
    gt.register_config("rows", split(1, everyone))
    pairs = 3
    gt.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(pairs)))
    optimizer = optim.SGD(model.parameters(), lr=1e-2)

    def step():
        x = gt.randn(4, 16, requires_grad=True)
        with gt.signal.context("everywhere"):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return x.grad.sum()

    def sums():
        return gt.debug.get_worker_stats()["worker_0"]["collectives"]["all_reduce"]["count"]

    step().item()
    before = sums()
    step().item()
    # One a pair forward, one a pair backward, but for the first: nobody asks for all of x.grad, so only its sum is summed.
    # Instead the gradients of what all workers have whole (here the norms' weights) travel together.
    assert sums() - before == 2 * pairs
    assert set(gt.debug.get_worker_stats()["worker_0"]["collectives"]) <= {"all_reduce", "broadcast", "cut", "reduce"}
