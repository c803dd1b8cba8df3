"""Workers of one user on one host share its cores and its memory."""

from __future__ import annotations

import os

import pytest
from cluster import Cluster, Server, eventually

pytestmark = pytest.mark.timeout(120)


def limits(cluster: Cluster, server: Server) -> list[int]:
    return sorted(worker["memory_limit"] for worker in cluster.status(server)["workers"])


def test_the_memory_limit_of_a_server_was_ignored_by_its_workers(cluster: Cluster):
    server = cluster.server(workers=2, GT_MEMORY_LIMIT="2GiB", GT_NUM_THREADS="4")
    workers = cluster.wait_for_workers(server, 2)
    assert [(w["memory_limit"], w["threads"]) for w in workers] == [(1 << 30, 2)] * 2


def test_workers_that_are_started_one_by_one_each_took_the_whole_host(cluster: Cluster):
    server = cluster.server()
    first = cluster.worker(server.port)
    (alone,) = (worker["memory_limit"] for worker in cluster.wait_for_workers(server, 1))
    cluster.worker(server.port)
    cluster.wait_for_workers(server, 2)
    eventually("both take half", lambda: limits(cluster, server) == [alone // 2] * 2)
    assert {worker["threads"] for worker in cluster.status(server)["workers"]} == {max(os.cpu_count() // 2, 1)}
    # What one is told to take is its own, and the other has the rest.
    told = alone // 4
    cluster.worker(server.port, "--memory-limit", told, "--threads", 1)
    cluster.wait_for_workers(server, 3)
    eventually("the others share the rest", lambda: limits(cluster, server)[1:] == [(alone - told) // 2] * 2)
    assert limits(cluster, server)[0] == told
    # One that is killed gives up its part.
    first.kill()
    eventually("the other has the rest", lambda: limits(cluster, server) == [told, alone - told])


def test_the_limit_that_a_worker_got_when_another_came_holds(cluster: Cluster):
    server = cluster.server()
    cluster.worker(server.port)
    (alone,) = (worker["memory_limit"] for worker in cluster.wait_for_workers(server, 1))
    cluster.worker(server.port, "--memory-limit", alone - (256 << 20))
    cluster.wait_for_workers(server, 2)
    eventually("the first has what is left", lambda: limits(cluster, server)[0] < alone // 2)
    (least, _) = limits(cluster, server)
    out = cluster.run(
        f"""
        import gt
        try:
            gt.ones({least} // 4 + (64 << 20)).sum().item()
        except gt.OutOfMemoryError as error:
            print("refused", error)
        """,
        server.address,
    )
    assert "refused" in out and str(least) in out, out
