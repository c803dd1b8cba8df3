"""The group of workers behind the session."""

from __future__ import annotations

from gt import _core


def gpu_workers(n: int) -> None:
    """Gives the session `n` workers: GPUs where there are any, else the CPU's cores in equal parts.

    Called again, as a scaling loop does, it re-forms the group; tensors are carried over. Connected to a server, it asks
    for `n` of the server's workers and raises `ValueError` if there are fewer.

    >>> gt.gpu_workers(1)
    """
    _core.gpu_workers(n)


def connect(
    address: str,
    *,
    token: str | None = None,
    fingerprint: str | None = None,
    timeout: float = 10.0,
) -> None:
    """Uses the workers of the server at `address` (`host:port`) from now on. Tensors that exist are carried over.

    Beyond loopback a server asks for a `token` (or `GT_TOKEN`), and `fingerprint`, which `gt server --tls` prints, makes
    every connection encrypted and sure of whom it talks to; `host:port#fingerprint`, also in `GT_ADDRESS`, says the same. Raises `ConnectionError` when nothing answers within `timeout`
    seconds or the server refuses; the session stays as it was then.

    >>> try:
    ...     gt.connect("127.0.0.1:1", timeout=1.0)
    ... except ConnectionError as e:
    ...     print("no server")
    no server
    """
    _core.connect(address, token, fingerprint, 0, timeout)


def disconnect() -> None:
    """Leaves the server once everything recorded has run; the next op starts a session in this process.

    Tensors that lived on the server's workers are gone. Without a server this only waits, as `gt.synchronize` does.

    >>> gt.disconnect()
    """
    _core.disconnect()
