"""Servers, workers and clients as processes of one test, each in a directory of its own for sockets and messages.

CLUSTER-1: whatever a test does to them, all of them are gone when it ends.
CLUSTER-2: a panic on the stderr of a server or worker fails the test, also where nothing else shows it.
CLUSTER-3: whatever is waited for is waited for with an end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isolated import environment

# How long anything may take on a machine that does other work too.
PATIENCE = 30.0
# What workers of a test show to its servers.
WORKER_TOKEN = "the workers of this test"


def eventually(what: str, is_so: Callable[[], Any], *, within: float = PATIENCE) -> Any:
    """Waits until it is so, and gives what it saw then."""
    deadline = time.monotonic() + within
    while True:
        if seen := is_so():
            return seen
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.02)


class Process:
    """A process of the test, with its stdout and stderr in files that may be read at any time."""

    def __init__(
        self, command: list[str], name: str, variables: dict[str, Any], directory: Path, cwd: Path | None = None
    ) -> None:
        self.out, self.err = directory / f"{name}.out", directory / f"{name}.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.popen = subprocess.Popen(
                command,
                env=environment(**{"XDG_RUNTIME_DIR": directory} | variables),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
            )
        self.name, self.pid = name, self.popen.pid

    def printed(self) -> str:
        return self.out.read_text(errors="replace")

    def said(self) -> str:
        """What it wrote to stderr."""
        return self.err.read_text(errors="replace")

    def is_running(self) -> bool:
        return self.popen.poll() is None

    def wait_for(self, text: str, *, within: float = PATIENCE) -> None:
        """Waits until a line that it printed has this text."""

        def is_so() -> bool:
            if text in self.printed():
                return True
            assert self.is_running(), f"{self.name} ended before {text!r}:\n{self.printed()}\n{self.said()}"
            return False

        eventually(f"{self.name} prints {text!r}, not only {self.printed()!r}", is_so, within=within)

    def send(self, what: signal.Signals) -> None:
        os.kill(self.pid, what)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def ended(self, *, within: float = PATIENCE) -> int:
        """Waits for its end, and gives its exit code."""
        try:
            return self.popen.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end:\n{self.printed()}\n{self.said()}") from None

    def succeeded(self, *, within: float = PATIENCE) -> str:
        """Waits for its end, which has to be a good one, and gives what it printed."""
        code = self.ended(within=within)
        assert code == 0, f"{self.name}: exit {code}\n{self.printed()}\n{self.said()}"
        return self.printed()

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def listens_at(self) -> int:
        """The port where it waits for connections over a network."""
        inodes = {line.split()[9]: line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    row = inodes.get(target[8:-1])
                    if row and row[3] == "0A":
                        return int(row[1].split(":")[1], 16)
        raise AssertionError(f"{self.name} does not listen at a port")


def resident_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) * 1024


class Server(Process):
    """`gt server`, ready."""

    port: int
    fingerprint: str | None
    # What clients have to know.
    token: str | None = None

    def wait_ready(self) -> None:
        self.wait_for("ready at ")
        line = self.printed()
        self.port = int(re.search(r"ready at \S+:(\d+) and", line).group(1))
        fingerprint = re.search(r"TLS fingerprint (\S+)", line)
        self.fingerprint = fingerprint and fingerprint.group(1)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def children(self) -> list[int]:
        """The workers it started itself."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]


