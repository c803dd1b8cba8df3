"""kill -9 of workers, clients and servers, at any time."""

import random
import signal
import time

import pytest
from cluster import Cluster, eventually

pytestmark = pytest.mark.timeout(120)

# Trains, and starts again from its last copy in this process whenever the worker is lost. STEPS is a multiple of five.
SURVIVOR = """
import gt, time
def fresh():
    gt.manual_seed(5)
    return (gt.randn(40, 40) * 0.1).requires_grad_()
x = [[((i * 7 + j * 3) % 11 - 5) / 5 for j in range(40)] for i in range(24)]
kept, step, lost = fresh().tolist(), 0, 0
w = gt.tensor(kept, requires_grad=True)
inputs = gt.tensor(x)
while step < STEPS:
    try:
        time.sleep(0.002)
        loss = (inputs @ w).tanh().square().mean()
        loss.backward()
        with gt.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        if step % 5 == 4:
            kept = w.tolist()
            print("step", step, flush=True)
        step += 1
    except gt.WorkerLost as error:
        lost += 1
        print("lost:", " / ".join(str(error).splitlines()), flush=True)
        assert "worker_" in str(error) and "script_" in str(error), str(error)
        w = gt.tensor(kept, requires_grad=True)
        inputs = gt.tensor(x)
        step = step // 5 * 5
import hashlib, struct
# The last copy, of the last step: a worker may also be lost after that.
values = sum(kept, [])
print("done", lost, hashlib.sha256(struct.pack(f"{len(values)}d", *values)).hexdigest(), flush=True)
"""


@pytest.mark.parametrize("by", ["unix", "tcp"])
def test_a_client_survives_the_loss_of_its_worker(cluster: Cluster, by: str):
    """The client goes on on the other worker, where another session has not noticed anything."""
    server = cluster.server()
    # A worker that starts before its server's socket is there comes by TCP.
    variables = {} if by == "unix" else {"XDG_RUNTIME_DIR": cluster.directory / "elsewhere"}
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    first = cluster.worker(server.port, "--threads", 1, **variables)
    cluster.wait_for_workers(server, 1)
    second = cluster.worker(server.port, "--threads", 1, **variables)
    cluster.wait_for_workers(server, 2)
    program = SURVIVOR.replace("STEPS", "300")
    expected = cluster.run(program).split()[-1]
    victim = cluster.client(program, server.address)
    victim.wait_for("step 4")
    other = cluster.client(program, server.address)
    other.wait_for("step 4")
    time.sleep(random.random() * 0.3)
    (home,) = [s["home"] for s in cluster.status(server)["sessions"] if str(victim.pid) in s["name"]]
    (first if home == "worker_0" else second).kill()
    printed = victim.succeeded(within=60).splitlines()
    lost = [line for line in printed if line.startswith("lost:")]
    assert len(lost) <= 1 and all(home in line for line in lost), lost
    assert printed[-1].split()[0] == "done" and printed[-1].split()[2] == expected, printed[-1]
    assert other.succeeded(within=60).split()[-2:] == ["0", expected]


def test_a_lost_worker_is_named_with_the_lines_that_made_its_tensors(cluster: Cluster):
    server = cluster.server()
    worker = cluster.worker(server.port, "--id", "alice")
    cluster.wait_for_workers(server, 1)
    client = cluster.client(
        """
        import gt
        a = gt.ones(10)
        b = a * 2
        b.tolist()
        print("made", flush=True)
        import time
        time.sleep(1)
        for what in (lambda: b.tolist(), lambda: (a + 1).sum().item(), lambda: gt.synchronize(), lambda: b[0].item()):
            try:
                what()
            except gt.WorkerLost as error:
                print("LOST", " / ".join(str(error).splitlines()), flush=True)
        """,
        server.address,
    )
    client.wait_for("made")
    worker.kill()
    eventually("the worker is gone", lambda: not cluster.status(server)["workers"])
    replacement = cluster.worker(server.port)
    cluster.wait_for_workers(server, 1)
    lines = [line for line in client.succeeded().splitlines() if line.startswith("LOST")]
    assert len(lines) >= 3, lines
    for line in lines:
        assert "alice" in line and "script_" in line and ".py:3" in line, line
    assert replacement.is_running()


def test_a_killed_client_leaves_nothing_behind(cluster: Cluster):
    server = cluster.server(workers=1)
    other = cluster.client(SURVIVOR.replace("STEPS", "600"), server.address, name="other")
    other.wait_for("step 4")
    hog = "import gt, time\nx = [gt.ones(1 << 20) * k for k in range(25)]\ngt.synchronize()\nprint('held')\ntime.sleep(60)"
    client = cluster.client(hog, server.address)
    client.wait_for("held")
    eventually("100 MB are held", lambda: cluster.status(server)["workers"][0]["live_bytes"] > 100e6)
    assert len(cluster.status(server)["sessions"]) == 2
    client.kill()
    cluster.wait_for_memory(server, 1_000_000, within=10)
    assert "lost:" not in other.succeeded(within=60)
    cluster.wait_for_sessions(server, 0)


