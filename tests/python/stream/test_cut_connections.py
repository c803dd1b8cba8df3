"""Connections that break anywhere between client and server: nothing is lost, nothing is applied twice."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import threading

import pytest
from cluster import Cluster
from isolated import TRAIN

pytestmark = pytest.mark.timeout(120)


class CuttingProxy:
    """Passes bytes on between clients and a port, and cuts each connection after some of them. A context manager."""

    def __init__(self, port: int, *, seed: int, least: int, most: int) -> None:
        self.target, self.chance, self.range = port, random.Random(seed), (least, most)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.cuts, self.cutting, self.ended = 0, True, False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CuttingProxy:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True
        self.thread.join(10)
        self.listener.close()

    def _run(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        while not self.ended:
            for key, _ in self.selector.select(0.05):
                if key.data is None:
                    self._accept()
                elif key.fileobj.fileno() >= 0:
                    self._pass_on(key.fileobj, *key.data)

    def _accept(self) -> None:
        near, _ = self.listener.accept()
        far = socket.create_connection(("127.0.0.1", self.target))
        left = [self.chance.randrange(*self.range)]
        for one, other in ((near, far), (far, near)):
            self.selector.register(one, selectors.EVENT_READ, (other, left))

    def _pass_on(self, source: socket.socket, sink: socket.socket, left: list[int]) -> None:
        try:
            data = source.recv(1 << 14)
            if self.cutting and len(data) >= left[0]:
                # In the middle of whatever this is; the other direction loses what is on its way.
                sink.sendall(data[: left[0]])
                self.cuts += 1
                data = b""
            left[0] -= len(data)
            if data:
                return sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(KeyError):
                self.selector.unregister(end)
            end.close()


LONGER = TRAIN.replace("range(8)", "range(STEPS)")


@pytest.mark.parametrize("seed", range(3))
def test_a_training_run_over_a_line_that_breaks_all_the_time_has_the_same_bits(shared: Cluster, seed: int):
    if not hasattr(shared, "breaking"):
        shared.breaking = shared.server(workers=1)
        shared.expected = shared.run(LONGER.replace("STEPS", "60"))
    with CuttingProxy(shared.breaking.port, seed=seed, least=300, most=6000) as proxy:
        printed = shared.run(LONGER.replace("STEPS", "60"), f"127.0.0.1:{proxy.port}", within=60)
        assert proxy.cuts > 3, "the line hardly broke"
    assert printed == shared.expected


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


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(10, 16))
def test_soak_of_lines_that_break(shared: Cluster, seed: int):
    if not hasattr(shared, "breaking"):
        shared.breaking = shared.server(workers=2)
        shared.expected = shared.run(LONGER.replace("STEPS", "1500"), within=120)
    with CuttingProxy(shared.breaking.port, seed=seed, least=100, most=20_000) as proxy:
        clients = [
            shared.client(LONGER.replace("STEPS", "1500"), f"127.0.0.1:{proxy.port}", name="soak") for _ in range(4)
        ]
        assert {client.succeeded(within=300) for client in clients} == {shared.expected}
        assert proxy.cuts > 50
