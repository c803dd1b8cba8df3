"""How a script ends whose server or worker is gone, or whose threads have sessions of their own."""

import pytest
from cluster import Cluster

pytestmark = pytest.mark.timeout(120)


def ended_without_its_server(cluster: Cluster, rest: str):
    server = cluster.server(workers=1)
    go = cluster.directory / "go"
    program = f"""
    import gt, os, time
    gt.connect("{server.address}")
    x = gt.ones(3)
    print(x.tolist(), flush=True)
    while not os.path.exists("{go}"):
        time.sleep(0.01)
    {rest}
    """
    client = cluster.client(program)
    client.wait_for("1.0")
    server.kill()
    go.touch()
    return client.ended(within=90), client.said()


def test_a_script_whose_server_was_lost_says_so(cluster: Cluster):
    code, said = ended_without_its_server(cluster, "y = x + 1")
    assert code == 1 and "is lost" in said and "Traceback" in said, said


def test_a_script_that_left_nothing_to_do_does_not_mind_the_loss(cluster: Cluster):
    assert ended_without_its_server(cluster, "print('done')") == (0, "")


def test_a_script_that_had_no_worker_says_so(cluster: Cluster):
    server = cluster.server()
    client = cluster.client(f"import gt\ngt.connect('{server.address}')\nx = gt.ones(3)\n")
    assert client.ended() == 1
    assert "has no workers, so the last recorded operations have not run" in client.said(), client.said()


@pytest.mark.parametrize("daemon", [False, True])
def test_a_failure_in_the_session_of_a_thread_is_printed(cluster: Cluster, daemon: bool):
    server = cluster.server(workers=1)
    program = f"""
    import gt, threading, time
    recorded = threading.Event()
    def train():
        gt.connect("{server.address}")
        global rows
        rows = gt.ones(3)[gt.tensor([9])]
        recorded.set()
        time.sleep(100 if {daemon} else 0)
    threading.Thread(target=train, daemon={daemon}).start()
    recorded.wait()
    print(gt.ones(2).tolist())
    """
    client = cluster.client(program)
    assert client.ended() == 1
    assert client.said().count("IndexError") == 1, client.said()


def test_threads_that_end_together_with_the_script_all_report_their_failures(cluster: Cluster):
    # Python ends while the threads leave their sessions, one after the other.
    threads = 12
    server = cluster.server(workers=1)
    program = f"""
    import gt, threading
    barrier = threading.Barrier({threads})
    rows = []
    def train():
        gt.connect("{server.address}")
        barrier.wait()
        rows.append(gt.ones(3)[gt.tensor([9])])
    for _ in range({threads}):
        threading.Thread(target=train).start()
    """
    client = cluster.client(program)
    assert client.ended() == 1
    assert client.said().count("IndexError") == threads, client.said()
