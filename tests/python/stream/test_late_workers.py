"""Workers that come before their server, leave, and come back."""

import signal
import time

import pytest
from cluster import Cluster

pytestmark = pytest.mark.timeout(120)

HELLO = "import gt; print(gt.ones(3).sum().item())"


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_workers_may_come_before_their_server(cluster: Cluster):
    port = free_port()
    workers = [cluster.worker(port) for _ in range(2)]
    time.sleep(1)
    assert all(worker.is_running() for worker in workers)
    server = cluster.server(port=port)
    cluster.wait_for_workers(server, 2, within=15)
    assert cluster.run(HELLO, server.address) == "3.0\n"


def test_a_session_without_a_worker_waits_for_one(cluster: Cluster):
    server = cluster.server()
    client = cluster.client("import gt\nprint('recorded')\nx = gt.ones(3) * 2\nprint(x.tolist())", server.address)
    client.wait_for("recorded")
    time.sleep(0.5)
    assert client.is_running() and client.printed() == "recorded\n"
    cluster.worker(server.port)
    assert client.succeeded().splitlines() == ["recorded", "[2.0, 2.0, 2.0]"]


def test_ctrl_c_ends_a_wait_for_a_worker(cluster: Cluster):
    server = cluster.server()
    client = cluster.client(
        """
        import gt
        x = gt.ones(3)
        print("waiting", flush=True)
        try:
            x.sum().item()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """,
        server.address,
    )
    client.wait_for("waiting")
    time.sleep(0.3)
    client.send(signal.SIGINT)
    client.wait_for("interrupted", within=3)
    assert client.ended(within=10) == 0


def test_a_script_that_runs_far_ahead_of_any_worker_is_held_back_not_killed(cluster: Cluster):
    server = cluster.server()
    client = cluster.client(
        """
        import gt
        x = gt.zeros(4)
        print("started", flush=True)
        for i in range(100_000):
            x = x + 1
        print(x.tolist(), flush=True)
        """,
        server.address,
    )
    client.wait_for("started")
    time.sleep(2)
    held = cluster.status(server)["server"]["held_bytes"]
    assert client.is_running() and held < 64 << 20, (held, client.said())
    cluster.worker(server.port)
    assert client.succeeded(within=60).splitlines()[-1] == "[100000.0, 100000.0, 100000.0, 100000.0]"


def test_a_worker_leaves_and_another_takes_its_place_and_name(cluster: Cluster):
    server = cluster.server()
    for turn in range(3):
        worker = cluster.worker(server.port, "--id", "bob")
        (seen,) = cluster.wait_for_workers(server, 1)
        assert seen["id"] == "bob"
        assert cluster.run(HELLO, server.address) == "3.0\n"
        if turn == 1:
            worker.kill()
        else:
            worker.send(signal.SIGTERM)
            assert worker.ended() == 0
        cluster.wait_for_workers(server, 0)


def test_a_session_outlives_all_of_its_workers(cluster: Cluster):
    server = cluster.server()
    client = cluster.client(
        """
        import gt
        for turn in range(3):
            while True:
                try:
                    x = gt.full((4,), float(turn))
                    assert x.sum().item() == 4 * turn
                    print("turn", turn, flush=True)
                    while True:
                        x.sum().item()
                except gt.WorkerLost:
                    break
        print("done")
        """,
        server.address,
    )
    for turn in range(3):
        worker = cluster.worker(server.port)
        client.wait_for(f"turn {turn}")
        worker.kill()
    # Waits for a worker while there is none, and is told of the loss when the last one goes.
    assert client.succeeded().splitlines()[-1] == "done"


def test_sessions_spread_over_workers_that_come_later(cluster: Cluster):
    server = cluster.server(workers=1)
    first = cluster.client(HELLO + "\nimport time; time.sleep(60)", server.address)
    first.wait_for("3.0")
    cluster.worker(server.port)
    cluster.wait_for_workers(server, 2)
    second = cluster.client(HELLO + "\nimport time; time.sleep(60)", server.address)
    second.wait_for("3.0")
    homes = {s["home"] for s in cluster.status(server)["sessions"]}
    assert homes == {"worker_0", "worker_1"}
