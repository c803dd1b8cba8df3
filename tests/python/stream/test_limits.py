"""What a server refuses, and how it says so."""

import subprocess
import sys

import pytest
from cluster import Cluster
from isolated import environment

pytestmark = pytest.mark.timeout(120)

HELLO = "import gt; print(gt.ones(3).sum().item())"


def test_a_session_over_its_memory_raises_and_goes_on(cluster: Cluster):
    server = cluster.server("--max-session-memory", "40MB", workers=1)
    program = """
        import gt
        x = gt.ones(1 << 20)  # 4 MB
        y = gt.ones(1 << 24)
        try:
            y.sum().item()
            print("it fit")
        except gt.OutOfMemoryError as error:
            print("refused:", " / ".join(str(error).splitlines()))
        print("on", x.sum().item())
        del y
        z = gt.ones(1 << 22) * 2  # 16 MB
        print("on", z[5].item())
    """
    # Twice, as what one session was refused must not be held against another.
    for _ in range(2):
        lines = cluster.run(program, server.address).splitlines()
        assert lines[0].startswith("refused:") and "script_" in lines[0] and ".py:4" in lines[0], lines
        assert lines[1:] == ["on 1048576.0", "on 2.0"], lines


def test_an_upload_over_the_memory_of_a_session_raises_and_does_not_hang(cluster: Cluster):
    server = cluster.server("--max-session-memory", "40MB", workers=1)
    program = """
        import gt, numpy as np
        x = gt.tensor(np.ones(1 << 24, dtype=np.float32))  # 64 MB
        try:
            x.sum().item()
            print("it fit")
        except gt.OutOfMemoryError as error:
            print("refused:", " / ".join(str(error).splitlines()))
        del x
        print("on", gt.tensor(np.ones(1 << 20, dtype=np.float32)).sum().item())
    """
    lines = cluster.run(program, server.address, within=40).splitlines()
    assert lines[0].startswith("refused:") and ".py:3" in lines[0], lines
    assert lines[1] == "on 1048576.0", lines


# Each of these needs terabytes, and its operands take no memory at all.
EXPANDED = {
    "a read": "gt.zeros(1).expand(2**44).tolist()",
    "a read as an array": "gt.zeros(1).expand(2**44).numpy()",
    "take": "gt.zeros(4)[gt.zeros(1, dtype=gt.int64).expand(2**44)].sum().item()",
    "put": "x = gt.zeros(4); x[gt.zeros(1, dtype=gt.int64).expand(2**44)] = gt.ones(1).expand(2**44); x.tolist()",
    "scatter": "gt.zeros(4).scatter_add(0, gt.zeros(1, dtype=gt.int64).expand(2**44), gt.ones(1).expand(2**44)).tolist()",
    "attention": "q = gt.zeros(1, 1, 1, 1).expand(1, 1, 1, 2**44); "
    "gt.nn.functional.scaled_dot_product_attention(q, q, gt.zeros(1, 1, 1, 4)).tolist()",
}


@pytest.mark.parametrize("what", EXPANDED)
def test_an_expanded_tensor_ended_the_worker_with_everybody_on_it(cluster: Cluster, what: str):
    server = cluster.server(workers=1, GT_MEMORY_LIMIT="1GiB")
    (pid,) = server.children()
    go = cluster.directory / "go"
    other = cluster.client(
        f"""
        import gt, os, time
        x = gt.ones(3) * 2
        print("before", x.tolist(), flush=True)
        while not os.path.exists({str(go)!r}):
            time.sleep(0.02)
        print("after", (x + 1).tolist(), flush=True)
        """,
        server.address,
    )
    other.wait_for("before")
    program = f"""
    import gt
    try:
        {EXPANDED[what]}
        print("it fit")
    except (gt.OutOfMemoryError, MemoryError) as error:
        print("refused:", str(error).splitlines()[0])
    print("on", gt.ones(3).sum().item())
    """
    lines = cluster.run(program, server.address).splitlines()
    assert lines[0].startswith("refused:") and lines[1:] == ["on 3.0"], lines
    go.touch()
    assert "after [3.0, 3.0, 3.0]" in other.succeeded()
    assert server.children() == [pid]


def test_sessions_over_the_limit_are_refused_and_others_untouched(cluster: Cluster):
    server = cluster.server("--max-sessions", 2, workers=1)
    held = [cluster.client(HELLO + "\nimport time; time.sleep(60)", server.address) for _ in range(2)]
    for client in held:
        client.wait_for("3.0")
    third = cluster.client(HELLO, server.address)
    assert third.ended() == 1
    assert "ConnectionError" in third.said() and "already has 2 sessions, its maximum" in third.said(), third.said()
    held[0].kill()
    cluster.wait_for_sessions(server, 1)
    assert cluster.run(HELLO, server.address) == "3.0\n"


def own_address() -> str | None:
    """An address of this machine that is not loopback, if it has one."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: this only asks which address would be used.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = probe.getsockname()[0]
    return None if address.startswith("127.") else address


def test_beyond_loopback_a_server_needs_a_token(cluster: Cluster):
    command = [sys.executable, "-m", "gt", "server", "-p", "0", "--host", "0.0.0.0"]
    variables = environment(XDG_RUNTIME_DIR=cluster.directory)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "token" in done.stderr and "--token-file" in done.stderr, done.stderr


def test_tokens_and_fingerprints_are_checked(cluster: Cluster):
    address = own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    token = "correct horse battery staple"
    server = cluster.server("--host", "0.0.0.0", "--tls", token=token)
    worker = cluster.worker(server.port, "--listen", "0.0.0.0")
    cluster.wait_for_workers(server, 1)
    at = f"{address}:{server.port}"
    sure = f"{at}#{server.fingerprint}"

    right = cluster.run(HELLO, sure, GT_TOKEN="correct horse battery staple")
    assert right == "3.0\n"
    for wrong in ({}, {"GT_TOKEN": "correct horse battery stapl"}):
        client = cluster.client(HELLO, sure, **wrong)
        assert client.ended() == 1
        assert "ConnectionError" in client.said() and "GT_TOKEN" in client.said(), client.said()
    fingerprint = server.fingerprint
    other = ("0" if fingerprint[0] != "0" else "1") + fingerprint[1:]
    client = cluster.client(HELLO, f"{at}#{other}", GT_TOKEN="correct horse battery staple")
    assert client.ended() == 1
    assert "ConnectionError" in client.said() and "ertificate" in client.said(), client.said()
    # Without a fingerprint there is no TLS, which a server that has it does not speak.
    client = cluster.client(HELLO, at, GT_TOKEN="correct horse battery staple")
    assert client.ended() == 1 and "ConnectionError" in client.said(), client.said()
    # A worker that is turned away says so and ends: trying again would change nothing.
    stranger = cluster.worker(
        server.port, "--host", address, "--fingerprint", fingerprint, GT_WORKER_TOKEN="another one that is long enough"
    )
    assert stranger.ended() == 1 and "--worker-token-file" in stranger.said(), stranger.said()
    assert worker.is_running()
    assert len(cluster.status(server)["workers"]) == 1
