"""Sessions of threads and of blocks: one process with two servers."""

import pytest
from cluster import Cluster

pytestmark = pytest.mark.timeout(120)


def test_two_clients_in_two_threads_of_one_process(cluster: Cluster):
    server = cluster.server(workers=1)
    program = f"""
    import gt, threading
    left, stop = threading.Event(), threading.Event()
    seen = {{}}

    def first():
        gt.connect("{server.address}")
        x = gt.ones(3) * 2
        x.tolist()
        gt.disconnect()
        left.set()

    def second():
        gt.connect("{server.address}")
        y = gt.ones(4) * 3
        y.tolist()
        left.wait()
        seen["after"] = (y + 1).tolist()
        gt.disconnect()

    threads = [threading.Thread(target=f) for f in (first, second)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(seen, (gt.ones(2) * 5).tolist())
    """
    assert cluster.run(program) == "{'after': [4.0, 4.0, 4.0, 4.0]} [5.0, 5.0]\n"


def test_one_process_uses_two_servers(cluster: Cluster):
    one, two = cluster.server(workers=1), cluster.server(workers=1)
    program = f"""
    import gt
    here = gt.ones(2) * 7
    with gt.connect("{one.address}"):
        a = gt.ones(3) * 2
        with gt.connect("{two.address}"):
            b = gt.ones(3) * 3
            print(b.tolist(), list(gt.debug.get_worker_stats()))
            try:
                print((a + b).tolist())
            except RuntimeError as error:
                print(error)
        print((a + 1).tolist())
        try:
            b.tolist()
        except RuntimeError as error:
            print(error)
        moved = gt.tensor(a.numpy())
    print((here + 1).tolist())
    try:
        here[0] + a
    except RuntimeError as error:
        print(error)
    """
    lines = cluster.run(program).splitlines()
    assert lines[0] == "[3.0, 3.0, 3.0] ['worker_0']"
    assert one.address in lines[1] and two.address in lines[1] and "x.numpy()" in lines[1], lines
    assert lines[2] == "[3.0, 3.0, 3.0]"
    assert "has ended" in lines[3] and two.address in lines[3], lines
    assert lines[4] == "[8.0, 8.0]"
    assert "has ended" in lines[5] and one.address in lines[5], lines
    cluster.wait_for_sessions(one, 0)
    cluster.wait_for_sessions(two, 0)


def test_a_thread_that_connects_to_nothing_uses_the_session_of_the_process(cluster: Cluster):
    server = cluster.server(workers=1)
    program = f"""
    import gt, threading
    gt.connect("{server.address}")
    x = gt.ones(3)
    def work():
        print((x * 2).tolist())
        gt.disconnect()
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
    print((x * 3).tolist())
    """
    assert cluster.run(program) == "[2.0, 2.0, 2.0]\n[3.0, 3.0, 3.0]\n"
    cluster.wait_for_sessions(server, 0)


def test_the_session_of_a_thread_ends_with_it(cluster: Cluster):
    server = cluster.server(workers=1)
    go_on = cluster.directory / "go-on"
    program = f"""
    import gt, pathlib, threading, time
    def work():
        gt.connect("{server.address}")
        global x
        x = gt.ones(3)
        print(x.tolist(), flush=True)
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
    while not pathlib.Path("{go_on}").exists():
        time.sleep(0.05)
    try:
        print(x.tolist())
    except RuntimeError as error:
        print(error)
    """
    client = cluster.client(program)
    client.wait_for("[1.0, 1.0, 1.0]")
    cluster.wait_for_sessions(server, 0)
    go_on.touch()
    assert "has ended" in client.succeeded() and server.address in client.printed()


def test_random_numbers_go_on_in_a_block(cluster: Cluster):
    server = cluster.server(workers=1)
    program = f"""
    import gt
    gt.manual_seed(3)
    whole = [gt.rand(2).tolist() for _ in range(3)]
    gt.manual_seed(3)
    parts = [gt.rand(2).tolist()]
    with gt.connect("{server.address}"):
        parts.append(gt.rand(2).tolist())
    parts.append(gt.rand(2).tolist())
    print(whole == parts)
    """
    assert cluster.run(program) == "True\n"


def test_an_error_in_a_block_is_the_one_that_is_raised(cluster: Cluster):
    server = cluster.server(workers=1)
    program = f"""
    import gt
    try:
        with gt.connect("{server.address}"):
            rows = gt.ones(3)[gt.tensor([9])]
            raise KeyError("mine")
    except KeyError as error:
        print(error)
    try:
        with gt.connect("{server.address}"):
            rows = gt.ones(3)[gt.tensor([9])]
    except IndexError as error:
        print("index 9" in str(error))
    print(gt.ones(2).tolist())
    """
    assert cluster.run(program) == "'mine'\nTrue\n[1.0, 1.0]\n"


def test_many_blocks_one_after_another(cluster: Cluster):
    server = cluster.server(workers=1)
    program = f"""
    import gt
    total = 0
    for k in range(30):
        with gt.connect("{server.address}"):
            total += (gt.ones(2) * k).sum().item()
    print(total)
    """
    assert cluster.run(program) == f"{2.0 * sum(range(30))}\n"


def test_a_tensor_of_a_server_that_was_left_says_so(cluster: Cluster):
    server = cluster.server(workers=1)
    program = f"""
    import gt
    gt.connect("{server.address}")
    x = gt.ones(3)
    x.tolist()
    gt.disconnect()
    print((gt.ones(2) * 2).tolist())
    for read in (lambda: x.tolist(), lambda: (x + 1).sum().item()):
        try:
            print("read", read())
        except gt.WorkerLost as error:
            print(str(error).splitlines()[0])
    print((gt.ones(2) * 3).tolist())
    """
    lines = cluster.run(program).splitlines()
    assert lines[0] == "[2.0, 2.0]" and lines[3] == "[3.0, 3.0]"
    for line in lines[1:3]:
        assert server.address in line and "gt.disconnect() closed" in line, lines
        assert "window" not in line and "%" not in line


def test_indices_are_read_together_through_a_server(cluster: Cluster):
    server = cluster.server(workers=1)
    program = f"""
    import gt
    gt.connect("{server.address}")
    data, ix = gt.arange(1000), gt.randint(0, 900, (16,))
    ix.tolist()
    before = gt.debug.get_worker_stats()["worker_0"]["round_trips"]
    batch = gt.stack([data[i : i + 8] for i in ix])
    gt.synchronize()
    print(gt.debug.get_worker_stats()["worker_0"]["round_trips"] - before)
    """
    assert int(cluster.run(program)) <= 2


def test_a_script_that_fails_on_a_server_ends_with_1(cluster: Cluster):
    server = cluster.server(workers=1)
    client = cluster.client("import gt\nrows = gt.ones(3)[gt.tensor([9])]\n", server.address)
    assert client.ended() == 1
    assert "IndexError: index 9 is out of bounds" in client.said() and ".py" in client.said()
