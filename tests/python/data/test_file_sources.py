"""Every format gives the same batches; caches and rewritten files hold what they were made of."""

import io
import json
import os
import pickle
import resource
import subprocess
import sys
import tarfile
import warnings

import numpy as np
import pytest
from event_files import hits, write_lists

import gt

N = 37


def batches(dataset, **options):
    return list(gt.data.DataLoader(dataset, **{"batch_size": 8, "sample_ids": True, **options}))


def rows(dataset, name, **options):
    """A column by sample."""
    found = {}
    for batch in batches(dataset, **options):
        values = batch[name].tolist() if isinstance(batch[name], gt.Tensor) else batch[name]
        cut = batch["lengths"].tolist() if "lengths" in batch and batch[name].dim() > 1 else [None] * len(values)
        found |= {i: v if n is None else v[:n] for i, v, n in zip(batch["sample_id"].tolist(), values, cut)}
    return [found[i] for i in sorted(found)]


def test_npy(tmp_path):
    x = np.random.default_rng(0).random((N, 3)).astype(np.float32)
    np.save(tmp_path / "x_1.npy", x[:20])
    np.save(tmp_path / "x_2.npy", x[20:])
    np.save(tmp_path / "y.npy", np.arange(N, dtype=np.uint16))
    ds = gt.data.NpyDataset({"x": tmp_path / "x_*.npy", "y": tmp_path / "y.npy"})
    assert rows(ds, "x", shuffle=True, num_workers=1) == x.tolist() and rows(ds, "y") == list(range(N))
    assert rows(gt.data.open(tmp_path / "y.npy"), "data") == list(range(N))
    np.save(tmp_path / "y.npy", np.arange(N - 1))
    with pytest.raises(ValueError, match='"y" has 36 samples, but "x" has 37'):
        gt.data.NpyDataset({"x": tmp_path / "x_*.npy", "y": tmp_path / "y.npy"})
    np.save(tmp_path / "y.npy", np.asfortranarray(x))
    with pytest.raises(gt.errors.DataError, match=r"y\.npy.*column-major"):
        gt.data.NpyDataset(tmp_path / "y.npy")
    (tmp_path / "y.npy").write_bytes((tmp_path / "x_1.npy").read_bytes()[:-1])
    with pytest.raises(gt.errors.DataError, match=r"y\.npy"):
        gt.data.NpyDataset(tmp_path / "y.npy")


def test_safetensors(tmp_path):
    x = gt.rand(N, 2, 2)
    gt.utils.safetensors.save_file({"x": x[:30], "y": gt.arange(30)}, tmp_path / "a.safetensors")
    gt.utils.safetensors.save_file({"x": x[30:], "y": gt.arange(30, N)}, tmp_path / "b.safetensors")
    ds = gt.data.open(tmp_path)
    assert isinstance(ds, gt.data.SafetensorsDataset)
    assert rows(ds, "x", shuffle=True) == x.tolist() and rows(ds, "y") == list(range(N))
    gt.utils.safetensors.save_file({"x": gt.zeros(3)}, tmp_path / "c.safetensors")
    with pytest.raises(gt.errors.DataError, match=r"c\.safetensors"):
        gt.data.open(tmp_path)


def test_jsonl(tmp_path):
    lines = [json.dumps({"i": i, "hits": hits(i).tolist(), "name": f"n{i}", "p": [[i, i + 1.5]] * 2}) for i in range(N)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines[:20]) + "\n\n")
    (tmp_path / "b.jsonl").write_text("\n".join(lines[20:]))
    ds = gt.data.open(tmp_path)
    assert rows(ds, "i", shuffle=True, num_workers=2, ragged="each") == list(range(N))
    ds = gt.data.JsonlDataset(tmp_path, columns=["hits", "name"])
    assert rows(ds, "hits") == [hits(i).tolist() for i in range(N)]
    assert [b["name"] for b in batches(ds)][0] == [f"n{i}" for i in range(8)]
    (batch,) = batches(gt.data.JsonlDataset(tmp_path, columns=["p"]), batch_size=N)
    assert batch["p"].shape == (N, 2, 2)
    (tmp_path / "b.jsonl").write_text("\n".join([lines[20], "{broken", lines[21]]))
    with pytest.raises(gt.errors.DataError, match=r"b\.jsonl.*line 2"):
        batches(gt.data.JsonlDataset(tmp_path), ragged="each")


