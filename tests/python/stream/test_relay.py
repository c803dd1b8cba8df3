"""Workers that a client cannot reach by themselves: the server passes the connection on."""

import re
import socket

import pytest
from cluster import Cluster

pytestmark = pytest.mark.timeout(120)

# Kept free for documentation: nobody is there, whoever asks and wherever that is.
NOWHERE = "192.0.2.1"

TRAINS = """
import gt, hashlib, struct
gt.manual_seed(3)
x, w = gt.randn(64, 200), (gt.randn(200, 300) * 0.1).requires_grad_()
large = gt.tensor([[float(i % 97 - 48) for i in range(300)]] * 700)
for step in range(20):
    loss = ((x @ w).tanh() @ large.T / 1000).square().mean()
    loss.backward()
    with gt.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
    loss.item()
values = w.flatten().tolist()
print(hashlib.sha256(struct.pack(f"{len(values)}d", *values)).hexdigest(), sum(values), flush=True)
"""


def test_a_client_trains_on_a_worker_that_it_cannot_reach(cluster: Cluster):
    server = cluster.server("--tls")
    reach = ("--fingerprint", server.fingerprint)
    # Who asks for TLS gets it on every connection, so that the socket of the host is no way either.
    worker = cluster.worker(
        server.port, *reach, "--threads", 1, "--listen", "0.0.0.0", "--advertise", NOWHERE, "--id", "far"
    )
    cluster.wait_for_workers(server, 1)
    expected = cluster.run(TRAINS, GT_NUM_THREADS=1)
    told = cluster.run(TRAINS, f"{server.address}#{server.fingerprint}")
    assert told == expected
    # And the loss of what lies behind is told as any other.
    client = cluster.client(
        """
        import gt
        x = gt.ones(3)
        print("made", x.sum().item(), flush=True)
        try:
            while True:
                x = x + 1
                x.sum().item()
        except gt.WorkerLost as error:
            print("lost", error, flush=True)
        print("again", gt.ones(4).sum().item(), flush=True)
        """,
        f"{server.address}#{server.fingerprint}",
    )
    client.wait_for("made")
    worker.kill()
    cluster.worker(server.port, *reach, "--listen", "0.0.0.0", "--advertise", NOWHERE)
    printed = client.succeeded(within=60)
    assert "far is lost" in printed and re.search(r"script_\d+\.py", printed) and "again 4.0" in printed, printed


def test_nobody_is_where_the_worker_says_it_is():
    """Or the test above would show nothing."""
    with pytest.raises(OSError), socket.create_connection((NOWHERE, 9000), timeout=0.5):
        pass
