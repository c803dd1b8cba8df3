"""Sharded work on worker processes, and one of them killed in the middle of it."""

import os
import random
import signal
import time

import pytest
from cluster import Cluster
from sharded_training import TRAIN

pytestmark = pytest.mark.timeout(180)


ALONE = TRAIN + "print([round(step().item(), 5) for _ in range(5)])\n"

UNTIL_KILLED = (
    TRAIN
    + """
# Parameters are whole on every worker and survive one of them: training alone may just go on. This is in parts.
with gt.signal.context("parts"):
    kept = gt.rand(48, 4)
lost = None
for n in range(100000):
    began = time.monotonic()
    try:
        (step() + kept.sum()).item()
    except gt.WorkerLost as error:
        lost = error
        break
    if n == 3:
        print("training", flush=True)
assert lost is not None
assert time.monotonic() - began < 5, time.monotonic() - began
print("lost:", str(lost).splitlines()[0], flush=True)
print("goes on:", (gt.ones(3) * 2).sum().item(), [step().item() < 10 for _ in range(3)], flush=True)
"""
)


def test_worker_processes_give_what_one_worker_gives(cluster: Cluster):
    alone = cluster.run(ALONE)
    server = cluster.server(workers=3)
    cluster.wait_for_workers(server, 3)
    assert cluster.run(ALONE, server.address).split() == alone.split()


def test_a_worker_killed_in_a_collective_is_an_error_soon(cluster: Cluster):
    server = cluster.server(workers=3)
    cluster.wait_for_workers(server, 3)
    client = cluster.client(UNTIL_KILLED, server.address)
    client.wait_for("training")
    time.sleep(0.2)
    victim = server.children()[-1]
    cluster.strays.append(victim)
    os.kill(victim, signal.SIGKILL)
    printed = client.succeeded()
    assert "lost:" in printed and "goes on: 6.0 [True, True, True]" in printed, printed


# How often a worker is killed, each time at another moment.
KILLS = 20


@pytest.mark.timeout(600)
def test_workers_killed_at_any_moment_over_tcp(cluster: Cluster):
    server = cluster.server()
    moments = random.Random(5)

    def worker():
        return cluster.worker(server.port, "--listen", "127.0.0.1", "--threads", 1)

    workers, victim = [worker() for _ in range(4)], 0
    for kill in range(KILLS):
        cluster.wait_for_workers(server, 4)
        # Without their sockets they are reached by their ports. Without the server's, which is the case for the last two, a
        # worker that is gone might also come back, and is waited for.
        for socket in (cluster.directory / "gt").glob("*.sock"):
            if not socket.name.startswith("server") or kill >= KILLS - 3:
                socket.unlink()
        client = cluster.client(UNTIL_KILLED, server.address)
        client.wait_for("training")
        time.sleep(moments.uniform(0, 0.3))
        # The last one that was started came by TCP.
        victim = moments.randrange(4) if kill < KILLS - 1 else victim
        workers[victim].kill()
        printed = client.succeeded()
        assert "lost:" in printed and "goes on: 6.0 [True, True, True]" in printed, printed
        workers[victim] = worker()
