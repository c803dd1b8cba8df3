"""Connections that break anywhere between client and server: nothing is lost, nothing is applied twice."""

import pytest
from cluster import Cluster, Server
from isolated import TRAIN
from proxies import CuttingProxy

pytestmark = pytest.mark.timeout(120)


LONGER = TRAIN.replace("range(8)", "range(STEPS)")


def breaking(shared: Cluster) -> Server:
    """The server of all tests here."""
    if not hasattr(shared, "breaking"):
        shared.breaking = shared.server(workers=2)
    return shared.breaking


def alone(shared: Cluster, program: str) -> str:
    """What a program prints without a server; each is run once."""
    if not hasattr(shared, "printed_alone"):
        shared.printed_alone = {}
    if program not in shared.printed_alone:
        shared.printed_alone[program] = shared.run(program, within=120)
    return shared.printed_alone[program]


@pytest.mark.parametrize("seed", range(3))
def test_a_training_run_over_a_line_that_breaks_all_the_time_has_the_same_bits(shared: Cluster, seed: int):
    program = LONGER.replace("STEPS", "60")
    with CuttingProxy(breaking(shared).port, seed=seed, least=300, most=6000) as proxy:
        printed = shared.run(program, f"127.0.0.1:{proxy.port}", within=60)
        assert proxy.cuts > 3, "the line hardly broke"
    assert printed == alone(shared, program)


def test_losses_and_losses_of_acks_do_not_end_a_session_that_only_writes(cluster: Cluster):
    """Nothing is read before the end: all that tells of a cut is what is not acknowledged."""
    server = cluster.server(workers=1)
    program = """
        import gt
        x = gt.zeros(8)
        for i in range(20_000):
            x.add_(1)
        print(x.tolist())
    """
    with CuttingProxy(server.port, seed=5, least=2000, most=20_000) as proxy:
        assert cluster.run(program, f"127.0.0.1:{proxy.port}", within=60) == f"{[20000.0] * 8}\n"
        assert proxy.cuts > 3, "the line hardly broke"


LARGE = """
    import gt, numpy as np
    array = np.random.default_rng(3).integers(0, 256, 64 << 20, dtype=np.uint8)
    x = gt.from_numpy(array)
    gt.synchronize()
    print("uploaded", flush=True)
    assert (x.numpy() == array).all()
    (stats,) = gt.debug.get_worker_stats().values()
    print("read", stats["bytes_in"])
"""


def test_large_values_over_a_line_that_kept_breaking_began_anew_each_time(cluster: Cluster):
    """No connection lives long enough for a twentieth of them, either way."""
    server = cluster.server()
    listen = ("--listen", "127.0.0.1", "--advertise", "127.0.0.2")
    worker = cluster.worker(server.port, "--threads", 1, *listen)
    cluster.wait_for_workers(server, 1)
    for path in (cluster.directory / "gt").glob("worker-*.sock"):
        path.unlink()
    port = worker.listens_at()
    with CuttingProxy(port, seed=1, least=1 << 20, most=3 << 20, at=("127.0.0.2", port)) as proxy:
        uploaded, read = cluster.run(LARGE, server.address, within=60).splitlines()
        assert uploaded == "uploaded"
        # Whatever came twice was taken once.
        assert int(read.split()[1]) == 64 << 20
        assert proxy.cuts > 40, "the line hardly broke"


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(10, 16))
def test_soak_of_lines_that_break(shared: Cluster, seed: int):
    program = LONGER.replace("STEPS", "1500")
    with CuttingProxy(breaking(shared).port, seed=seed, least=100, most=20_000) as proxy:
        clients = [shared.client(program, f"127.0.0.1:{proxy.port}", name="soak") for _ in range(4)]
        assert {client.succeeded(within=300) for client in clients} == {alone(shared, program)}
        assert proxy.cuts > 50
