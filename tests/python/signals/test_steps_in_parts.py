"""Large steps of an optimizer are taken in parts: what they move, what they hold, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import gt
from gt import nn, optim

STEPS = 6
WIDE = 768


@pytest.fixture(autouse=True)
def one_worker_afterwards():
    """Each test leaves the session as it found it."""
    yield
    gt.gpu_workers(1)


def train(workers, make=optim.AdamW, **options):
    """The losses, parameters and states of a short run; the model and the optimizer."""
    gt.gpu_workers(workers)
    gt.register_config("parts", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    gt.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, WIDE), nn.Tanh(), nn.Linear(WIDE, WIDE), nn.Tanh(), nn.Linear(WIDE, 7))
    optimizer = make(model.parameters(), lr=0.01, **options)
    losses = []
    for step in range(STEPS):
        x = gt.randn(12, 32)
        with gt.signal.context("parts"):
            loss = (model(x) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (step + 2)
        losses.append(loss.item())
    return losses, model, optimizer


def collectives():
    """What has travelled so far: how often, and how many bytes."""
    return gt.debug.get_worker_stats()["worker_0"]["collectives"]


@pytest.mark.parametrize("make, options", [(optim.AdamW, {}), (optim.SGD, {"momentum": 0.9}), (optim.SGD, {})])
def test_a_step_in_parts_is_the_step(make, options):
    alone, model, optimizer = train(1, make, **options)
    expected = [p.detach().numpy() for p in model.parameters()]
    states = [t.numpy() for s in optimizer.state_dict()["state"].values() for t in s.values() if hasattr(t, "numpy")]
    for workers in (2, 3):
        losses, model, optimizer = train(workers, make, **options)
        np.testing.assert_allclose(losses, alone, rtol=1e-4)
        assert collectives()["reduce_scatter"]["count"] >= STEPS - 1
        for one, many in zip(expected, model.parameters(), strict=True):
            np.testing.assert_allclose(many.detach().numpy(), one, atol=2e-4)
        # Read as wholes, wherever their parts are.
        read = [t.numpy() for s in optimizer.state_dict()["state"].values() for t in s.values() if hasattr(t, "numpy")]
        for one, many in zip(states, read, strict=True):
            np.testing.assert_allclose(many, one, atol=2e-4)


def test_a_step_in_parts_moves_what_a_sum_moves():
    workers = 2
    _, model, _ = train(workers)
    of_model = sum(p.numel() * 4 for p in model.parameters())
    moved = collectives()
    steps = moved["reduce_scatter"]["count"]
    assert steps == moved["all_gather"]["count"] == STEPS
    # From all workers together: a half of the gradients and a half of the parameters, from each of two.
    assert moved["reduce_scatter"]["bytes"] == moved["all_gather"]["bytes"] == steps * of_model


def test_gradients_that_somebody_asked_for_are_summed_once():
    gt.gpu_workers(2)
    gt.register_config("parts", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    gt.manual_seed(0)
    model = nn.Linear(WIDE, WIDE)
    optimizer = optim.AdamW(model.parameters())
    for _ in range(3):
        with gt.signal.context("parts"):
            model(gt.randn(8, WIDE)).square().mean().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        assert norm.item() > 0
    assert "reduce_scatter" not in collectives()