def test_jsonl_nulls(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": 1.5, "k": 1}\n{"x": null, "k": null}\n{"k": 3}\n')
    with pytest.raises(gt.errors.DataError, match="line 2.*null_value"):
        batches(gt.data.JsonlDataset(tmp_path / "a.jsonl"))
    ds = gt.data.JsonlDataset(tmp_path / "a.jsonl", null_value={"k": -1})
    assert np.isnan(rows(ds, "x")[1:]).all() and rows(ds, "k") == [1, -1, 3]


def test_webdataset(tmp_path):
    for shard, part in enumerate((range(20), range(20, N))):
        with tarfile.open(tmp_path / f"shard-{shard}.tar", "w") as tar:
            for i in part:
                for ending, content in (
                    ("jpg", os.urandom(3) + bytes([i])),
                    ("cls", str(i).encode()),
                    ("txt", b"t%d" % i),
                ):
                    info = tarfile.TarInfo(f"{'long/' * 40}sample{i:03d}.{ending}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    ds = gt.data.open(tmp_path / "shard-*.tar")
    assert rows(ds, "cls", shuffle=True, num_workers=1) == list(range(N))
    (batch,) = batches(ds, batch_size=N)
    assert batch["txt"] == [f"t{i}" for i in range(N)] and [b[3] for b in batch["jpg"]] == list(range(N))
    assert batch["__key__"][4].endswith("sample004")
    whole = (tmp_path / "shard-1.tar").read_bytes()
    (tmp_path / "shard-1.tar").write_bytes(whole[: whole.rindex(b"sample036.jpg") + 100])
    with pytest.raises(gt.errors.DataError, match=r"shard-1\.tar"):
        gt.data.open(tmp_path / "shard-*.tar")


@pytest.fixture
def lists(tmp_path):
    write_lists(tmp_path / "data", [20, 17])
    return tmp_path / "data"


def test_cache(lists, tmp_path):
    ds = gt.data.ParquetDataset(lists)
    dl = gt.data.DataLoader(ds, transforms=[gt.data.col("hits") * 2], max_len=6, dtypes={"hits": gt.float16})
    cached = dl.cache(tmp_path / "cached")
    assert isinstance(gt.data.open(tmp_path / "cached"), gt.data.CachedDataset) and len(cached) == N
    expected = [(hits(i)[:6] * 2).astype(np.float16).tolist() for i in range(N)]
    assert rows(cached, "hits", shuffle=True, num_workers=2) == expected
    assert batches(cached)[0]["hits"].dtype == gt.float16
    with pytest.raises(ValueError, match="exists and is not empty"):
        dl.cache(tmp_path / "cached")
    (tmp_path / "cached" / "1.npy").write_bytes(b"cut")
    with pytest.raises(gt.errors.DataError, match=r"1\.npy"):
        gt.data.CachedDataset(tmp_path / "cached")


def run(*arguments, **options):
    command = [sys.executable, "-m", "gt", "data", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_gt_data_index(lists):
    done = run("index", lists)
    assert done.returncode == 0, done.stderr
    assert "37 samples in 2 files" in done.stdout and "list of float32" in done.stdout
    wrong = run("index", lists / "nothing.parquet")
    assert wrong.returncode == 1 and "nothing.parquet: no such file" in wrong.stderr


def test_gt_data_shuffle(lists, tmp_path):
    done = run("shuffle", lists, tmp_path / "new", "--files", 3, "--seed", 4)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "new")) == [f"part_{i}.parquet" for i in range(3)]
    ds = gt.data.ParquetDataset(tmp_path / "new")
    ids = rows(ds, "id")
    assert sorted(ids) == list(range(N)) and ids != sorted(ids)
    assert rows(ds, "hits") == [hits(i).tolist() for i in ids]
    again = run("shuffle", lists, tmp_path / "again", "--rows-per-file", 13, "--seed", 4, "--memory-budget", "1kB")
    assert again.returncode == 0, again.stderr
    assert sorted(rows(gt.data.ParquetDataset(tmp_path / "again"), "id")) == list(range(N))


def test_gt_data_cache(lists, tmp_path):
    done = run("cache", lists, tmp_path / "c", "--after-transforms", "hits:add=1,mul=0.5", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    assert rows(gt.data.open(tmp_path / "c"), "hits") == [((hits(i) + 1) * 0.5).tolist() for i in range(N)]
    wrong = run("cache", lists, tmp_path / "d", "--after-transforms", "hits:twist")
    assert wrong.returncode == 2 and "twist" in wrong.stderr


def full_disk():
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize("command", ["cache", "shuffle"])
def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path, command):
    columns = {"x": np.random.default_rng(0).random((500, 8))}
    gt.data.write_parquet(tmp_path / "x.parquet", columns)
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(command, tmp_path / "x.parquet", tmp_path / "out", preexec_fn=full_disk, env=env)
    assert done.returncode != 0
    left = [os.path.join(d, f) for d, _, files in os.walk(tmp_path) for f in files]
    assert left == [str(tmp_path / "x.parquet")], done.stderr


def test_gt_data_bench(lists):
    done = run(
        "bench", lists, "--shuffle", "off,files,pool,full", "--num-workers", "0,1", "--batch-size", 5, "--seconds", 1
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 9 and "DESIGN EFFECT" in done.stdout


def test_open_says_what_it_does_not_know(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match=r"x\.csv: no file has one of the extensions parquet"):
        gt.data.open(tmp_path / "x.csv")


def test_columns_that_are_not_read_are_warned_of(tmp_path):
    rows = ['{"x": 1, "y": {"a": 1}}', '{"x": 2, "y": {"a": 2}}']
    (tmp_path / "x.jsonl").write_text("\n".join(rows) + "\n")
    with pytest.warns(
        UserWarning, match=r"x\.jsonl: column \"y\".*skipping these columns \(set columns= to hide this warning\): y"
    ) as told:
        ds = gt.data.JsonlDataset(tmp_path / "x.jsonl")
    assert ds.columns == ["x"] and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gt.data.JsonlDataset(tmp_path / "x.jsonl", columns=["x"]).columns == ["x"]
        assert len(pickle.loads(pickle.dumps(ds))) == 2
