"""`gt plan` runs a script on workers of its own, also if the script connects to a server."""

import socket
import subprocess
import sys
import textwrap

import pytest
from isolated import environment

# How a script gets to its server.
CONNECTS = {
    "gt.connect": """
        gt.connect(ADDRESS)
        step()
        gt.disconnect()
        step()
    """,
    "with gt.connect": """
        with gt.connect(ADDRESS):
            step()
        step()
    """,
    "a thread": """
        import threading
        def train():
            gt.connect(ADDRESS)
            step()
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
        step()
    """,
    "GT_ADDRESS": """
        import os
        os.environ["GT_ADDRESS"] = ADDRESS
        step()
        step()
    """,
}
SCRIPT = """
import gt
ADDRESS = "127.0.0.1:{port}"
gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
def step():
    with gt.signal.context("rows"):
        print((gt.ones(8, 4) @ gt.ones(4, 2)).sum().item())
"""


@pytest.mark.parametrize("way", CONNECTS)
def test_a_script_that_connects_stays_on_the_workers_of_gt_plan(tmp_path, way):
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = SCRIPT.format(port=server.getsockname()[1]) + textwrap.dedent(CONNECTS[way])
        (tmp_path / "train.py").write_text(script)
        command = [sys.executable, "-m", "gt", "plan", "--workers", "2", "train.py"]
        done = subprocess.run(command, cwd=tmp_path, env=environment(), timeout=120, capture_output=True, text=True)
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["0.0", "0.0"] and "2 × reduce" in done.stdout, done.stdout
    if way != "GT_ADDRESS":
        assert done.stderr.count("gt plan: did not connect to 127.0.0.1:") == 1, done.stderr
