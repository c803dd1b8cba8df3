"""How many of a server's workers a session uses."""

import pytest
from cluster import Cluster

SCRIPT = """
import gt
x = gt.arange(6.0)
seen = []
for n in (1, 2, 1):
    gt.gpu_workers(n)
    seen.append(gt._core.worker_count())
try:
    gt.gpu_workers(3)
except ValueError as error:
    seen.append(str(error))
print(seen, x.sum().item())
"""


@pytest.mark.timeout(120)
def test_a_session_is_limited_to_some_workers(cluster: Cluster):
    server = cluster.server(workers=2)
    cluster.wait_for_workers(server, 2)
    said = cluster.run(SCRIPT, server.address)
    assert "[1, 2, 1, 'gpu_workers(3): the server has only 2 workers'] 15.0" in said
