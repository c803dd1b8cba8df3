"""Sessions: with a server or in this process, and the group of workers behind them."""

from __future__ import annotations

import threading
from typing import Any

from gt import _core


def gpu_workers(n: int) -> None:
    """Gives the session `n` workers: GPUs where there are any, else the CPU's cores in equal parts.

    Called again, as a scaling loop does, it re-forms the group; tensors are carried over. Connected to a server, it asks
    for `n` of the server's workers and raises `ValueError` if there are fewer.

    >>> gt.gpu_workers(1)
    """
    _core.gpu_workers(n)


class Connection:
    """What `gt.connect` gives: with it, `with gt.connect(address): ...` has a session of its own.

    >>> isinstance(gt.connect, type(gt.disconnect))
    True
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._thread = threading.get_ident()
        self._entered = False

    def __enter__(self) -> Connection:
        self._check_thread()
        # Whoever used the session meanwhile has made it that of the thread or the process.
        self._entered = _core.enter_session()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._check_thread()
        try:
            _core.leave_session() if self._entered else disconnect()
        except Exception:
            # What ended the block says more.
            if kind is None:
                raise

    def __del__(self) -> None:
        if threading.get_ident() == self._thread and not self._entered:
            _core.settle_session()

    def __repr__(self) -> str:
        return f"<session with the server at {self._address}>"

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError(f"the session with {self._address} can be closed only by the thread that opened it")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def connect(
    address: str,
    *,
    token: str | None = None,
    fingerprint: str | None = None,
    timeout: float = 10.0,
) -> Connection:
    """Uses the workers of the server at `address` (`host:port`) from now on. Tensors that exist are carried over.

    In the main thread the session is the process's: threads that connect to nothing use it too. In another thread it is that
    thread's own. `with gt.connect(address): ...` has a session of its own for what happens inside, whatever the thread. A tensor
    belongs to the session that made it; to use it in another, read it (`x.numpy()`) and make a tensor of the array there.

    A server with a token asks for it: `token`, or `GT_TOKEN`. `fingerprint`, which `gt server --tls` prints, makes every
    connection encrypted and sure of whom it talks to; `host:port#fingerprint`, also in `GT_ADDRESS`, says the same. Raises `ConnectionError` when nothing answers within `timeout`
    seconds or the server refuses; the session stays as it was then.

    >>> try:
    ...     gt.connect("127.0.0.1:1", timeout=1.0)
    ... except ConnectionError as e:
    ...     print("no server")
    no server
    """
    _core.connect(address, token, fingerprint, 0, timeout, not _is_main_thread())
    return Connection(address)


def disconnect() -> None:
    """Leaves the server once everything recorded has run; the next op starts a session in this process.

    Tensors that lived on the server's workers are gone. A thread that has a session of its own leaves that one, and goes on with
    the process's. Without a server, and in a thread that opened no session, this only waits, as `gt.synchronize` does.

    >>> gt.disconnect()
    """
    if _is_main_thread() or _core.has_own_session():
        _core.disconnect()
    else:
        _core.synchronize()
