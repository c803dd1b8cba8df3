"""Who may be what: raw sockets that claim to be clients, observers and workers, with and without what shows it."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import wire
from cluster import Cluster, Server

pytestmark = pytest.mark.timeout(120)

TOKEN, WORKER_TOKEN = "of clients", "of workers"
WELCOME, REFUSED, JOINED, NOT_JOINED = b"\x01", b"\x02", b"\x01", b"\x02"
# Reasons of a refusal.
WRONG_TOKEN, WRONG_WORKER_TOKEN, OTHER_USER = b"\x01", b"\x07", b"\x08"
ONES = "import gt; print(gt.ones(3).sum().item())"


def doors(cluster: Cluster, server: Server) -> list[int | Path]:
    return [server.port, cluster.directory / "gt" / f"server-{server.port}.sock"]


def test_a_clients_token_joined_as_a_worker(cluster: Cluster):
    with_token = cluster.server(token=TOKEN, GT_WORKER_TOKEN=WORKER_TOKEN)
    for door in doors(cluster, with_token):
        for known in (b"", TOKEN.encode()):
            for role in (b"worker", b"client"):
                knock = wire.Knock(door)
                shown = knock.prove(known, role) if known else b""
                assert knock.ask(wire.join(shown))[:2] == NOT_JOINED + WRONG_WORKER_TOKEN, (door, known, role)
        assert wire.Knock(door).ask(wire.join(TOKEN.encode()))[:2] == NOT_JOINED + WRONG_WORKER_TOKEN
        knock = wire.Knock(door)
        assert knock.ask(wire.join(knock.prove(WORKER_TOKEN.encode(), b"worker")))[:1] == JOINED
    # Where workers have no token, nobody joins over loopback.
    without = cluster.server(token=TOKEN, GT_WORKER_TOKEN="")
    for known in (b"", TOKEN.encode()):
        knock = wire.Knock(without.port)
        shown = knock.prove(known, b"worker") if known else b""
        assert knock.ask(wire.join(shown))[:2] == NOT_JOINED + WRONG_WORKER_TOKEN
    assert cluster.status(without)["workers"] == []


def test_a_token_was_not_asked_for_on_this_machine(cluster: Cluster):
    server = cluster.server(workers=1, token=TOKEN)
    for door in doors(cluster, server):
        for wrong in (b"", b"of client"):
            knock = wire.Knock(door)
            assert knock.ask(wire.hello(knock.prove(wrong, b"client") if wrong else b""))[:2] == REFUSED + WRONG_TOKEN
            knock = wire.Knock(door)
            assert (
                knock.ask(wire.observe(knock.prove(wrong, b"observer") if wrong else b""))[:2] == REFUSED + WRONG_TOKEN
            )
        knock = wire.Knock(door)
        overheard = knock.prove(TOKEN.encode(), b"client")
        assert knock.ask(wire.hello(overheard))[:1] == WELCOME
        assert wire.Knock(door).ask(wire.hello(overheard))[:2] == REFUSED + WRONG_TOKEN, "it was replayed"
    refused = cluster.client(ONES, server.address)
    assert refused.ended() == 1 and "GT_TOKEN" in refused.said(), refused.said()
    assert cluster.run(ONES, server.address, GT_TOKEN=TOKEN) == "3.0\n"


# Speaks for itself, as another user may not be able to read this folder: connects, introduces itself, says a message, and
# prints what comes back.
SAY = """
import os, socket, struct, sys
at, words = sys.argv[1], bytes.fromhex(sys.argv[2])
try:
    if at.isdigit():
        connection = socket.create_connection(("127.0.0.1", int(at)), timeout=10)
    else:
        connection = socket.socket(socket.AF_UNIX); connection.settimeout(10); connection.connect(at)
    connection.sendall(words)
    heard = b""
    while more := connection.recv(1 << 16):
        heard += more
    print(os.getuid(), heard.hex())
except OSError as error:
    print(os.getuid(), type(error).__name__)
