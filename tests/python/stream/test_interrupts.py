"""Ctrl-C and SIGTERM: waits end, servers and workers end what they do."""

import os
import signal
import time

import pytest
from cluster import Cluster

pytestmark = pytest.mark.timeout(120)

LONG = """
import gt, sys
x = gt.randn(700, 700) * 0.01
(x @ x).sum().item()
print("waiting", flush=True)
try:
    y = x
    for i in range(4000):
        y = y @ x
    y.sum().item()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


def test_ctrl_c_ends_a_wait_for_a_server(cluster: Cluster):
    server = cluster.server(workers=1)
    client = cluster.client(LONG, server.address)
    client.wait_for("waiting")
    time.sleep(0.5)
    start = time.monotonic()
    client.send(signal.SIGINT)
    client.wait_for("interrupted", within=5)
    assert client.ended(within=10) == 7
    assert time.monotonic() - start < 10
    cluster.wait_for_sessions(server, 0)
    # What the session had begun is dropped with it: the next one does not wait for it.
    assert cluster.run("import gt; print(gt.ones(3).sum().item())", server.address, within=15) == "3.0\n"


# A loop that records far faster than it can run, interrupted, then a checkpoint.
SAVING = """
import gt, time
x = gt.randn(600, 600) * 0.04
(x @ x).tanh().sum().item()
print("looping", flush=True)
steps = 0
try:
    while True:
        x = (x @ x).tanh()
        steps += 1
except KeyboardInterrupt:
    start = time.perf_counter()
    gt.save({"x": x}, PATH)
    print("saved after", steps, time.perf_counter() - start, flush=True)
assert gt.load(PATH)["x"].shape == (600, 600)
"""


@pytest.mark.undisturbed
@pytest.mark.parametrize("through_server", [False, True])
def test_a_save_after_ctrl_c_waited_for_all_that_was_recorded(cluster: Cluster, through_server: bool):
    address = cluster.server(workers=1).address if through_server else None
    path = cluster.directory / "model.gt"
    client = cluster.client(SAVING.replace("PATH", repr(str(path))), address)
    client.wait_for("looping")
    # Long enough that what was recorded without a limit would take minutes.
    time.sleep(3)
    client.send(signal.SIGINT)
    client.wait_for("saved after", within=20)
    took = float(client.succeeded().split()[-1])
    # About a second of work is left; the cores may be busy with something else.
    assert took < 10, client.printed()


def test_work_goes_on_after_ctrl_c(cluster: Cluster):
    server = cluster.server(workers=1)
    program = """
        import gt, os, signal, threading, time
        x = gt.randn(500, 500) * 0.01
        y = x
        for i in range(100): y = y @ x
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            y.sum().item()
            time.sleep(2)
        except KeyboardInterrupt:
            print("interrupted")
        assert (gt.ones(3) * 2).tolist() == [2, 2, 2]
        y.sum().item()
    """
    assert cluster.run(program, server.address) == "interrupted\n"


def test_ctrl_c_ends_a_wait_for_a_server_that_does_not_answer(cluster: Cluster):
    server = cluster.server()
    server.send(signal.SIGSTOP)
    client = cluster.client(
        """
        import gt
        print("waiting", flush=True)
        try:
            gt.ones(3)
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
    server.send(signal.SIGCONT)
    cluster.wait_for_sessions(server, 0)


def test_a_session_that_nobody_has_is_not_kept(cluster: Cluster):
    """The script gives up on a slow server, and lives on: the server must not think that it has a session."""
    server = cluster.server()
    server.send(signal.SIGSTOP)
    client = cluster.client(
        f"""
        import gt, time
        try:
            gt.connect("{server.address}", timeout=0.3)
        except ConnectionError as error:
            print("gave up:", error, flush=True)
        time.sleep(60)
        """
    )
    client.wait_for("gave up")
    server.send(signal.SIGCONT)
    time.sleep(0.5)
    cluster.wait_for_sessions(server, 0, within=5)
    assert client.is_running()


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_end_tells_everyone(cluster: Cluster, signal_: signal.Signals):
    server = cluster.server(workers=1)
    own = server.children()
    other = cluster.worker(server.port)
    cluster.wait_for_workers(server, 2)
    client = cluster.client(
        """
        import gt
        print("running", gt.ones(3).sum().item(), flush=True)
        try:
            while True:
                gt.ones(3).sum().item()
        except gt.errors.GTError as error:
            print("ended:", error, flush=True)
        """,
        server.address,
    )
    client.wait_for("running")
    server.send(signal_)
    assert server.ended(within=15) == 0
    assert "shutting down" in client.succeeded(within=10), client.printed()
    for pid in own:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert other.is_running(), "a worker that the server did not start looks for the next one"
    assert not list((cluster.directory / "gt").glob("server-*")), "the socket's file is gone"
    other.send(signal.SIGTERM)
    assert other.ended(within=15) == 0


def test_a_worker_that_is_told_to_end_finishes_what_it_has(cluster: Cluster):
    server = cluster.server()
    worker = cluster.worker(server.port)
    cluster.wait_for_workers(server, 1)
    client = cluster.client(
        """
        import gt
        x = gt.eye(500)
        print("running", x.sum().item(), flush=True)
        for i in range(100):
            x = x @ gt.eye(500)
        print("result", x.sum().item(), flush=True)
        try:
            while True:
                x.sum().item()
        except gt.WorkerLost as error:
            print("lost:", error, flush=True)
        """,
        server.address,
    )
    client.wait_for("result")
    worker.send(signal.SIGTERM)
    assert worker.ended(within=20) == 0
    printed = client.succeeded(within=15)
    assert "result 500.0" in printed and "worker_0 is lost (the worker disconnected)" in printed, printed


def test_a_second_ctrl_c_ends_a_worker_that_drains(cluster: Cluster):
    server = cluster.server()
    worker = cluster.worker(server.port)
    cluster.wait_for_workers(server, 1)
    client = cluster.client(LONG, server.address)
    client.wait_for("waiting")
    time.sleep(0.5)
    worker.send(signal.SIGINT)
    time.sleep(0.5)
    if worker.is_running():
        worker.send(signal.SIGINT)
    assert worker.ended(within=5) in (0, 130)


def test_a_second_ctrl_c_ends_a_server_at_once(cluster: Cluster):
    server = cluster.server(workers=1)
    client = cluster.client(LONG, server.address)
    client.wait_for("waiting")
    time.sleep(0.3)
    server.send(signal.SIGINT)
    time.sleep(0.2)
    if server.is_running():
        server.send(signal.SIGINT)
    assert server.ended(within=5) in (0, 130)
