"""Values that go from worker to worker over a network: through lines that break, through the server, and to nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from cluster import Cluster, Process, Server
from proxies import CuttingProxy
from sharded_training import TRAIN

pytestmark = pytest.mark.timeout(120)

# Kept free for documentation: nobody is there, whoever asks and wherever that is.
NOWHERE = "192.0.2.1"


LOSSES = (
    TRAIN
    + """
losses = [step().item() for _ in range(40)]
values = losses + sum((p.flatten().tolist() for p in model.parameters()), [])
print(losses[-1], hashlib.sha256(struct.pack(f"{len(values)}d", *values)).hexdigest())
moved = [s["moved_bytes_in"] + s["moved_bytes_out"] for s in gt.debug.get_worker_stats().values()]
assert len(moved) == 2 and all(bytes > 1e6 for bytes in moved), moved
"""
)


def two_workers(cluster: Cluster, *advertised: str) -> tuple[Server, list[Process]]:
    """A server and two workers of which nobody sees the sockets, so that each is reached where it says."""
    server = cluster.server()
    workers = []
    for count, host in enumerate(advertised, 1):
        listen = ("--listen", "127.0.0.1", "--advertise", host)
        workers.append(cluster.worker(server.port, "--threads", 1, *listen))
        cluster.wait_for_workers(server, count)
    return server, workers


def hide_sockets(cluster: Cluster) -> None:
    for path in (cluster.directory / "gt").glob("worker-*.sock"):
        path.unlink()


@contextlib.contextmanager
def proxies(workers: list[Process], **how: int) -> Iterator[list[CuttingProxy]]:
    """Between everybody and each worker, at 127.0.0.2 and 127.0.0.3 and the worker's own port."""
    with contextlib.ExitStack() as stack:
        made = []
        for n, worker in enumerate(workers):
            port = worker.listens_at()
            proxy = CuttingProxy(port, seed=n, at=(f"127.0.0.{n + 2}", port), **how)
            made.append(stack.enter_context(proxy))
        yield made


def test_lines_between_workers_that_break_all_the_time_change_no_bit(cluster: Cluster):
    server, workers = two_workers(cluster, "127.0.0.2", "127.0.0.3")
    expected = cluster.run(LOSSES, server.address)
    hide_sockets(cluster)
    with proxies(workers, least=70_000, most=400_000) as between:
        assert cluster.run(LOSSES, server.address, within=60) == expected
        assert all(proxy.cuts > 3 for proxy in between), [proxy.cuts for proxy in between]


def test_workers_that_only_the_server_reaches_train_through_it(cluster: Cluster):
    # The name of a worker's socket means another file to each process: its own to the worker, both to the server.
    places = {name: cluster.directory / name / "gt" for name in ("server", "one", "two")}
    for place in places.values():
        place.mkdir(mode=0o700, parents=True)
    server = cluster.server(cwd=places["server"].parent)
    for count, name in enumerate(("one", "two"), 1):
        nowhere = ("--listen", "127.0.0.1", "--advertise", NOWHERE)
        own = places[name].parent
        cluster.worker(server.port, "--threads", 1, *nowhere, cwd=own, XDG_RUNTIME_DIR="/proc/self/cwd")
        cluster.wait_for_workers(server, count)
        (socket,) = places[name].glob("worker-*.sock")
        (places["server"] / socket.name).symlink_to(socket)
    through = cluster.run(LOSSES, server.address)
    direct = cluster.server(workers=2, GT_NUM_THREADS=1)
    assert through == cluster.run(LOSSES, direct.address)


UNTIL_LOST = (
    TRAIN
    + """
with gt.signal.context("parts"):
    kept = gt.rand(48, 4)
print("training", step().item(), flush=True)
try:
    while True:
        began = time.monotonic()
        (step() + kept.sum()).item()
except gt.WorkerLost as error:
    print(f"after {time.monotonic() - began:.2f} s:", str(error).splitlines()[0], flush=True)
print("goes on:", [step().item() < 10 for _ in range(3)], flush=True)
"""
)


def test_a_neighbor_that_is_out_of_reach_for_good_is_an_error_within_five_seconds(cluster: Cluster):
    server, workers = two_workers(cluster, "127.0.0.2", "127.0.0.3")
    hide_sockets(cluster)
    with proxies(workers, least=1 << 40, most=1 << 41) as between:
        client = cluster.client(UNTIL_LOST, server.address)
        client.wait_for("training")
        # Whichever of the two is home: the other one cannot be reached any more, by anybody.
        home = cluster.status(server)["sessions"][0]["home"]
        between[1 if home == "worker_0" else 0].end()
        printed = client.succeeded(within=30)
    after = next(line for line in printed.splitlines() if line.startswith("after"))
    assert float(after.split()[1]) < 5 and "is lost" in after, printed
    assert "goes on: [True, True, True]" in printed, printed
