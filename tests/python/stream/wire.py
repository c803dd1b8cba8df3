"""Bytes of GT's protocol, written by hand: what a peer that is not GT may send."""

from __future__ import annotations

import contextlib
import hmac
import socket
import struct
from pathlib import Path

MAGIC = b"\x93GT\r\n\x1a\n\0"
VERSION = 8
HEAD, OPEN, PART, SHARE, FILLED, PING, ALLOW, CHALLENGE = 1, 2, 3, 5, 6, 8, 10, 12
NONCE = bytes(range(32))


def greeting(version: int = VERSION, features: int = 0) -> bytes:
    return MAGIC + struct.pack("<HHI", version, 0, features)


def frame(kind: int, payload: bytes = b"", length: int | None = None) -> bytes:
    """A frame; one that lies about its length, if that is given."""
    return struct.pack("<BI", kind, len(payload) if length is None else length) + payload


def introduction() -> bytes:
    """Greeting, challenge and limits: after these, messages may come."""
    return greeting() + frame(CHALLENGE, NONCE) + frame(ALLOW, struct.pack("<IQ", 1 << 20, 1 << 20))


def short(text: bytes) -> bytes:
    """Bytes with their length, less than 128, in front."""
    return bytes([len(text)]) + text


def hello(proof: bytes = b"") -> bytes:
    """A client's first message: what it shows, a name, no variables, any number of workers, nothing to resume, any place."""
    return frame(HEAD, b"\x01" + short(proof) + short(b"rough") + b"\x00" + b"\x00" + b"\x00" + b"\x00")


def observe(proof: bytes = b"") -> bytes:
    return frame(HEAD, b"\x03" + short(proof))


def join(proof: bytes = b"", name: bytes = b"rough") -> bytes:
    """A worker's first message: what it shows, what it is, no secret, no sessions."""
    info = b"\x00" + short(name) + b"\x00\x00\x00" + short(b"host") + short(b"cpu") + b"\x01\x01" + short(b"")
    return frame(HEAD, b"\x21" + short(proof) + info + b"\x00" + b"\x00")


def proof(token: bytes, role: bytes, theirs: bytes) -> bytes:
    """Shows that `token` is known, to whom the challenge `theirs` came from."""
    return hmac.digest(token, b"gt proof 1\0" + role + b"\0" + NONCE + theirs, "sha256")


class Knock:
    """A connection on which both sides have introduced themselves."""

    def __init__(self, at: int | Path) -> None:
        self.socket = dial(at)
        self.socket.sendall(introduction())
        assert self._take(16)[:8] == MAGIC
        kind, self.challenge = self.next()
        assert kind == CHALLENGE and self.next()[0] == ALLOW

    def _take(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            more = self.socket.recv(count - len(taken))
            assert more, "the other side has ended the connection"
            taken += more
        return taken

    def next(self) -> tuple[int, bytes]:
        kind, length = struct.unpack("<BI", self._take(5))
        return kind, self._take(length)

    def ask(self, message: bytes) -> bytes:
        """Says something, and gives the first message that comes back."""
        self.socket.sendall(message)
        while True:
            kind, payload = self.next()
            if kind == HEAD:
                return payload

    def prove(self, token: bytes, role: bytes) -> bytes:
        return proof(token, role, self.challenge)


def dial(at: int | Path) -> socket.socket:
    """A connection to a port of this host, or to the file of a socket."""
    if isinstance(at, int):
        return socket.create_connection(("127.0.0.1", at), timeout=10)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(str(at))
    return connection


def drain(connection: socket.socket, timeout: float = 10) -> bytes:
    """Everything that comes until the other side ends the connection; fails if it does not."""
    connection.settimeout(timeout)
    heard = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(1 << 16):
            heard += more
    return heard