class Cluster:
    """Everything that a test starts. A context manager (CLUSTER-1)."""

    def __init__(self) -> None:
        # Short: the path of a socket has at most 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="gt-test-"))
        self.processes: list[Process] = []
        self.strays: list[int] = []

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self._end()
            if kind is None:
                self.assert_no_panic()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self) -> None:
        for process in self.processes:
            if isinstance(process, Server) and process.is_running():
                self.strays += process.children()
        for pid in [p.pid for p in self.processes if p.is_running()] + self.strays:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.popen.wait()

    def assert_no_panic(self) -> None:
        """CLUSTER-2."""
        for process in self.processes:
            said = process.said()
            assert "panicked" not in said and "RUST_BACKTRACE" not in said, f"{process.name}:\n{said}"

    def _start(
        self, kind: type[Process], command: list[str], name: str, variables: dict[str, Any], cwd: Path | None = None
    ) -> Any:
        count = sum(p.name.startswith(name) for p in self.processes)
        process = kind(command, f"{name}-{count}", variables, self.directory, cwd)
        self.processes.append(process)
        return process

    def server(
        self,
        *args: Any,
        port: int = 0,
        workers: int = 0,
        token: str | None = None,
        cwd: Path | None = None,
        **variables: Any,
    ) -> Server:
        """A server that is ready, with so many workers of its own that have joined."""
        args = (*args, "--workers", workers) if workers else args
        if token is not None:
            args = (*args, "--token-file", self.secret_file(token))
        # Workers that come over a network need one. Tests of what happens without it set it to nothing.
        variables = {"GT_WORKER_TOKEN": WORKER_TOKEN} | variables
        command = [sys.executable, "-m", "gt", "server", "-p", str(port), *map(str, args)]
        server: Server = self._start(Server, command, "server", variables, cwd)
        server.token = token
        server.wait_ready()
        self.strays += server.children()
        if workers:
            self.wait_for_workers(server, workers)
        return server

    def worker(self, port: int, *args: Any, cwd: Path | None = None, **variables: Any) -> Process:
        command = [sys.executable, "-m", "gt", "worker", "-p", str(port), *map(str, args)]
        variables = {"GT_WORKER_TOKEN": WORKER_TOKEN} | variables
        return self._start(Process, command, "worker", variables, cwd)

    def secret_file(self, secret: str) -> Path:
        """A file that nobody else can read."""
        path = self.directory / f"secret_{len(list(self.directory.iterdir()))}"
        path.touch(mode=0o600)
        path.write_text(secret + "\n")
        return path

    def client(self, program: str, address: str | None = None, *, name: str = "client", **variables: Any) -> Process:
        """A script; connected from its first op on, if there is an address."""
        # In a file, as errors name the lines of files.
        path = self.directory / f"script_{len(self.processes)}.py"
        path.write_text(textwrap.dedent(program))
        if address is not None:
            variables = {"GT_ADDRESS": address} | variables
        return self._start(Process, [sys.executable, "-u", str(path)], name, variables)

    def run(self, program: str, address: str | None = None, *, within: float = PATIENCE, **variables: Any) -> str:
        """What a script printed that ended well."""
        return self.client(program, address, **variables).succeeded(within=within)

    def status(self, server: Server) -> dict[str, Any]:
        command = [sys.executable, "-m", "gt", "status", "-p", str(server.port), "--json"]
        if server.fingerprint:
            command += ["--fingerprint", server.fingerprint]
        variables = environment(XDG_RUNTIME_DIR=self.directory, **{"GT_TOKEN": server.token} if server.token else {})
        done = subprocess.run(command, env=variables, timeout=PATIENCE, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def wait_for_workers(self, server: Server, count: int, *, within: float = PATIENCE) -> list[dict[str, Any]]:
        """Waits until so many are connected, and gives what is known of them."""

        def connected() -> list[dict[str, Any]]:
            workers = [w for w in self.status(server)["workers"] if w["state"] == "connected"]
            return workers if len(workers) == count else []

        if count == 0:
            eventually("no worker is left", lambda: not self.status(server)["workers"], within=within)
            return []
        return eventually(f"{count} workers have joined", connected, within=within)

    def wait_for_sessions(self, server: Server, count: int, *, within: float = PATIENCE) -> list[dict[str, Any]]:
        def as_many() -> tuple[list[dict[str, Any]]]:
            sessions = self.status(server)["sessions"]
            return (sessions,) if len(sessions) == count else None

        return eventually(f"{count} sessions", as_many, within=within)[0]

    def wait_for_memory(self, server: Server, most_bytes: int, *, within: float = PATIENCE) -> None:
        """Waits until all workers together hold no more than this."""

        def freed() -> bool:
            return sum(w["live_bytes"] for w in self.status(server)["workers"]) <= most_bytes

        try:
            eventually(f"no more than {most_bytes} bytes are held", freed, within=within)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.status(server)}") from None
