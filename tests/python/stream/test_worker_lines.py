"""What workers and servers write for people: names of one word, lines that stay whole."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from cluster import Cluster, eventually
from isolated import environment

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("name", ["a b", "a|b", "", "ä", "x" * 65, "a\nb"])
def test_a_worker_name_that_breaks_the_columns_of_logs_was_accepted(cluster: Cluster, name: str):
    worker = cluster.worker(1, "--id", name)
    assert worker.ended() == 2
    assert "must have 1 to 64 characters: letters, digits" in worker.said()


def test_a_worker_has_the_name_that_it_asks_for(cluster: Cluster):
    server = cluster.server()
    cluster.worker(server.port, "--id", "Node-3.gpu_0")
    (worker,) = cluster.wait_for_workers(server, 1)
    assert worker["id"] == "Node-3.gpu_0"


def test_lines_of_workers_that_share_stderr_were_mixed(cluster: Cluster):
    # At a port where nobody is: each says that it is ready, and that there is no server.
    path = cluster.directory / "shared.err"
    command = [sys.executable, "-m", "gt", "worker", "-p", "1", "--threads", "1", "--memory-limit", "1GiB"]
    with open(path, "ab") as err:
        variables = environment(XDG_RUNTIME_DIR=cluster.directory)
        workers = [subprocess.Popen(command, stderr=err, env=variables) for _ in range(6)]
    try:
        eventually("all have said both", lambda: path.read_text().count("\n") >= 12)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    whole = r"gt worker \S+ ready for 127\.0\.0\.1:1: cpu, 1 thread, 1\.0 GiB of memory|gt worker: cannot connect to a server at .*; retrying"
    lines = path.read_text().splitlines()
    assert not [line for line in lines if not re.fullmatch(whole, line)], lines


@pytest.mark.parametrize("to_a_file", [False, True])
def test_a_server_log_has_times_that_people_read(cluster: Cluster, to_a_file: bool):
    log = cluster.directory / "server.log"
    server = cluster.server(*(("--log-file", log) if to_a_file else ()), workers=1)
    said = log.read_text() if to_a_file else server.said()
    lines = [line for line in said.splitlines() if "joined" in line]
    assert lines and all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} worker ", line) for line in lines), said


def test_status_names_the_port_for_the_worker_that_is_missing(cluster: Cluster):
    server = cluster.server()
    done = subprocess.run(
        [sys.executable, "-m", "gt", "status", "-p", str(server.port)],
        env=environment(XDG_RUNTIME_DIR=cluster.directory),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert f"start one with: gt worker -p {server.port}\n" in done.stdout


def test_an_address_may_begin_with_tcp(cluster: Cluster):
    server = cluster.server(workers=1)
    out = cluster.run("import gt; print(gt.ones(3).sum().item())", f"tcp://{server.address}")
    assert out == "3.0\n"
