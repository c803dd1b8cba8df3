"""Something between two processes that breaks their connections."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import threading


class CuttingProxy:
    """Passes bytes on between clients and a port, and cuts each connection after some of them. A context manager."""

    def __init__(self, port: int, *, seed: int, least: int, most: int, at: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.target, self.chance, self.range = port, random.Random(seed), (least, most)
        self.listener = socket.create_server(at)
        self.port = self.listener.getsockname()[1]
        self.cuts, self.cutting, self.ended = 0, True, False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CuttingProxy:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Breaks all connections, and takes no more."""
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
        for key in list(self.selector.get_map().values()):
            if key.data is not None:
                key.fileobj.close()

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
