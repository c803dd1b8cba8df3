"""Under a signal that splits rows, each worker reads its own lanes and makes its own rows of every batch."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster
from loaded_batches import DIGEST, filled_in

import gt

pytestmark = pytest.mark.timeout(180)

FILES, PER_FILE = 24, 125
# The last batch of 64 has fewer rows than there are workers, where there are four.
SAMPLES = FILES * PER_FILE + 11
assert SAMPLES % 64 == 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of flat rows, and a table of the events in them."""
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(0)
    table: dict[str, list[int]] = {"file": [], "first": [], "length": [], "label": []}
    for number in range(FILES):
        lengths = rng.integers(0, 40, PER_FILE + (11 if number == 0 else 0))
        rows = int(lengths.sum())
        columns = {"time": np.arange(rows) + number * 10_000, "charge": rng.random(rows)}
        gt.data.write_parquet(folder / f"hits_{number}.parquet", columns, rows_per_group=500)
        table["file"] += [number] * len(lengths)
        table["first"] += [0, *np.cumsum(lengths)[:-1].tolist()]
        table["length"] += lengths.tolist()
        table["label"] += [len(table["label"]) + i for i in range(len(lengths))]
    gt.data.write_parquet(folder / "table.parquet", {name: np.array(of) for name, of in table.items()})
    return folder


OPEN = (
    DIGEST
    + """
gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
folder = FOLDER
events = gt.data.RowRanges(folder + "/table.parquet", first="first", length="length", file="file",
                           file_pattern=folder + "/hits_{}.parquet", columns=["label"])
ds = gt.data.ParquetDataset(folder + "/hits_*.parquet", events=events)
options = dict(batch_size=64, shuffle=True, num_workers=1, generator=3, sample_ids=True) | OPTIONS
dl = gt.data.DataLoader(ds, dtypes={"charge": gt.float32}, pad_to_multiple_of={"charge": 8}, **options)
"""
)

LOADING = (
    OPEN
    + """
with gt.signal.context("rows"):
    batches = [digest(batch) for _ in range(2) for batch in dl]
stats = gt.debug.get_worker_stats()
print(json.dumps({
    "batches": batches,
    "uploaded": sum(s["bytes_in"] for s in stats.values()),
    "loaded": sorted(s["loaded_bytes"] for s in stats.values()),
    "stats": dl.stats(),
}))
"""
)


def program(folder: Path, text: str = LOADING, **options: object) -> str:
    return filled_in(text, folder, options)


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict:
    with Cluster() as nobody:
        return json.loads(nobody.run(program(folder)))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_makes_the_same_batches_and_reads_the_files_once(
    cluster: Cluster, folder, alone, workers
):
    server = cluster.server(workers=workers)
    told = json.loads(cluster.run(program(folder, num_workers=workers % 3), server.address))
    assert told["batches"] == alone["batches"]
    assert told["uploaded"] == 0 and told["stats"]["samples"] == 2 * SAMPLES
    # Each has its share of the numbers; the files are read about once, not once for each.
    share = told["stats"]["bytes"] / workers
    assert len(told["loaded"]) == workers and all(0.9 * share < n < 1.1 * share for n in told["loaded"]), told
    read = told["stats"]["read_bytes"] / alone["stats"]["read_bytes"]
    assert 0.99 < read < 1.4, read


def test_the_implicit_scope_counts_and_one_process_may_have_the_workers(cluster: Cluster, folder, alone):
    text = program(folder).replace('with gt.signal.context("rows"):', "if True:")
    told = json.loads(cluster.run(text.replace("import gt\n", "import gt\ngt.gpu_workers(2)\n"), GT_AUTO_SHARD=1))
    assert told["batches"] == alone["batches"] and told["uploaded"] == 0
    assert min(told["loaded"]) > 0.9 * told["stats"]["bytes"] / 2


# Data-parallel steps: each worker has its rows already, so that gradients are all that travels.
TRAINING = (
    OPEN
    + """
w = gt.zeros(40, requires_grad=True)
with gt.signal.context("rows"):
    for _ in range(3):
        for batch in dl:
            predicted = (batch["charge"] * batch["mask"][:, :40]) @ w
            loss = (predicted - batch["lengths"]).square().mean()
            loss.backward()
            with gt.no_grad():
                w.sub_(0.001 * w.grad)
            w.grad = None
print(round(loss.item(), 2))
stats = gt.debug.get_worker_stats().values()
print(sum(s["moved_bytes_out"] for s in stats), sum(s["loaded_bytes"] for s in stats))
"""
)


def test_a_data_parallel_loop_moves_gradients_and_no_batches(cluster: Cluster, folder):
    text = program(folder, TRAINING, pad_to_multiple_of=40, max_len=40, drop_last=True).replace(
        'pad_to_multiple_of={"charge": 8}, ', ""
    )
    expected = cluster.run(text).splitlines()[0]
    server = cluster.server(workers=2)
    told = cluster.run(text, server.address).splitlines()
    moved, loaded = map(int, told[1].split())
    assert told[0] == expected and moved < loaded / 4, (moved, loaded)


