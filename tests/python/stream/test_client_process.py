"""What scripts do besides arithmetic: large arrays, threads, fork, exit."""

import time
from collections.abc import Iterator

import pytest
from cluster import Cluster, Server

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def server(shared: Cluster) -> Iterator[Server]:
    yield shared.server(workers=1)


@pytest.fixture
def over_tcp(shared: Cluster) -> dict[str, object]:
    """Variables of a client that does not find the server's socket."""
    elsewhere = shared.directory / "elsewhere"
    elsewhere.mkdir(mode=0o700, exist_ok=True)
    return {"XDG_RUNTIME_DIR": elsewhere}


def test_a_large_array_goes_there_and_back(shared: Cluster, server: Server):
    program = """
        import gt, numpy as np
        a = np.arange(26_000_000, dtype=np.float32)  # 104 MB
        b = gt.tensor(a).numpy()
        assert np.array_equal(a, b)
        print("same")
    """
    assert shared.run(program, server.address, within=60) == "same\n"
    shared.wait_for_memory(server, 0)


def test_a_hundred_uploads_of_one_window_are_no_message_too_large(shared: Cluster, server: Server):
    """Each is small enough to ride inside its window; together they are more than a message may have."""
    program = """
        import gt, numpy as np
        arrays = [np.full(15_000, k, dtype=np.float32) for k in range(200)]  # 60 kB each
        for turn in range(4):
            tensors = [gt.tensor(a) for a in arrays]
            total = tensors[0] * 0
            for t in tensors:
                total = total + t
            assert total[7].item() == sum(range(200)), total[7].item()
        print("summed")
    """
    assert shared.run(program, server.address) == "summed\n"


def test_a_fixed_window_of_any_size_is_no_message_too_large(shared: Cluster, server: Server):
    program = """
        import gt
        x = gt.zeros(3)
        for i in range(120_000):
            x = x + 1
        print(x.tolist())
    """
    printed = shared.run(program, server.address, within=60, GT_CLIENT_BATCH_SIZE=1_000_000)
    assert printed == "[120000.0, 120000.0, 120000.0]\n"


def test_threads_of_one_script(shared: Cluster, server: Server):
    program = """
        import gt, threading
        results, errors = {}, []
        def work(k):
            try:
                x = gt.full((30, 30), float(k), requires_grad=True)
                for _ in range(30):
                    y = ((x @ gt.eye(30)) * 2 + k).sum()
                    y.backward()
                    assert y.item() == 900 * 3 * k
                results[k] = x.grad.sum().item()
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not errors, errors
        assert results == dict.fromkeys(range(6), 30 * 2 * 900.0), results
        print("right")
    """
    assert shared.run(program, server.address) == "right\n"


def test_threads_whose_first_ops_came_at_once_waited_for_each_other_for_ever(shared: Cluster, server: Server):
    """The one that opened the session waited for Python's lock, and the other one, which had it, for the session."""
    program = """
        import gt, sys, threading
        sys.setswitchinterval(1e-5)
        start = threading.Barrier(4)
        def work():
            start.wait()
            gt.ones(3).sum().item()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        print("all")
    """
    for _ in range(3):
        assert shared.run(program, server.address) == "all\n"


def test_a_thread_that_used_what_a_waiting_thread_had_made_stopped_both(cluster: Cluster):
    """One has no credits left and waits for a worker; another one uses its tensors and has to wait for it."""
    server = cluster.server()
    client = cluster.client(
        """
        import gt, threading, time
        made = [gt.zeros(4)]
        done = threading.Event()
        def run_ahead():
            for i in range(80_000):
                made[0] = made[0] + 1
            done.set()
        def look_on():
            while not done.is_set():
                made[0] * 2
        threads = [threading.Thread(target=t) for t in (run_ahead, look_on)]
        print("started", flush=True)
        for t in threads: t.start()
        while not done.is_set():
            print("alive", flush=True)
            time.sleep(0.2)
        for t in threads: t.join()
        print(made[0].tolist(), flush=True)
        """,
        server.address,
    )
    client.wait_for("started")
    time.sleep(3)
    cluster.worker(server.port)
    assert client.succeeded(within=60).splitlines()[-1] == "[80000.0, 80000.0, 80000.0, 80000.0]"


