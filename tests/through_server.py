"""Runs Python tests through a server and workers of their own: `python tests/through_server.py unix|tls [--all] [pytest …]`.

`unix`: a server and a worker, over Unix sockets and shared memory. `tls`: a server that asks for tokens and two
workers, everything over TCP with TLS. The tests are the same as without a server, and do not know. Each process of
pytest-xdist has a server of its own (`SERVERS`), so that no test sees the workers and limits of another one's session.

Run are the tests marked `transport`, whose results a server or the line to it could change, and an eighth of the recorded
programs, another one with every commit. `--all` runs every test that does not start servers of its own.
"""

import os
import re
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

READY = re.compile(r"ready at \S+:(\d+)")
PATIENCE_S = 30
# As many as `make test-stream` has pytest start processes.
SERVERS = 2
RECORDED_PARTS = 8
# These start servers of their own, or form groups of as many workers as they need.
OWN_SERVERS = (
    "stream",
    *(
        f"signals/{name}.py"
        for name in (
            "test_configs_on_any_group",
            "test_failures_on_groups",
            "test_sharded_training",
            "test_steps_in_parts",
        )
    ),
)


def start(*arguments, **options):
    return subprocess.Popen([sys.executable, "-m", "gt", *arguments], text=True, **options)


def ready_line(server):
    line = server.stdout.readline()
    if not READY.search(line):
        raise SystemExit(f"the server did not start: {line!r}")
    print(line, end="", flush=True)
    return line


def wait_for_workers(count, *reach):
    """Until `count` workers have joined."""
    import json
    import time

    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        status = subprocess.run(
            [sys.executable, "-m", "gt", "status", "--json", *reach], text=True, capture_output=True, check=False
        )
        if status.returncode == 0 and len(json.loads(status.stdout)["workers"]) >= count:
            return
        time.sleep(0.1)
    raise SystemExit(f"{count} workers did not join within {PATIENCE_S} s")


def what_a_server_can_change(way):
    """The tests that a pass runs, as arguments of pytest. The two ways run different parts of the recorded programs."""
    commits = subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False).stdout
    part = (int(commits or 0) + (RECORDED_PARTS // 2 if way == "tls" else 0)) % RECORDED_PARTS
    chosen = f"{part}/{RECORDED_PARTS}"
    print(f"recorded programs: part {chosen}, by the number of commits; another with --recorded-part, all with --all")
    # With `=`, or pytest would take the part for a path before it has read conftest.py.
    return ["-m", "(transport or recorded) and not heavy", f"--recorded-part={chosen}"]


def start_unix(processes, log):
    """A server with one worker. Gives the variables of its clients."""
    server = start("server", "-p", "0", "--workers", "1", *log, stdout=subprocess.PIPE)
    processes.append(server)
    port = READY.search(ready_line(server)).group(1)
    wait_for_workers(1, "-p", port)
    return {"GT_ADDRESS": f"127.0.0.1:{port}"}


def start_tls(processes, log, token_file, worker_token_file):
    """A server that asks for tokens, and two workers that were started apart. Gives the variables of its clients."""
    token = ("--token-file", str(token_file))
    worker_token = ("--worker-token-file", str(worker_token_file))
    tokens = (*token, *worker_token)
    server = start("server", "--host", "0.0.0.0", "-p", "0", "--tls", *tokens, *log, stdout=subprocess.PIPE)
    processes.append(server)
    line = ready_line(server)
    port = READY.search(line).group(1)
    fingerprint = re.search(r"fingerprint (\w+)", line).group(1)
    reach = ("--host", "127.0.0.1", "-p", port, "--fingerprint", fingerprint)
    # Files of the tests may lie anywhere.
    listen = (*worker_token, "--listen", "0.0.0.0", "--threads", "1", "--data-root", "/")
    processes += [start("worker", *reach, *listen) for _ in range(2)]
    wait_for_workers(2, *reach, *token)
    return {"GT_ADDRESS": f"127.0.0.1:{port}#{fingerprint}", "GT_TOKEN": token_file.read_text()}


def main():
    way, *pytest_arguments = sys.argv[1:] or ["unix"]
    if way not in ("unix", "tls"):
        raise SystemExit(f"{way!r} is neither unix nor tls")
    if "--all" in pytest_arguments:
        pytest_arguments.remove("--all")
    else:
        pytest_arguments = [*what_a_server_can_change(way), *pytest_arguments]
    processes = []
    with tempfile.TemporaryDirectory() as directory:
        token_files = [Path(directory, name) for name in ("token", "worker-token")]
        for token_file in token_files:
            token_file.touch(mode=0o600)
            token_file.write_text(secrets.token_hex(16))
        try:
            servers = []
            for number in range(SERVERS):
                log = ("--log-file", str(Path(directory, f"log-{number}")))
                servers.append(start_unix(processes, log) if way == "unix" else start_tls(processes, log, *token_files))
            # `conftest.py` takes the one of its process.
            environment = os.environ | servers[0] | {"SERVERS_OF_TESTS": " ".join(s["GT_ADDRESS"] for s in servers)}
            own = (f"--ignore=tests/python/{name}" for name in OWN_SERVERS)
            command = [sys.executable, "-m", "pytest", *own, *pytest_arguments]
            tests = subprocess.run(command, env=environment, check=False)
            dead = [p.args for p in processes if p.poll() is not None]
            if dead:
                raise SystemExit(f"these ended during the tests: {dead}")
            return tests.returncode
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait(PATIENCE_S)


if __name__ == "__main__":
    sys.exit(main())
