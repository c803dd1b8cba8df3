"""Which files a worker opens for a program: its own user's on its own host; of others only what it is told to serve."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster, Server

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))

from object_servers import S3Server

pytestmark = pytest.mark.timeout(120)

PROGRAM = """
import json, warnings, gt
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    loader = gt.data.DataLoader(gt.data.NpyDataset({"x": PATH}), batch_size=8)
    sums = [batch["x"].sum().item() for _ in range(2) for batch in loader]
stats = gt.debug.get_worker_stats().values()
print(json.dumps({
    "sums": sums,
    "said": [str(w.message) for w in said],
    "loaded": sum(s["loaded_bytes"] for s in stats),
    "uploaded": sum(s["bytes_in"] for s in stats),
}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for path in (tmp_path / "secret.npy", tmp_path / "data" / "x.npy"):
        np.save(path, np.arange(24))
    (tmp_path / "data" / "out.npy").symlink_to(tmp_path / "secret.npy")
    return tmp_path


@pytest.fixture
def objects() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


def run(cluster: Cluster, server: Server, path: Path | str, *, by_tcp: bool = True, **variables) -> dict:
    """What the program saw. Without the server's Unix socket it comes by TCP, and nobody vouches for its user."""
    if by_tcp:
        elsewhere = cluster.directory / "elsewhere"
        elsewhere.mkdir(mode=0o700, exist_ok=True)
        variables["XDG_RUNTIME_DIR"] = elsewhere
    out = json.loads(cluster.run(PROGRAM.replace("PATH", repr(str(path))), server.address, **variables))
    # The loop gets its batches, whoever reads them.
    assert out["sums"] == [28, 92, 156] * 2
    return out


def is_read_by_worker(out: dict) -> bool:
    assert (out["loaded"] > 0) != (out["uploaded"] >= 24 * 8), out
    return out["loaded"] > 0


def test_a_worker_reads_the_files_of_its_own_user_on_its_own_host(cluster: Cluster, folder: Path):
    server = cluster.server(workers=1)
    out = run(cluster, server, folder / "secret.npy", by_tcp=False)
    assert is_read_by_worker(out) and not out["said"], out


def test_a_worker_opened_any_file_that_a_client_named(cluster: Cluster, folder: Path):
    server = cluster.server(workers=1)
    out = run(cluster, server, folder / "secret.npy")
    assert not is_read_by_worker(out)
    # Once, though there are two epochs, with what to do about it.
    (said,) = out["said"]
    assert "worker_0 cannot read the files of this loader" in said and "secret.npy" in said
    assert "--data-root" in said and "GT_DATA_ON_WORKERS=0" in said
    assert not run(cluster, server, folder / "secret.npy", GT_DATA_ON_WORKERS="0")["said"]


def test_a_worker_reads_what_it_is_told_to_serve_and_nothing_that_links_lead_to(cluster: Cluster, folder: Path):
    server = cluster.server("--data-root", folder / "data", workers=1)
    assert is_read_by_worker(run(cluster, server, folder / "data" / "x.npy"))
    for path in ("secret.npy", "data/out.npy", "data/../secret.npy"):
        assert not is_read_by_worker(run(cluster, server, folder / path)), path


def test_a_worker_reads_the_addresses_that_it_is_told_to_serve(cluster: Cluster, folder: Path, objects: S3Server):
    # A web server of this machine is never asked; the store of a worker's own configuration is.
    objects.put("/bucket")
    for path in ("train/x.npy", "secret/x.npy"):
        objects.put(f"/bucket/{path}", (folder / "data" / "x.npy").read_bytes())
    own = {"AWS_ENDPOINT_URL": objects.url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    server = cluster.server("--data-url", "s3://bucket/train/*", workers=1, **own)
    assert is_read_by_worker(run(cluster, server, "s3://bucket/train/x.npy", **own))
    out = run(cluster, server, "s3://bucket/secret/x.npy", **own)
    assert not is_read_by_worker(out) and "--data-url" in out["said"][0], out


def test_a_folder_that_is_not_there_cannot_be_served(cluster: Cluster, tmp_path: Path):
    worker = cluster.worker(1, "--data-root", tmp_path / "nowhere")
    assert worker.ended() == 1 and "nowhere" in worker.said()
    worker = cluster.worker(1, "--data-url", "data.example.org")
    assert worker.ended() == 1 and "URL pattern" in worker.said()