"""


def said_by_nobody(at: int | Path, message: bytes) -> str:
    """What another user of this machine hears who says something to a server."""
    command = ["/usr/bin/python3", "-c", SAY, str(at), (wire.introduction() + message).hex()]
    done = subprocess.run(
        command, user=65534, group=65534, extra_groups=[], cwd="/", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    user, heard = done.stdout.split(" ", 1)
    assert user == "65534"
    return heard.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_other_users_of_the_machine_were_let_in(cluster: Cluster):
    server = cluster.server(workers=1, GT_WORKER_TOKEN="")
    _, path = doors(cluster, server)
    assert oct(path.stat().st_mode)[-3:] == "600" and oct(path.parent.stat().st_mode)[-3:] == "700"
    head = wire.frame(wire.HEAD, REFUSED + OTHER_USER).hex()
    for message in (wire.hello(), wire.observe()):
        assert said_by_nobody(server.port, message).count(head) == 1
    refused = wire.frame(wire.HEAD, NOT_JOINED + WRONG_WORKER_TOKEN + b"\x00").hex()
    assert said_by_nobody(server.port, wire.join()).count(refused) == 1
    # The folder keeps others from the socket, the socket's mode does, and so does the kernel's word of who connects.
    sockets = [path, *path.parent.glob("worker-*.sock")]
    assert len(sockets) == 2
    assert said_by_nobody(path, wire.join()) == "PermissionError"
    for folder in (cluster.directory, path.parent):
        folder.chmod(0o755)
    assert said_by_nobody(path, wire.join()) == "PermissionError"
    for at in sockets:
        at.chmod(0o666)
        assert said_by_nobody(at, wire.join()) in ("", "ConnectionResetError", "BrokenPipeError"), at
    assert [w["id"] for w in cluster.status(server)["workers"]] == ["worker_0"]
    path.parent.chmod(0o700)
    assert cluster.run(ONES, server.address) == "3.0\n"


def test_a_program_gave_its_data_to_another_users_server(cluster: Cluster):
    """Whoever is first to listen at a port gets what comes there: without a token the user must be the same, with one the token."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    client = cluster.client(ONES, f"127.0.0.1:{port}", GT_TOKEN=TOKEN)
    connection, _ = listener.accept()
    connection.settimeout(10)
    connection.sendall(wire.introduction())
    heard = b""
    while b"script_" not in heard:
        heard += connection.recv(1 << 16)
    assert TOKEN.encode() not in heard, "the token itself was said"
    # A session, as it would be opened; what shows that the token is known is made up.
    words = b"\x01" + b"\x01" + wire.short(b"secret") + wire.short(bytes(32)) + b"\x00" * 6
    connection.sendall(wire.frame(wire.HEAD, words))
    assert client.ended() == 1 and "does not know the token" in client.said(), client.said()


def test_secrets_are_on_no_command_line_and_in_no_log(cluster: Cluster):
    log = cluster.directory / "server.log"
    server = cluster.server("--log-file", log, workers=2, token=TOKEN, GT_WORKER_TOKEN=WORKER_TOKEN)
    assert cluster.run(ONES, server.address, GT_TOKEN=TOKEN) == "3.0\n"
    processes = [server.pid, *server.children()]
    own = Path(f"/proc/{processes[1]}/environ").read_bytes().split(b"GT_WORKER_TOKEN=")[1].split(b"\0")[0].decode()
    assert len(own) == 64 and own != WORKER_TOKEN, "a worker of the server has a secret of its own"
    said = log.read_text() + server.said() + server.printed()
    for process in processes:
        command = Path(f"/proc/{process}/cmdline").read_text()
        assert all(secret not in command + said for secret in (TOKEN, WORKER_TOKEN, own))
        assert oct(Path(f"/proc/{process}/environ").stat().st_mode)[-3:] == "400"


def test_a_process_that_opened_and_left_sessions_kept_others_out(cluster: Cluster):
    server = cluster.server("--max-sessions", 20, workers=1)
    for _ in range(60):
        knock = wire.Knock(server.port)
        assert knock.ask(wire.hello())[:1] == WELCOME
        knock.socket.close()
        time.sleep(0.01)
    assert cluster.run(ONES, server.address) == "3.0\n"


def test_one_machine_needs_no_token(cluster: Cluster):
    server = cluster.server(GT_WORKER_TOKEN="")
    cluster.worker(server.port, "--host", "localhost", GT_WORKER_TOKEN="")
    cluster.wait_for_workers(server, 1)
    assert cluster.run(ONES, server.address) == "3.0\n"
    # By the port too, where the socket is not found.
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    assert cluster.run(ONES, server.address, XDG_RUNTIME_DIR=cluster.directory / "elsewhere") == "3.0\n"


def test_a_worker_that_needs_a_token_is_told_what_to_do(cluster: Cluster):
    (cluster.directory / "elsewhere").mkdir(mode=0o700)
    for asked in ("", WORKER_TOKEN):
        server = cluster.server(GT_WORKER_TOKEN=asked)
        far = {"XDG_RUNTIME_DIR": cluster.directory / "elsewhere"}
        worker = cluster.worker(server.port, GT_WORKER_TOKEN="", **far)
        assert worker.ended() == 1 and "--worker-token-file" in worker.said(), worker.said()
        if asked:
            cluster.worker(server.port, "--worker-token-file", cluster.secret_file(asked), GT_WORKER_TOKEN="", **far)
            cluster.wait_for_workers(server, 1)
        server.send(signal.SIGTERM)
        assert server.ended() == 0


def test_one_token_for_both_is_refused(cluster: Cluster):
    with pytest.raises(AssertionError, match="the worker token is the same"):
        cluster.server(token=TOKEN, GT_WORKER_TOKEN=TOKEN)
