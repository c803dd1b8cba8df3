"""Bytes of GT's protocol, written by hand: what a peer that is not GT may send."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

MAGIC = b"\x93GT\r\n\x1a\n\0"
VERSION = 5
HEAD, OPEN, PART, SHARE, FILLED, PING, ALLOW = 1, 2, 3, 5, 6, 8, 10


def greeting(version: int = VERSION, features: int = 0) -> bytes:
    return MAGIC + struct.pack("<HHI", version, 0, features)


def frame(kind: int, payload: bytes = b"", length: int | None = None) -> bytes:
    """A frame; one that lies about its length, if that is given."""
    return struct.pack("<BI", kind, len(payload) if length is None else length) + payload


def introduction() -> bytes:
    """Greeting and limits: after these, messages may come."""
    return greeting() + frame(ALLOW, struct.pack("<IQ", 1 << 20, 1 << 20))


def hello() -> bytes:
    """A client's first message: no token, a name, no variables, any number of workers, nothing to resume, any place."""
    return frame(HEAD, b"\x01" + b"\x00" + b"\x05rough" + b"\x00" + b"\x00" + b"\x00" + b"\x00")


def observe() -> bytes:
    return frame(HEAD, b"\x03\x00")


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
