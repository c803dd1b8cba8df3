"""Processes that are there and do not answer: stopped, then continued, or never."""

import os
import signal
import time

import pytest
from cluster import Cluster, eventually

pytestmark = pytest.mark.timeout(120)

STEADY = """
import gt, hashlib, struct, time
gt.manual_seed(2)
w = (gt.randn(30, 30) * 0.2).requires_grad_()
x = gt.randn(20, 30)
for step in range(400):
    time.sleep(0.002)
    loss = (x @ w).tanh().square().mean()
    loss.backward()
    with gt.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
    if step % 5 == 0:
        loss.item()
        print("step", step, flush=True)
values = w.flatten().tolist()
print(hashlib.sha256(struct.pack(f"{len(values)}d", *values)).hexdigest())
"""
# Longer than the longest silence over a network that a client takes for a loss.
STOPPED_S = 4.6


def test_what_was_stopped_goes_on_with_nothing_lost():
    """A worker, a client and a server of one host, each under a script that never notices."""
    with Cluster() as of_worker, Cluster() as of_client, Cluster() as of_server:
        expected = of_worker.run(STEADY).splitlines()[-1]
        clients, stopped = [], []
        for cluster, which in ((of_worker, "worker"), (of_client, "client"), (of_server, "server")):
            server = cluster.server()
            worker = cluster.worker(server.port, "--threads", 1)
            cluster.wait_for_workers(server, 1)
            client = cluster.client(STEADY, server.address)
            client.wait_for("step 20")
            clients.append(client)
            stopped.append({"worker": worker, "client": client, "server": server}[which])
        for process in stopped:
            process.send(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        for process in stopped:
            process.send(signal.SIGCONT)
        for client in clients:
            assert client.succeeded(within=60).splitlines()[-1] == expected


def test_a_stopped_worker_of_several_is_waited_for(cluster: Cluster):
    """In the middle of training on both: the one that goes on waits for values, and has values for one that does not answer."""
    program = """
        import gt, hashlib, struct
        gt.register_config("parts", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
        gt.manual_seed(2)
        w = (gt.randn(30, 30) * 0.2).requires_grad_()
        x = gt.randn(20, 30)
        for step in range(400):
            with gt.signal.context("parts"):
                loss = (x @ w).tanh().square().mean()
                loss.backward()
                with gt.no_grad():
                    w -= 0.1 * w.grad
                    w.grad = None
            if step % 5 == 0:
                loss.item()
                print("step", step, flush=True)
        values = w.flatten().tolist()
        print(hashlib.sha256(struct.pack(f"{len(values)}d", *values)).hexdigest())
    """
    server = cluster.server(workers=2)
    expected = cluster.run(program, server.address).splitlines()[-1]
    for victim in server.children():
        client = cluster.client(program, server.address)
        client.wait_for("step 5")
        os.kill(victim, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(victim, signal.SIGCONT)
        assert client.succeeded(within=60).splitlines()[-1] == expected


def test_a_network_that_was_gone_for_seven_seconds_ended_the_session(cluster: Cluster):
    """A stopped server looks the same over a network: connections open, and nothing comes."""
    expected = cluster.run(STEADY).splitlines()[-1]
    server = cluster.server(workers=1)
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    client = cluster.client(STEADY, server.address, XDG_RUNTIME_DIR=cluster.directory / "elsewhere")
    client.wait_for("step 20")
    server.send(signal.SIGSTOP)
    time.sleep(7)
    server.send(signal.SIGCONT)
    assert client.succeeded(within=60).splitlines()[-1] == expected


@pytest.mark.heavy
def test_a_server_that_stays_silent_over_a_network_is_a_clear_error_when_the_lease_ends(cluster: Cluster):
    server = cluster.server(workers=1)
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    client = cluster.client(
        """
        import gt, time
        x = gt.ones(10)
        print("running", x.sum().item(), flush=True)
        time.sleep(0.5)
        seen = time.monotonic()
        try:
            while True:
                x = x + 1
                x.sum().item()
                seen = time.monotonic()
        except Exception as error:
            print(f"after {time.monotonic() - seen:.2f} {type(error).__name__}: {error}", flush=True)
        """,
        server.address,
        XDG_RUNTIME_DIR=cluster.directory / "elsewhere",
    )
    client.wait_for("running")
    server.send(signal.SIGSTOP)
    printed = client.succeeded(within=60).splitlines()[-1].split()
    # A session is kept for 30 s.
    assert 25 < float(printed[1]) < 36 and server.address in " ".join(printed), printed
    server.send(signal.SIGCONT)


@pytest.mark.heavy
def test_a_stopped_client_keeps_its_lease_and_comes_back_over_a_network(cluster: Cluster):
    server = cluster.server(workers=1)
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    expected = cluster.run(STEADY).splitlines()[-1]
    client = cluster.client(STEADY, server.address, XDG_RUNTIME_DIR=cluster.directory / "elsewhere")
    client.wait_for("step 20")
    client.send(signal.SIGSTOP)
    eventually("it is away", lambda: [s["state"] for s in cluster.status(server)["sessions"]] == ["away"], within=25)
    client.send(signal.SIGCONT)
    assert client.succeeded(within=60).splitlines()[-1] == expected


@pytest.mark.parametrize("is_relayed", [False, True], ids=["direct", "relayed"])
def test_a_worker_stopped_over_a_network_is_lost_within_five_seconds_and_may_come_back(
    cluster: Cluster, is_relayed: bool
):
    server = cluster.server("--tls") if is_relayed else cluster.server()
    reach, address = [], server.address
    if is_relayed:
        # Nobody is there: those who ask for TLS come by way of the server.
        reach = ["--fingerprint", server.fingerprint, "--listen", "0.0.0.0", "--advertise", "192.0.2.1"]
        address += f"#{server.fingerprint}"
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    worker = cluster.worker(server.port, *reach, XDG_RUNTIME_DIR=cluster.directory / "elsewhere")
    cluster.wait_for_workers(server, 1)
    client = cluster.client(
        """
        import gt, time
        x = gt.ones(10)
        print("running", x.sum().item(), flush=True)
        while True:
            try:
                seen = time.monotonic()
                x = x + 1
                x.sum().item()
            except gt.WorkerLost as error:
                print(f"lost {time.monotonic() - seen:.2f} {error}", flush=True)
                break
        print("again", gt.ones(3).sum().item(), flush=True)
        """,
        address,
    )
    client.wait_for("running")
    worker.send(signal.SIGSTOP)
    client.wait_for("lost", within=40)
    worker.send(signal.SIGCONT)
    cluster.wait_for_workers(server, 1)
    printed = client.succeeded()
    took_s = float(printed.split("lost ")[1].split()[0])
    assert took_s < 5.2 and "again 3.0" in printed, printed


def test_a_busy_worker_over_a_network_is_not_a_silent_one(cluster: Cluster):
    """One window that takes longer than a silent worker is waited for."""
    server = cluster.server()
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    cluster.worker(server.port, "--threads", 1, XDG_RUNTIME_DIR=cluster.directory / "elsewhere")
    cluster.wait_for_workers(server, 1)
    program = """
        import gt, time
        x, took = gt.eye(1024), []
        for _ in range(5):
            begin = time.monotonic()
            (x @ x).sum().item()
            took.append(time.monotonic() - begin)
        begin = time.monotonic()
        for _ in range(int(8 / min(took))):
            x = x @ x
        print(x.sum().item(), time.monotonic() - begin > 2.5)
    """
    assert cluster.run(program, server.address, within=60) == "1024.0 True\n"