def test_clients_killed_at_any_moment_leave_nothing_behind(cluster: Cluster):
    server = cluster.server(workers=1)
    steady = cluster.client(SURVIVOR.replace("STEPS", "600"), server.address, name="steady")
    steady.wait_for("step 4")
    chance = random.Random(3)
    for _ in range(6):
        client = cluster.client(SURVIVOR.replace("STEPS", "100000"), server.address)
        time.sleep(0.12 + chance.random() * 0.25)
        client.kill()
    assert "lost:" not in steady.succeeded(within=60)
    cluster.wait_for_sessions(server, 0, within=10)
    cluster.wait_for_memory(server, 0, within=10)


@pytest.mark.parametrize("by", ["unix", "tcp"])
def test_a_killed_server_is_a_clear_error_within_five_seconds(cluster: Cluster, by: str):
    server = cluster.server()
    worker = cluster.worker(server.port)
    cluster.wait_for_workers(server, 1)
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    variables = {} if by == "unix" else {"XDG_RUNTIME_DIR": cluster.directory / "elsewhere"}
    client = cluster.client(
        """
        import gt, time
        x = gt.ones(10)
        print("running", x.sum().item(), flush=True)
        seen = time.monotonic()
        try:
            while True:
                x = x + 1
                x.sum().item()
                seen = time.monotonic()
        except Exception as error:
            print(f"after {time.monotonic() - seen:.2f} {type(error).__name__}: {error}", flush=True)
        # A wait that begins now ends at once, and recording never raises.
        start = time.monotonic()
        y = x * 2
        try:
            y.tolist()
        except Exception as error:
            print(f"again {type(error).__name__}", time.monotonic() - start < 1, flush=True)
        try:
            gt.disconnect()
        except Exception as error:
            print(f"disconnect {type(error).__name__}", flush=True)
        print("embedded", (gt.ones(4) * 2).tolist(), flush=True)
        """,
        server.address,
        **variables,
    )
    client.wait_for("running")
    server.kill()
    lines = client.succeeded().splitlines()
    after = next(line for line in lines if line.startswith("after")).split()
    assert float(after[1]) < 5, lines
    assert f"server at {server.address}" in " ".join(after), lines
    assert any(line.startswith("again") and line.endswith("True") for line in lines), lines
    assert lines[-1] == "embedded [2.0, 2.0, 2.0, 2.0]", lines
    # The worker is still looking for its server, and finds the next one.
    assert worker.is_running()
    again = cluster.server(port=server.port)
    cluster.wait_for_workers(again, 1, within=15)
    assert cluster.run("import gt; print(gt.ones(3).sum().item())", again.address) == "3.0\n"


def test_a_worker_of_a_killed_server_frees_what_it_held(cluster: Cluster):
    """Its client cannot come back to a server that never knew it."""
    server = cluster.server()
    worker = cluster.worker(server.port)
    cluster.wait_for_workers(server, 1)
    client = cluster.client(
        """
        import gt
        x = gt.ones(1 << 22) * 2
        print("held", x[0].item(), flush=True)
        while True:
            x[0].item()
        """,
        server.address,
    )
    client.wait_for("held")
    server.kill()
    again = cluster.server(port=server.port)
    cluster.wait_for_workers(again, 1, within=15)
    cluster.wait_for_memory(again, 0, within=10)
    assert client.ended() == 1
    assert "server" in client.said() and "Error" in client.said() or "WorkerLost" in client.said()
    assert worker.is_running()


@pytest.mark.heavy
def test_everything_is_killed_at_random_and_the_rest_goes_on(cluster: Cluster):
    """Workers and clients die in turn under one server; a client that catches the loss always gets its result."""
    chance = random.Random(11)
    server = cluster.server()
    workers = [cluster.worker(server.port, "--threads", 1) for _ in range(2)]
    cluster.wait_for_workers(server, 2)
    program = SURVIVOR.replace("STEPS", "500")
    expected = cluster.run(program).split()[-1]
    survivors = [cluster.client(program, server.address, name="survivor") for _ in range(3)]
    for client in survivors:
        client.wait_for("step 4")
    for round_ in range(3):
        doomed = cluster.client(program, server.address, name="doomed")
        time.sleep(0.1 + chance.random() * 0.3)
        workers[round_ % 2].send(signal.SIGKILL)
        workers[round_ % 2].ended()
        workers[round_ % 2] = cluster.worker(server.port, "--threads", 1)
        cluster.wait_for_workers(server, 2)
        doomed.kill()
    for client in survivors:
        assert client.succeeded(within=90).split()[-1] == expected
    cluster.wait_for_sessions(server, 0)
    cluster.wait_for_memory(server, 0, within=10)
