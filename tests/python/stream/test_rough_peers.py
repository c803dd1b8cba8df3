"""Whoever connects and does not speak GT harms nobody: the server serves on, and so do its workers."""

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import wire
from cluster import Cluster, Process, Server, resident_bytes

pytestmark = pytest.mark.timeout(120)

# A client that computes all the time, and says so.
RUNNING = """
import gt
x, n = gt.ones(100), 0
while True:
    x = x * 0.5 + 1
    n += 1
    if n % 50 == 0:
        assert x.sum().item() <= 200
        print("turn", n, flush=True)
"""


class Scene:
    """A server, a worker that can be reached by TCP, and a client that is at work there."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.server: Server = cluster.server()
        self.worker: Process = cluster.worker(self.server.port, "--listen", "127.0.0.1", "--threads", 1)
        cluster.wait_for_workers(self.server, 1)
        self.client = cluster.client(RUNNING, self.server.address)
        self.client.wait_for("turn")

    def doors(self) -> list[int | Path]:
        """Where strangers can knock: the server's port and socket, the worker's socket and port."""
        sockets = sorted((self.cluster.directory / "gt").glob("*.sock"))
        assert len(sockets) == 2, sockets
        return [self.server.port, *sockets, self.worker.listens_at()]

    def assert_unharmed(self) -> None:
        """The server answers, and the client gets further."""
        status = self.cluster.status(self.server)
        assert [w["state"] for w in status["workers"]] == ["connected"]
        assert len(status["sessions"]) == 1
        turns = self.client.printed().count("turn")
        deadline = time.monotonic() + 30
        while self.client.printed().count("turn") == turns:
            assert self.client.is_running() and time.monotonic() < deadline, self.client.said()
            time.sleep(0.02)
        self.cluster.assert_no_panic()


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Cluster() as cluster:
        yield Scene(cluster)


def test_random_bytes(scene: Scene):
    chance = random.Random(7)
    for door in scene.doors():
        for _ in range(15):
            with wire.dial(door) as connection, contextlib.suppress(ConnectionError, socket.timeout):
                connection.sendall(chance.randbytes(chance.randrange(1, 5000)))
                connection.shutdown(socket.SHUT_WR)
                wire.drain(connection)
    scene.assert_unharmed()


def test_a_conversation_cut_anywhere(scene: Scene):
    words = wire.introduction() + wire.hello()
    for door in scene.doors():
        for cut in range(1, len(words), 3):
            with wire.dial(door) as connection:
                connection.sendall(words[:cut])
    scene.assert_unharmed()


def test_random_bytes_after_a_good_beginning(scene: Scene):
    chance = random.Random(8)
    for door in scene.doors():
        for _ in range(15):
            with wire.dial(door) as connection, contextlib.suppress(ConnectionError, socket.timeout):
                connection.sendall(wire.introduction())
                for _ in range(chance.randrange(1, 6)):
                    kind, length = chance.randrange(0, 14), chance.randrange(0, 200)
                    connection.sendall(wire.frame(kind, chance.randbytes(length)))
                connection.shutdown(socket.SHUT_WR)
                wire.drain(connection)
    scene.assert_unharmed()


@pytest.mark.parametrize("version", [0, wire.VERSION - 1, wire.VERSION + 1, 65535])
def test_an_unknown_version_is_told(scene: Scene, version: int):
    for door in scene.doors():
        with wire.dial(door) as connection:
            connection.sendall(wire.greeting(version))
            heard = wire.drain(connection)
            assert heard[:10] == wire.greeting()[:10], "the other side has to learn which version is spoken"
    scene.assert_unharmed()


@pytest.mark.parametrize(
    "lie",
    [
        wire.frame(wire.HEAD, b"", length=0xFFFFFFFF),
        wire.frame(wire.HEAD, b"\x01", length=1 << 30),
        wire.frame(wire.OPEN, struct.pack("<IQ", 0, 1 << 62) + b"\x01"),
        wire.frame(wire.OPEN, struct.pack("<IQ", 0, 1 << 40) + b"\x01"),
        wire.frame(wire.SHARE, b"\x00" + struct.pack("<I", 0xFFFFFFFF)),
        wire.frame(wire.FILLED, struct.pack("<IBI", 0, 250, 0xFFFFFFFF)),
        # A name, and a list of variables, of 2**63 bytes.
        wire.frame(wire.HEAD, b"\x01\x00" + b"\xff" * 9 + b"\x7f"),
        wire.frame(wire.HEAD, b"\x01\x00\x01a" + b"\xff" * 9 + b"\x7f"),
    ],
)
def test_huge_lengths_take_no_memory(scene: Scene, lie: bytes):
    before = resident_bytes(scene.server.pid), resident_bytes(scene.worker.pid)
    for door in scene.doors():
        for _ in range(5):
            with wire.dial(door) as connection:
                connection.sendall(wire.introduction() + lie)
                wire.drain(connection, timeout=20)
    after = resident_bytes(scene.server.pid), resident_bytes(scene.worker.pid)
    assert all(now - then < 32 << 20 for then, now in zip(before, after)), (before, after)
    scene.assert_unharmed()


def test_those_who_say_nothing_are_shown_out_and_others_get_in(scene: Scene):
    """200 at once at each door, of which every other one has introduced itself."""
    before = resident_bytes(scene.server.pid), resident_bytes(scene.worker.pid)
    with contextlib.ExitStack() as stack:
        silent = []
        for door in scene.doors():
            for k in range(200):
                connection = stack.enter_context(wire.dial(door))
                if k % 2:
                    connection.sendall(wire.introduction())
                silent.append(connection)
        scene.assert_unharmed()
        # All of them, the last within the patience of the last.
        deadline = time.monotonic() + 25
        for connection in silent:
            wire.drain(connection, timeout=max(1, deadline - time.monotonic()))
    after = resident_bytes(scene.server.pid), resident_bytes(scene.worker.pid)
    assert all(now - then < 32 << 20 for then, now in zip(before, after)), (before, after)
    scene.assert_unharmed()


def test_a_client_that_never_reads_is_bounded(scene: Scene):
    """It is let in, asks for pongs without an end, and takes none of them."""
    before = resident_bytes(scene.server.pid)
    with wire.dial(scene.server.port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(wire.introduction() + wire.hello())
        pings = wire.frame(wire.PING, bytes(8)) * 5000
        connection.settimeout(1)
        sent = 0
        with contextlib.suppress(ConnectionError, socket.timeout):
            for _ in range(300):
                connection.sendall(pings)
                sent += len(pings)
        assert resident_bytes(scene.server.pid) - before < 32 << 20, f"{sent} bytes were sent"
        assert sent > 1 << 20, "nothing was tried"
    deadline = time.monotonic() + 10
    # Over TCP its session has a lease; what it holds is nothing.
    while time.monotonic() < deadline:
        sessions = scene.cluster.status(scene.server)["sessions"]
        if all(s["state"] == "away" or "rough" not in s["name"] for s in sessions):
            break
        time.sleep(0.1)
    else:
        raise AssertionError(f"it still counts as connected: {sessions}")


def test_the_client_was_at_work_all_the_time(scene: Scene):
    assert scene.client.is_running() and scene.worker.is_running() and scene.server.is_running()
    scene.cluster.assert_no_panic()