def test_a_forked_child_raises_and_its_parent_goes_on(shared: Cluster, server: Server):
    program = """
        import gt, os, sys, gc
        x = gt.ones(1000) * 2
        x.sum().item()
        for ending in ("call", "collect", "exit"):
            pid = os.fork()
            if pid == 0:
                if ending == "call":
                    try:
                        gt.ones(3)
                    except RuntimeError as error:
                        os._exit(0 if "fork" in str(error) else 2)
                    os._exit(1)
                if ending == "collect":
                    del x
                    gc.collect()
                    os._exit(0)
                sys.exit(0)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0, (ending, status)
            assert x.sum().item() == 2000
        print("on")
    """
    assert shared.run(program, server.address) == "on\n"


PENDING = """
import gt
x = gt.randn(600, 600) * 0.01
x.sum().item()
for i in range(2000):
    x = x @ x
"""


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(0)", "import os; os._exit(0)", "import sys; sys.modules.clear()"]
)
def test_a_script_that_ends_with_work_pending_ends_soon(shared: Cluster, server: Server, ending: str):
    start = time.monotonic()
    client = shared.client(PENDING + ending, server.address)
    client.succeeded(within=20)
    assert client.said() == ""
    shared.wait_for_sessions(server, 0, within=10)
    shared.wait_for_memory(server, 0, within=20)
    assert time.monotonic() - start < 40


def test_a_script_that_ends_over_tcp_says_goodbye(shared: Cluster, server: Server, over_tcp: dict[str, object]):
    """Or its session would be kept for the lease of a connection that broke."""
    for _ in range(3):
        shared.run("import gt; x = gt.ones(1000); x.sum().item()", server.address, **over_tcp)
        shared.wait_for_sessions(server, 0, within=3)


def test_a_socket_file_that_nobody_listens_at_does_not_hide_the_port(shared: Cluster, server: Server, over_tcp):
    """A server that was killed leaves its file behind; now the port is somebody else's, say a tunnel's."""
    import socket

    directory = over_tcp["XDG_RUNTIME_DIR"] / "gt"
    directory.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(directory / f"server-{server.port}.sock"))
    program = "import gt; print(gt.ones(3).sum().item())"
    assert shared.run(program, server.address, **over_tcp) == "3.0\n"
    (directory / f"server-{server.port}.sock").unlink()


def test_after_disconnect_work_is_done_in_the_process(shared: Cluster, server: Server):
    program = """
        import gt
        x = gt.ones(3)
        assert list(gt.debug.get_worker_stats()) == ["worker_0"]
        x.sum().item()
        gt.disconnect()
        print((gt.ones(3) * 2).tolist())
        try:
            x.tolist()
        except Exception as error:
            print(type(error).__name__)
    """
    lines = shared.run(program, server.address).splitlines()
    assert lines[0] == "[2.0, 2.0, 2.0]"
    shared.wait_for_sessions(server, 0)


def test_connect_and_disconnect_over_and_over(shared: Cluster, server: Server):
    program = f"""
        import gt
        kept = gt.arange(4)
        for turn in range(10):
            gt.connect("{server.address}")
            assert kept.tolist() == [0, 1, 2, 3]
            kept = gt.tensor((kept + 0).tolist())
            values = kept.tolist()
            gt.disconnect()
            kept = gt.tensor(values)
        print("same")
    """
    assert shared.run(program, None) == "same\n"
    shared.wait_for_sessions(server, 0)


def test_a_worker_whose_socket_file_is_not_there_is_reached_by_its_port(cluster: Cluster):
    """Two containers of one host share its name and not its files."""
    server = cluster.server()
    cluster.worker(server.port, "--listen", "127.0.0.1")
    cluster.wait_for_workers(server, 1)
    for path in (cluster.directory / "gt").glob("worker-*.sock"):
        path.unlink()
    program = """
        import gt, numpy as np
        a = np.arange(1_000_000, dtype=np.float32)
        assert np.array_equal(gt.tensor(a).numpy(), a)
        print("same")
    """
    assert cluster.run(program, server.address) == "same\n"
