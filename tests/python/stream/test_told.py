"""What servers and clients tell of themselves: `GT_DEBUG_DISPATCHER` and the log of a connected client."""

import os
import re
import signal

import pytest
from cluster import Cluster, eventually
from test_instruction_log import LINE, LOGGED

pytestmark = pytest.mark.timeout(120)


def test_a_server_tells_who_comes_and_goes(cluster: Cluster):
    log = cluster.directory / "server.log"
    server = cluster.server("--log-file", log, workers=1, GT_DEBUG_DISPATCHER=1)
    cluster.run("import gt; print(gt.ones(3).sum().item())", server.address)
    cluster.wait_for_sessions(server, 0)
    client = cluster.client("import gt, time\nprint(gt.ones(3).sum().item())\ntime.sleep(60)", server.address)
    client.wait_for("3.0")
    (worker,) = server.children()
    cluster.strays.append(worker)
    os.kill(worker, signal.SIGKILL)
    expected = (
        r"worker worker_0: joined",
        r"session \d+: opened by",
        r"session \d+: placed on worker_0",
        r"session \d+: closed",
        r"worker worker_0: lost",
        r"session \d+: lost its values on worker_0",
        r"worker process \d+ of this server exited",
    )
    eventually(
        "all of it is told", lambda: all(re.search(f"\\[DISPATCHER\\] {line}", server.said()) for line in expected)
    )
    lines = [line for line in server.said().splitlines() if "session" in line]
    assert lines and all(line.startswith("[DISPATCHER] ") for line in lines), "once, not twice"
    assert all(re.search(line, log.read_text()) for line in expected), "the file has it too"


def test_a_server_is_silent_otherwise(cluster: Cluster):
    server = cluster.server("--log-file", cluster.directory / "server.log", workers=1)
    cluster.run("import gt; print(gt.ones(3).sum().item())", server.address)
    assert "session" not in server.said() and "[DISPATCHER]" not in server.said()


def test_a_group_in_one_process_has_a_dispatcher_too(cluster: Cluster):
    client = cluster.client("import gt\ngt.gpu_workers(2)\nprint(gt.ones(3).sum().item())", GT_DEBUG_DISPATCHER=1)
    client.succeeded()
    assert re.search(r"\[DISPATCHER\] session \d+: placed on worker_\d", client.said()), client.said()


def test_a_connected_client_logs_its_session(cluster: Cluster):
    server = cluster.server(workers=1)
    log = cluster.directory / "gt.log"
    cluster.run(LOGGED, server.address, GT_INSTRUCTION_LOG=log)
    lines = log.read_text().splitlines()
    assert all(LINE.match(line) for line in lines), lines
    events = [line.split("|")[2].strip() for line in lines]
    assert (events[0], events[-1]) == ("CONNECT", "DISCONNECT") and events.count("CONNECT") == 1, lines
    assert server.address in lines[0] and "workers=worker_0" in lines[0]
    assert events.count("RECV") >= 6 and "WORKER_SEND" in events and "WORKER_RECV" in events and "SEND" in events
    for word in ("mul", "add", "relu", "matmul", "sum"):
        assert any(" RECV " in line and word in line.lower() for line in lines), word
    sent = [line for line in lines if " WORKER_SEND " in line]
    assert all("WORKER:worker_0" in line for line in sent) and len(sent) < events.count("RECV"), "one line a message"


def test_the_log_of_a_client_that_was_embedded_before_goes_on(cluster: Cluster):
    server = cluster.server(workers=1)
    log = cluster.directory / "gt.log"
    program = f"""
    import gt
    x = gt.ones(3) * 2
    print(x.tolist())
    gt.connect("{server.address}")
    try:
        gt.ones(3)[gt.tensor([9])].tolist()
    except IndexError:
        pass
    """
    cluster.run(program, GT_INSTRUCTION_LOG=log)
    lines = log.read_text().splitlines()
    events = [line.split("|")[2].strip() for line in lines]
    assert "EXEC" in events[: events.index("CONNECT")] and "ERROR" in events[events.index("CONNECT") :], lines
