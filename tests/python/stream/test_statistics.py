"""Statistics of workers in processes of their own are as true as those of a worker in this one."""

import json

import pytest
from cluster import Cluster

SCRIPT = """
import json
import gt

gt.register_config("split", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
w = gt.ones(16, 16)
for i in range(40):
    with gt.signal.context("split"):
        y = ((gt.ones(8, 16) * float(i)) @ w).relu().sum(0)
    y.sum().item()
x = gt.zeros(8)
for i in range(2000):
    x = x + 1.0
    x = x * 0.5
    x = x - 0.25
gt.synchronize()
print("stats", json.dumps(gt.debug.get_worker_stats()))
"""


@pytest.mark.timeout(120)
def test_more_instructions_were_compiled_than_there_were(cluster: Cluster):
    server = cluster.server(workers=2)
    cluster.wait_for_workers(server, 2)
    said = cluster.run(SCRIPT, server.address)
    everything = json.loads(next(line for line in said.splitlines() if line.startswith("stats")).removeprefix("stats"))
    assert len(everything) == 2
    for stats in everything.values():
        assert 0 < stats["compiled_instructions"] <= stats["total_instructions"]
        assert 0 < stats["hot_instructions"] <= stats["total_instructions"]
        assert sum(stats["family_ns"].values()) > 0
    assert max(stats["hot_instructions"] for stats in everything.values()) > 4000
