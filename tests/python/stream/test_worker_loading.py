"""With a server, batches of files are made on the worker: the same ones, and their bytes never pass through the client."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster, eventually
from loaded_batches import DIGEST, filled_in

import gt

pytestmark = pytest.mark.timeout(120)

SAMPLES = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of events of different lengths."""
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(0)
    for number in range(3):
        lengths = rng.integers(0, 40, SAMPLES // 3)
        columns = {
            "id": np.arange(SAMPLES // 3) + number * (SAMPLES // 3),
            "angle": rng.random(SAMPLES // 3, dtype=np.float32),
            "hits": [rng.random(n) for n in lengths],
        }
        gt.data.write_parquet(folder / f"part_{number}.parquet", columns, rows_per_group=50)
    return folder


# Prints a digest of every batch, where they came from, and how many bytes the client uploaded.
LOADING = (
    DIGEST
    + """
col = gt.data.col
ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
options = dict(batch_size=64, shuffle=True, num_workers=1, generator=3, sample_ids=True, dtypes={"hits": gt.float32}) | OPTIONS
dl = gt.data.DataLoader(ds, transforms=[col("hits").clip(1e-3, float("inf")).log10()], **options)
batches = []
for epoch in range(2):
    for batch in dl:
        batches.append(digest(batch))
stats = gt.debug.get_worker_stats()
print(json.dumps({
    "batches": batches,
    "uploaded": sum(s["bytes_in"] for s in stats.values()),
    "loaded": sum(s["loaded_bytes"] for s in stats.values()),
    "stats": dl.stats(),
}))
"""
)


def program(folder: Path, text: str = LOADING, **options: object) -> str:
    return filled_in(text, folder, options)


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[str]:
    with Cluster() as alone:
        return json.loads(alone.run(program(folder)))["batches"]


@pytest.mark.parametrize(("workers", "threads"), [(1, 0), (1, 3), (2, 1)])
def test_batches_are_the_same_bits_as_without_a_server(cluster: Cluster, folder, expected, workers, threads):
    server = cluster.server(workers=workers)
    told = json.loads(cluster.run(program(folder, num_workers=threads), server.address))
    assert told["batches"] == expected
    # Not one byte of them came from the client.
    assert told["uploaded"] == 0 and told["loaded"] == told["stats"]["bytes"] > 100_000
    assert told["stats"]["samples"] == 2 * SAMPLES and told["stats"]["read_bytes"] > 0


def test_the_client_reads_the_files_itself_where_that_is_asked_for(cluster: Cluster, folder, expected):
    server = cluster.server(workers=1)
    told = json.loads(cluster.run(program(folder), server.address, GT_DATA_ON_WORKERS=0))
    assert told["batches"] == expected and told["loaded"] == 0 and told["uploaded"] == told["stats"]["bytes"]


# What stands for the batches that are left after some were taken, in the order they come.
RESUMING = """
import json, sys
import gt
ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
dl = gt.data.DataLoader(ds, batch_size=50, shuffle=True, generator=1, sample_ids=True, **OPTIONS)
ids = lambda batches: [b["sample_id"].tolist() for b in batches]
if len(sys.argv) > 1:
    dl.load_state_dict(json.loads(sys.argv[1]))
    print(json.dumps(ids(dl)))
else:
    steps = iter(dl)
    given = [next(steps) for _ in range(7)]
    state = dl.state_dict()
    print(json.dumps([state, ids(given), ids(steps)]))
"""


def test_a_state_is_of_what_was_given_and_resumes_anywhere(cluster: Cluster, folder):
    server = cluster.server(workers=1)
    text = program(folder, RESUMING, num_workers=2, prefetch_factor=3)
    here = json.loads(cluster.run(text))
    there = json.loads(cluster.run(text, server.address))
    assert there == here
    state, given, rest = there
    assert len(given) == 7 and len(rest) == SAMPLES // 50 - 7
    resumed = text.replace("len(sys.argv) > 1", "True").replace("json.loads(sys.argv[1])", repr(state))
    assert json.loads(cluster.run(resumed)) == rest
    assert json.loads(cluster.run(resumed, server.address)) == rest


def test_a_training_loop_waits_for_nothing_but_its_reads(cluster: Cluster, folder):
    """Batches are uploads in all but their bytes: gradients, functions of whole batches and text columns included."""
    server = cluster.server(workers=1)
    text = """
    import gt
    ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
    double = lambda b: {**b, "twice": b["angle"] * 2}
    dl = gt.data.DataLoader(ds, batch_size=100, shuffle=True, generator=0, num_workers=1, dtypes=gt.float32,
                            pad_to_multiple_of=64, transforms=[double])
    w = gt.zeros(64, requires_grad=True)
    before = gt.debug.get_worker_stats()
    losses = []
    for batch in dl:
        loss = ((batch["hits"] * batch["mask"]) @ w - batch["twice"]).square().mean()
        loss.backward()
        with gt.no_grad():
            w -= 0.01 * w.grad
            w.grad = None
        losses.append(loss.detach())
    print([round(x.item(), 6) for x in losses])
    (now,) = gt.debug.get_worker_stats().values()
    print(now["round_trips"], len(losses))
    """
    alone = cluster.run(program(folder, text)).splitlines()
    told = cluster.run(program(folder, text), server.address).splitlines()
    assert told[0] == alone[0]
    trips, steps = map(int, told[1].split())
    assert steps == 9 and trips == steps


def test_text_columns_come_to_the_program(cluster: Cluster, tmp_path):
    lines = [json.dumps({"x": i, "name": f"sample {i} " + "é" * (i * 50)}) for i in range(40)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    text = """
    import hashlib, gt
    dl = gt.data.DataLoader(gt.data.JsonlDataset(FOLDER), batch_size=16, shuffle=True, generator=0)
    for b in dl:
        print(b["x"].tolist(), hashlib.sha256("|".join(b["name"]).encode()).hexdigest())
    """
    server = cluster.server(workers=1)
    path = tmp_path / "a.jsonl"
    assert cluster.run(program(path, text), server.address) == cluster.run(program(path, text))


def test_paths_are_those_of_the_program(cluster: Cluster, folder):
    """A worker has another working folder."""
    server = cluster.server(workers=1)
    text = """
    import os, gt
    os.chdir(FOLDER)
    dl = gt.data.DataLoader(gt.data.ParquetDataset("part_*.parquet"), batch_size=300)
    print([b["id"].sum().item() for b in dl])
    """
    assert cluster.run(program(folder, text), server.address) == cluster.run(program(folder, text))


def damaged(folder: Path, copy: Path) -> Path:
    """A copy whose second file loses its pages, as on a disk that loses bits: length and time stay."""
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    bad = copy / "part_1.parquet"
    stat = bad.stat()
    data = bytearray(bad.read_bytes())
    data[4:400] = bytes(396)
    bad.write_bytes(data)
    os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return copy


FAILING = """
import gt
ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
dl = gt.data.DataLoader(ds, batch_size=100, num_workers=1, **OPTIONS)
seen = 0
try:
    for batch in dl:
        seen += len(batch["id"])
except Exception as error:
    print(type(error).__module__, type(error).__name__, str(error))
print(seen, dl.stats().get("skipped_samples"))
print(gt.ones(3).sum().item())
"""


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_corrupt_file_is_the_same_error_in_the_same_place(cluster: Cluster, folder, tmp_path, on_error):
    server = cluster.server(workers=1)
    text = program(damaged(folder, tmp_path / "bad"), FAILING, on_error=on_error)
    here = cluster.run(text)
    assert ("part_1.parquet" in here) == (on_error == "raise") and "3.0" in here
    assert cluster.run(text, server.address) == here


def test_files_that_only_the_program_sees_are_an_error_that_says_who_reads(cluster: Cluster, folder, tmp_path):
    """As with a worker of another host: the working folder is another one there."""
    server = cluster.server(workers=1)
    text = """
    import os, gt
    os.chdir(FOLDER)
    dl = gt.data.DataLoader(gt.data.ParquetDataset("/proc/self/cwd/part_0.parquet"), batch_size=100)
    try:
        next(iter(dl))
    except FileNotFoundError as error:
        print(error)
    """
    told = cluster.run(program(folder, text), server.address)
    assert "/proc/self/cwd/part_0.parquet: no such file" in told
    assert "worker_0" in told and "GT_DATA_ON_WORKERS=0" in told


def loader_threads(pid: int) -> list[str]:
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name.startswith(("gt-load", "gt-data")):
            names.append(name)
    return names


ENDLESS = """
import time, gt
ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
dl = gt.data.DataLoader(ds, batch_size=10, shuffle=True, num_workers=2, sample_ids=True)
seen = 0
try:
    while True:
        for batch in dl:
            seen += len(batch["id"].tolist())
            if seen == 200:
                print("running", flush=True)
            time.sleep(0.001)
except gt.WorkerLost as error:
    print("lost:", " / ".join(str(error).splitlines()), flush=True)
state = dl.state_dict()
dl.load_state_dict(state)
rest = sum(len(b["id"]) for b in dl)
print("after", rest + state["position"], flush=True)
"""


@pytest.mark.parametrize("client_ends", ["killed", "leaves the loop"])
def test_the_threads_of_a_loader_end_with_whoever_wanted_it(cluster: Cluster, folder, client_ends):
    server = cluster.server()
    worker = cluster.worker(server.port)
    cluster.wait_for_workers(server, 1)
    text = program(folder, ENDLESS)
    if client_ends == "leaves the loop":
        text = text.replace('print("running", flush=True)', 'print("running", flush=True); time.sleep(1); break')
        text = text.replace("while True:", "if True:").replace(
            "state = dl", 'print("left", flush=True); time.sleep(60)'
        )
    client = cluster.client(text, server.address)
    client.wait_for("running")
    eventually("its loader has threads", lambda: loader_threads(worker.pid))
    if client_ends == "killed":
        client.kill()
    else:
        client.wait_for("left")
    eventually("they have ended", lambda: not loader_threads(worker.pid))
    assert worker.is_running()


def test_a_lost_worker_is_raised_and_the_loader_goes_on_elsewhere(cluster: Cluster, folder):
    server = cluster.server()
    workers = [cluster.worker(server.port) for _ in range(2)]
    cluster.wait_for_workers(server, 2)
    client = cluster.client(program(folder, ENDLESS), server.address)
    client.wait_for("running")
    (home,) = [w for w in workers if loader_threads(w.pid)]
    home.kill()
    printed = client.succeeded().splitlines()
    assert printed[1].startswith("lost: ") and "worker_" in printed[1], printed
    # Where it stood is known, and the rest of the epoch is read by the other worker.
    assert printed[-1] == f"after {SAMPLES}", printed


def test_a_stopped_worker_is_waited_for(cluster: Cluster, folder):
    server = cluster.server()
    worker = cluster.worker(server.port)
    cluster.wait_for_workers(server, 1)
    client = cluster.client(program(folder, ENDLESS).replace("while True:", "for _ in range(3):"), server.address)
    client.wait_for("running")
    worker.send(signal.SIGSTOP)
    time.sleep(1)
    worker.send(signal.SIGCONT)
    assert client.succeeded().splitlines()[-1].startswith("after ")


def test_a_loop_goes_on_when_the_program_changes_its_workers(cluster: Cluster, folder):
    server = cluster.server(workers=2)
    text = f"""
    import gt
    ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
    dl = gt.data.DataLoader(ds, batch_size=90, shuffle=True, generator=2, num_workers=1)
    ids = []
    for step, batch in enumerate(dl):
        ids += batch["id"].tolist()
        if step == 2: gt.connect("{server.address}")
        if step == 4: gt.gpu_workers(1)
        if step == 6: gt.disconnect()
    print(ids)
    """
    alone = program(folder, text).replace("gt.connect(", "str(").replace("gt.gpu_workers(1)", "pass")
    assert cluster.run(program(folder, text)) == cluster.run(alone)


# A data-parallel loop; the batches of the first epoch begin outside of any scope, those of the second inside.
SPLIT = """
import gt
gt.register_config("both", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
gt.register_config("other", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[OTHER])))
ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
dl = gt.data.DataLoader(ds, batch_size=100, shuffle=True, generator=0, num_workers=1, dtypes=gt.float32, pad_to_multiple_of=64)
w = gt.zeros(64, requires_grad=True)
losses = []
def step(batch):
    loss = ((batch["hits"] * batch["mask"]) @ w - batch["angle"]).square().mean()
    loss.backward()
    with gt.no_grad():
        w.sub_(0.01 * w.grad)
    w.grad = None
    losses.append(loss.item())
for batch in dl:
    with gt.signal.context("both"):
        step(batch)
with gt.signal.context("both"):
    for batch in dl:
        step(batch)
with gt.signal.context("other"):
    for batch in dl:
        step(batch)
print([round(x, 4) for x in losses])
print(sum(s["bytes_in"] for s in gt.debug.get_worker_stats().values()))
"""


@pytest.mark.parametrize("other", [0, 1])
def test_batches_are_split_over_workers_from_where_they_are_made(cluster: Cluster, folder, other):
    server = cluster.server(workers=2)
    text = program(folder, SPLIT).replace("OTHER", str(other))
    alone = cluster.run(text).splitlines()
    assert len(alone[0].split(",")) == 27
    told = cluster.run(text, server.address).splitlines()
    assert told[0] == alone[0] and int(told[1]) < 1000


def test_each_op_alone_and_loops_of_several_threads(cluster: Cluster, folder):
    """A batch is cut into several windows, and windows of other threads come between."""
    server = cluster.server(workers=1)
    text = """
    import threading, gt
    ds = gt.data.ParquetDataset(FOLDER + "/*.parquet")
    sums = [None] * 3
    def loop(seed):
        dl = gt.data.DataLoader(ds, batch_size=25, shuffle=True, num_workers=seed, generator=seed)
        sums[seed] = [((b["hits"] * b["mask"]).sum(), b["id"].sum()) for b in dl]
    threads = [threading.Thread(target=loop, args=(seed,)) for seed in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print([[(x.item(), n.item()) for x, n in of] for of in sums])
    """
    expected = cluster.run(program(folder, text))
    assert cluster.run(program(folder, text), server.address) == expected
    assert cluster.run(program(folder, text), server.address, GT_CLIENT_BATCH_SIZE=1) == expected


def test_batches_larger_than_windows_may_be_are_not_held_up(cluster: Cluster, tmp_path):
    """24 MiB a batch, more than cuts a window, and in a session that may hold few of them."""
    np.save(tmp_path / "x.npy", np.arange(12 * 6 * 2**17, dtype=np.float64).reshape(12, 6, -1))
    server = cluster.server("--max-session-memory", "200MiB", workers=1)
    text = """
    import gt
    dl = gt.data.DataLoader(gt.data.NpyDataset(FOLDER + "/x.npy"), batch_size=4, num_workers=2, shuffle=True, generator=0)
    for _ in range(3):
        total = 0
        for batch in dl:
            total += batch["data"].sum().item()
        print(total)
    """
    assert cluster.run(program(tmp_path, text), server.address) == cluster.run(program(tmp_path, text))


# A pool that fits what the session may have; what is counted while it loads and afterwards; then one that does not fit.
COUNTED = """
import time, gt
ds = gt.data.NpyDataset(FOLDER + "/x.npy")
def live():
    gt.ones(1).sum().item()  # a worker looks at its memory when a window has run
    return sum(s["live_bytes"] for s in gt.debug.get_worker_stats().values())
dl = gt.data.DataLoader(ds, batch_size=16, shuffle=True, shuffle_pool=4, generator=0, num_workers=1)
total = 0.0
for step, batch in enumerate(dl):
    total += batch["data"].sum().item()
    if step == 20:
        during = live()
del batch
until = time.monotonic() + 20
while (after := live()) > 2**20 and time.monotonic() < until:
    time.sleep(0.05)
print(total, during > 8 * 2**20, after < 2**20)
try:
    next(iter(gt.data.DataLoader(ds, batch_size=64, shuffle=True, shuffle_pool="full")))
except gt.errors.OutOfMemoryError as error:
    print(error)
print(gt.ones(3).sum().item())
"""


@pytest.mark.parametrize("limit", ["of the session", "of the worker"])
def test_what_a_loader_holds_counts_as_what_a_session_holds(cluster: Cluster, tmp_path, limit):
    """96 MiB in blocks of 4 MiB, where 64 MiB may be had."""
    data = np.zeros((3072, 4096))
    data[:, 0] = np.arange(3072)
    np.save(tmp_path / "x.npy", data)
    if limit == "of the session":
        server = cluster.server("--max-session-memory", "64MiB", workers=1)
    else:
        server = cluster.server()
        cluster.worker(server.port, "--memory-limit", "64MiB")
        cluster.wait_for_workers(server, 1)
    counted, refused, goes_on = cluster.run(program(tmp_path, COUNTED), server.address).splitlines()
    assert counted == f"{float(np.arange(3072).sum())} True True"
    assert (
        "out of memory" in refused
        and "lower batch_size, prefetch_factor or shuffle_pool" in refused
        and str(64 << 20) in refused
    ), refused
    assert goes_on == "3.0"
