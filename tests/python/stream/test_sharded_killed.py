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
# What they have of the parameters is the same: each worker gives other rows.
with gt.signal.context("parts"):
    rows = model(gt.ones(48, 64)).detach()
assert (rows - rows[:1]).abs().max().item() < 1e-6
"""
)

# The loss is known before anybody reads, so nobody has heard of it when it is met again.
STOPPED_THEN_KILLED = (
    TRAIN
    + """
import os, signal
with gt.signal.context("parts"):
    kept = gt.rand(48, 4)
[(step() + kept.sum()).item() for _ in range(3)]
def parameters():
    return [p.detach().sum().item() for p in model.parameters()]
def raises(read):
    try:
        read()
    except gt.WorkerLost:
        return True
before = parameters()
os.kill(VICTIM, signal.SIGSTOP)
loss = step() + kept.sum()
if SENT:
    # Far more than a window has.
    for _ in range(2000):
        gt.ones(1) + 1
time.sleep(0.2)
os.kill(VICTIM, signal.SIGKILL)
time.sleep(1)
assert raises(loss.item)
assert (gt.ones(3) * 2).sum().item() == 6
gt.synchronize()
assert parameters() == before
weight = next(model.parameters())
with gt.no_grad():
    weight.sub_(kept.sum())
# Of a write that is skipped although the loss is known, the next read tells, once.
assert raises(weight.sum().item)
assert parameters() == before
with gt.no_grad():
    weight.sub_(kept.sum())
assert raises(gt.synchronize)
gt.synchronize()
assert parameters() == before
assert step().item() < 10 and parameters() != before
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


@pytest.mark.parametrize("is_sent", [True, False], ids=["sent-before", "sent-after"])
def test_a_lost_worker_took_the_parameters_with_it_that_others_had_too(cluster: Cluster, is_sent: bool):
    server = cluster.server(workers=3)
    for _ in range(3):
        cluster.wait_for_workers(server, 3)
        victim = server.children()[0]
        cluster.strays.append(victim)
        program = STOPPED_THEN_KILLED.replace("VICTIM", str(victim)).replace("SENT", str(is_sent))
        cluster.client(program, server.address).succeeded()


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
