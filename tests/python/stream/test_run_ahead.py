"""Recording stays near what a server has run."""

from __future__ import annotations

import pytest
from cluster import Cluster

pytestmark = [pytest.mark.timeout(120), pytest.mark.undisturbed]

# How long a loop was recorded, and how long it took in all, the read at its end included.
LOOP = """
import gt, time
x = gt.randn(600, 600) * 0.04
(x @ x).tanh().sum().item()
start = time.perf_counter()
for _ in range(20):
    x = (x @ x).tanh()
x.sum().item()
each = (time.perf_counter() - start) / 20
count = max(60, int(8 / each))
start = time.perf_counter()
for _ in range(count):
    x = (x @ x).tanh()
recorded = time.perf_counter() - start
x.sum().item()
print(recorded, time.perf_counter() - start)
"""


def test_a_loop_was_recorded_for_a_server_in_no_time_and_the_next_read_waited_for_all_of_it(cluster: Cluster):
    server = cluster.server(workers=1)
    recorded, total = map(float, cluster.run(LOOP, server.address, within=90).split())
    assert total - recorded < max(4.0, 0.5 * total), f"recorded in {recorded:.1f} s, {total - recorded:.1f} s were left"
