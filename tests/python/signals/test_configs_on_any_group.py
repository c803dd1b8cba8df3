"""A config says how the work is split, not how many workers there are: the same file trains on any group."""

from __future__ import annotations

import warnings

import pytest

import gt
from gt import nn, optim

CONFIGS = {
    "data parallel, compiled": """
        whole: {shard: {axis: 0, workers: [0, 1, 2, 3]}, compile: true}
    """,
    "model parallel": """
        whole: {shard: {axis: 1, workers: [0, 1]}}
    """,
    "stages with names for their gradients": """
        first: {shard: {axis: 0, workers: [0, 1]}, backward: first_backward}
        second: {shard: {axis: 0, workers: [2, 3]}, backward: second_backward}
    """,
    "a mesh": """
        whole: {shard: [{axis: 0, workers: 2}, {axis: 1, workers: 2}]}
    """,
}


@pytest.fixture(autouse=True)
def one_worker_afterwards():
    """Each test leaves the session as it found it."""
    yield
    gt.gpu_workers(1)


def losses(workers, names):
    """Those of a short run on so many workers, each part of the model in the scope of its name."""
    gt.gpu_workers(workers)
    gt.manual_seed(5)
    parts = [nn.Sequential(nn.Linear(12, 12), nn.Tanh()) for _ in names]
    head = nn.Linear(12, 4)
    optimizer = optim.AdamW([p for part in (*parts, head) for p in part.parameters()], lr=0.02)
    found = []
    for _ in range(5):
        x, y = gt.randn(8, 12), gt.randn(8, 4)
        for name, part in zip(names, parts, strict=True):
            with gt.signal.context(name):
                x = part(x)
        loss = nn.functional.mse_loss(head(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("title", CONFIGS)
def test_a_config_trains_on_any_group(title, tmp_path):
    path = tmp_path / "signals.yaml"
    path.write_text(CONFIGS[title])
    names = ["first", "second"] if "first" in CONFIGS[title] else ["whole"]
    with warnings.catch_warnings():
        # Scopes without a config, and workers that are not there, are done without and said so; that is tested elsewhere.
        warnings.simplefilter("ignore")
        alone = losses(1, names)
        gt.load_config(path)
        for workers in (1, 2, 4):
            assert losses(workers, names) == pytest.approx(alone, abs=1e-4), f"{workers} workers"
