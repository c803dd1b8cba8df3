"""Workers that a server has started itself, and what killed processes leave behind."""

import os
import signal

import pytest
from cluster import Cluster, eventually
from test_killed import SURVIVOR

pytestmark = pytest.mark.timeout(120)


def sockets(cluster: Cluster) -> list[str]:
    return sorted(path.name for path in (cluster.directory / "gt").glob("*.sock"))


def test_a_worker_that_dies_is_started_again(cluster: Cluster):
    server = cluster.server(workers=1)
    (first,) = server.children()
    assert len(sockets(cluster)) == 2
    client = cluster.client(SURVIVOR.replace("STEPS", "300"), server.address)
    client.wait_for("step 4")
    os.kill(first, signal.SIGKILL)
    (second,) = eventually("another one is started", lambda: [pid for pid in server.children() if pid != first])
    (worker,) = cluster.wait_for_workers(server, 1)
    assert worker["id"] == "worker_0"
    printed = client.succeeded(within=60).splitlines()
    assert sum(line.startswith("lost:") for line in printed) <= 1 and printed[-1].startswith("done"), printed
    assert "signal: 9" in server.said() and "restarted" in server.said(), server.said()
    left = sockets(cluster)
    assert len(left) == 2 and not any(str(first) in name for name in left), left
    # One that is told to end is not needed any more.
    os.kill(second, signal.SIGTERM)
    cluster.wait_for_workers(server, 0)
    eventually("it is said", lambda: server.said().rstrip().endswith(f"worker process {second} of this server exited"))


def test_the_next_start_removes_what_killed_processes_left(cluster: Cluster):
    server = cluster.server(workers=2)
    workers = server.children()
    # Stopped ones cannot be told to end with their server, and are killed like it.
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    server.kill()
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    eventually("all are gone", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))
    left = sockets(cluster)
    assert len(left) == 3, left

    def is_tidy() -> bool:
        # A socket is surely left behind once it is a second old.
        other = cluster.server()
        other.send(signal.SIGTERM)
        assert other.ended() == 0
        return not sockets(cluster)

    eventually("they are removed", is_tidy)
