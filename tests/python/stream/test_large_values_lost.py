"""Large uploads, reads and moves, and what becomes of them when a process is killed in the middle of one."""

from __future__ import annotations

import random
import time

import pytest
from cluster import Cluster, Process, Server, eventually

pytestmark = pytest.mark.timeout(120)

# Does TURN until two workers were lost under it; what it has of them by then has to be right, and each loss told soon.
UNTIL_TWO_ARE_LOST = """
import gt, numpy as np, time
gt.register_config("one", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0])))
gt.register_config("other", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[1])))
LENGTH = 1 << 23
big = np.arange(LENGTH, dtype=np.float32)
lost = 0
while lost < 2:
    began = time.monotonic()
    try:
TURN
        print("turn", flush=True)
    except gt.WorkerLost as error:
        took = time.monotonic() - began
        assert took < SOON, took
        lost += 1
        print("lost", lost, flush=True)
# And the next one is whole again, as soon as there are workers.
while True:
    try:
TURN
        break
    except gt.WorkerLost:
        pass
print("done", flush=True)
"""
TURNS = {
    "upload": """
        x = gt.from_numpy(big)
        assert x[12345].item() == 12345 and x[-1].item() == big[-1]
    """,
    "read": """
        x = gt.arange(LENGTH, dtype=gt.float32)
        assert np.array_equal(x.numpy(), big)
    """,
    "move": """
        with gt.signal.context("one"):
            x = gt.arange(LENGTH, dtype=gt.float32)
        with gt.signal.context("other"):
            y = x + 1
        with gt.signal.context("one"):
            z = y + 1
        assert z[12345].item() == 12347 and y[-1].item() == LENGTH
    """,
}


@pytest.mark.parametrize("by", ["unix", "tcp"])
@pytest.mark.parametrize("kind", TURNS)
def test_a_worker_killed_in_the_middle(cluster: Cluster, kind: str, by: str):
    chance = random.Random(f"{kind} {by}")
    server = cluster.server()
    workers = {name: worker(cluster, server, name, by) for name in ("alice", "bob")}
    cluster.wait_for_workers(server, 2)
    program = UNTIL_TWO_ARE_LOST.replace("TURN\n", TURNS[kind].strip("\n").rstrip() + "\n")
    # Over a network a worker has five seconds to come back.
    program = program.replace("SOON", "5" if by == "unix" else "7")
    client = cluster.client(program, server.address)
    while "lost 2" not in client.printed() and client.is_running():
        wait_for_turns(client, 1)
        time.sleep(chance.random() * 0.2)
        home = cluster.status(server)["sessions"][0]["home"]
        workers[home].kill()
        # Between two turns there may be nothing to lose: then the program goes on, and another worker is killed under it.
        wait_for_turns(client, 2, or_else="lost")
        workers[home] = worker(cluster, server, home, by)
        cluster.wait_for_workers(server, 2)
    assert client.succeeded(within=60).endswith("done\n")
    cluster.wait_for_memory(server, 0)


def wait_for_turns(client: Process, more: int, or_else: str = "no such word") -> None:
    turns, words = client.printed().count("turn"), client.printed().count(or_else)

    def has_gone_on() -> bool:
        printed = client.printed()
        return printed.count("turn") >= turns + more or printed.count(or_else) > words or not client.is_running()

    eventually(f"{more} more turns", has_gone_on, within=30)


def worker(cluster: Cluster, server: Server, name: str, by: str) -> Process:
    variables = {}
    if by == "tcp":
        # Another place for sockets, which goes once they are there: whoever wants it comes by its port.
        elsewhere = cluster.directory / f"of-{name}"
        elsewhere.mkdir(mode=0o700, exist_ok=True)
        variables = {"XDG_RUNTIME_DIR": elsewhere}
    process = cluster.worker(server.port, "--id", name, "--threads", 1, "--listen", "127.0.0.1", **variables)
    if by == "tcp":
        eventually(f"{name} has joined", lambda: any(w["id"] == name for w in cluster.status(server)["workers"]))
        for path in elsewhere.glob("gt/worker-*.sock"):
            path.unlink()
    return process


def test_a_client_killed_in_the_middle_of_an_upload_leaves_nothing_behind(cluster: Cluster):
    server = cluster.server(workers=1)
    upload = "import gt, numpy as np\nbig = np.ones(1 << 24, np.float32)\nprint('begin', flush=True)\n" + (
        "while True:\n    x = gt.from_numpy(big)\n    print('sent', x[0].item(), flush=True)\n"
    )
    chance = random.Random(4)
    for _ in range(4):
        client = cluster.client(upload, server.address)
        client.wait_for("sent")
        time.sleep(chance.random() * 0.1)
        client.kill()
    cluster.wait_for_sessions(server, 0, within=10)
    cluster.wait_for_memory(server, 0, within=10)
