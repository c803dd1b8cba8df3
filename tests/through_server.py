"""Runs the Python tests through a server and workers of their own: `python tests/through_server.py unix|tls [pytest …]`.

`unix`: one server and one worker, over Unix sockets and shared memory. `tls`: one server that asks for a token and two
workers, everything over TCP with TLS. The tests are the same as without a server, and do not know.
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


def main():
    way, *pytest_arguments = sys.argv[1:] or ["unix"]
    processes = []
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as directory:
        log = ("--log-file", str(Path(directory, "log")))
        try:
            if way == "unix":
                server = start("server", "-p", "0", "--workers", "1", *log, stdout=subprocess.PIPE)
                processes.append(server)
                port = READY.search(ready_line(server)).group(1)
                wait_for_workers(1, "-p", port)
                environment["GT_ADDRESS"] = f"127.0.0.1:{port}"
            elif way == "tls":
                token_file = Path(directory, "token")
                token_file.touch(mode=0o600)
                token_file.write_text(secrets.token_hex(16))
                token = ("--token-file", str(token_file))
                server = start("server", "--host", "0.0.0.0", "-p", "0", "--tls", *token, *log, stdout=subprocess.PIPE)
                processes.append(server)
                line = ready_line(server)
                port = READY.search(line).group(1)
                fingerprint = re.search(r"fingerprint (\w+)", line).group(1)
                reach = ("--host", "127.0.0.1", "-p", port, "--fingerprint", fingerprint, *token)
                processes += [start("worker", *reach, "--listen", "0.0.0.0", "--threads", "1") for _ in range(2)]
                wait_for_workers(2, *reach)
                environment |= {"GT_ADDRESS": f"127.0.0.1:{port}#{fingerprint}", "GT_TOKEN": token_file.read_text()}
            else:
                raise SystemExit(f"{way!r} is neither unix nor tls")
            # Those start servers of their own, or form groups of as many workers as they need.
            groups = (
                "test_configs_on_any_group",
                "test_failures_on_groups",
                "test_sharded_training",
                "test_steps_in_parts",
            )
            own = ("--ignore=tests/python/stream", *(f"--ignore=tests/python/signals/{name}.py" for name in groups))
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