# Some batches, the state behind them, and the rest; or only the rest of a state.
RESUMING = (
    OPEN
    + """
state = STATE
with gt.signal.context("rows"):
    if state is None:
        steps = iter(dl)
        given = [digest(next(steps)) for _ in range(11)]
        print(json.dumps([dl.state_dict(), given, [digest(b) for b in steps]]))
    else:
        dl.load_state_dict(state)
        print(json.dumps([digest(b) for b in dl]))
"""
)


def test_a_state_goes_on_with_another_number_of_workers(cluster: Cluster, folder, alone):
    servers = {n: cluster.server(workers=n).address for n in (2, 4)}
    text = program(folder, RESUMING)
    state, given, rest = json.loads(cluster.run(text.replace("STATE", "None"), servers[4]))
    assert given + rest == alone["batches"][: len(given + rest)] and len(given) == 11
    resumed = text.replace("STATE", repr(state))
    assert json.loads(cluster.run(resumed, servers[2])) == rest
    assert json.loads(cluster.run(resumed)) == rest
    state, *_ = json.loads(cluster.run(text.replace("STATE", "None"), servers[2]))
    assert json.loads(cluster.run(text.replace("STATE", repr(state)), servers[4])) == rest


ENDLESS = (
    OPEN
    + """
seen = []
try:
    with gt.signal.context("rows"):
        while True:
            for step, batch in enumerate(dl):
                seen.append(batch["sample_id"].tolist())
                if len(seen) == 3:
                    print("running", flush=True)
                time.sleep(0.01)
except gt.WorkerLost as error:
    print("lost:", " / ".join(str(error).splitlines()), flush=True)
state = dl.state_dict()
dl.load_state_dict(state)
with gt.signal.context("rows"):
    rest = [digest(b) for b in dl]
print(json.dumps([state["epoch"], rest]))
"""
)


@pytest.mark.parametrize("which", ["home", "another"])
def test_a_lost_worker_is_raised_and_the_loader_goes_on_with_those_that_are_left(
    cluster: Cluster, folder, alone, which
):
    server = cluster.server()
    workers = [cluster.worker(server.port) for _ in range(3)]
    cluster.wait_for_workers(server, 3)
    text = program(folder, ENDLESS).replace(
        'print("running", flush=True)', 'gt.debug.get_worker_stats(); print("running", flush=True)'
    )
    client = cluster.client(text, server.address)
    client.wait_for("running")
    workers[0 if which == "home" else 2].kill()
    printed = client.succeeded().splitlines()
    assert printed[1].startswith("lost: ") and "is lost" in printed[1], printed
    epoch, rest = json.loads(printed[-1])
    # What comes then are the last batches of the epoch it stood in.
    of_epoch = len(alone["batches"]) // 2
    if epoch < 2:
        expected = alone["batches"][epoch * of_epoch : (epoch + 1) * of_epoch]
        assert rest == expected[len(expected) - len(rest) :]
    assert 0 < len(rest) <= of_epoch


def test_a_corrupt_file_names_itself_whoever_reads_it(cluster: Cluster, folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    bad = tmp_path / "hits_5.parquet"
    stat, data = bad.stat(), bytearray(bad.read_bytes())
    data[4:400] = bytes(396)
    bad.write_bytes(data)
    os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    text = (
        OPEN
        + """
    seen = 0
    try:
        with gt.signal.context("rows"):
            for batch in dl:
                seen += 1
    except Exception as error:
        print(type(error).__name__, seen, str(error))
    print(gt.ones(3).sum().item())
    """.replace("\n    ", "\n")
    )
    here = cluster.run(program(tmp_path, text))
    assert "DataError" in here and "hits_5.parquet" in here and here.splitlines()[-1] == "3.0"
    server = cluster.server(workers=2)
    assert cluster.run(program(tmp_path, text), server.address) == here


def test_columns_of_text_are_put_together(cluster: Cluster, tmp_path):
    for file in range(8):
        lines = [json.dumps({"x": file * 20 + i, "name": f"sample {file} {i}"}) for i in range(20)]
        (tmp_path / f"{file}.jsonl").write_text("\n".join(lines) + "\n")
    text = """
    import gt
    gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    dl = gt.data.DataLoader(gt.data.JsonlDataset(FOLDER + "/*.jsonl"), batch_size=33, shuffle=True, generator=0)
    with gt.signal.context("rows"):
        print([(b["x"].tolist(), b["name"]) for b in dl])
    print(min(s["loaded_bytes"] for s in gt.debug.get_worker_stats().values()) > 0)
    """
    server = cluster.server(workers=3)
    here, there = cluster.run(program(tmp_path, text)), cluster.run(program(tmp_path, text), server.address)
    assert there.splitlines()[0] == here.splitlines()[0]
    assert there.splitlines()[1] == "True"


@pytest.mark.parametrize(
    "options", [{"bucket": True}, {"max_tokens": 500}, {"collate": "packed"}, {"shuffle": False}, {"on_error": "skip"}]
)
def test_batches_that_one_worker_has_to_make_are_split_from_there(cluster: Cluster, folder, options):
    text = program(folder, **options)
    server = cluster.server(workers=2)
    told = json.loads(cluster.run(text, server.address))
    assert told["batches"] == json.loads(cluster.run(text))["batches"]
    assert told["loaded"][0] == 0 < told["loaded"][1] == told["stats"]["bytes"]
