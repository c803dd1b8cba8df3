"""Data sets behind URLs are the data sets their files are, wherever they lie."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from event_files import hits, ids_of, write_lists, write_ranges
from object_servers import FileServer, S3Server

import gt

N = 37
KEY = "gt-test-key"
FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(autouse=True)
def read_here(monkeypatch):
    """A worker has the credentials of its own environment, not of a test's."""
    monkeypatch.setenv("GT_DATA_ON_WORKERS", "0")


@pytest.fixture(scope="module")
def s3():
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def bucket(s3, request, monkeypatch, tmp_path):
    """A bucket of the test's own: a folder, its URL, and what makes it hold the folder's files."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:60].strip("-")
    s3.put(f"/{name}")
    folder = tmp_path / "bucket"
    folder.mkdir()
    return folder, f"s3://{name}", lambda: s3.upload(folder, name)


@pytest.fixture
def files():
    server = FileServer()
    yield server
    server.stop()


def write_parquet(folder):
    write_lists(folder, [20, 17])


def write_npy(folder):
    np.save(folder / "x_1.npy", np.random.default_rng(0).random((20, 3)))
    np.save(folder / "x_2.npy", np.random.default_rng(1).random((17, 3)))


def write_safetensors(folder):
    gt.utils.safetensors.save_file({"x": gt.rand(30, 2), "y": gt.arange(30)}, folder / "a.safetensors")
    gt.utils.safetensors.save_file({"x": gt.rand(7, 2), "y": gt.arange(7)}, folder / "b.safetensors")


def write_jsonl(folder):
    for number, part in enumerate((range(20), range(20, N))):
        lines = [json.dumps({"i": i, "hits": hits(i).tolist(), "name": f"n{i}"}) for i in part]
        (folder / f"{number}.jsonl").write_text("\n".join(lines))


def write_tar(folder):
    for shard, part in enumerate((range(20), range(20, N))):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for i in part:
                for ending, content in (("bin", bytes([i]) * 700), ("cls", b"%d" % i), ("txt", b"t%d" % i)):
                    info = tarfile.TarInfo(f"sample{i:03d}.{ending}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))


def write_arrow(folder):
    (folder / "x.arrow").write_bytes((FIXTURES / "batches.arrow").read_bytes())


def write_cache(folder):
    source, made = folder / "from", folder / "to"
    write_lists(source, [20, 17])
    gt.data.DataLoader(gt.data.ParquetDataset(source)).cache(made)
    for file in made.iterdir():
        file.rename(folder / file.name)
    shutil.rmtree(source)
    made.rmdir()


FORMATS = [write_parquet, write_npy, write_safetensors, write_jsonl, write_tar, write_arrow, write_cache]


def contents(dataset, **options):
    """Every batch as plain values."""
    plain = {"batch_size": 8, "sample_ids": True, "shuffle": True, "generator": 3, "num_workers": 2, **options}
    return [
        {name: value.tolist() if isinstance(value, gt.Tensor) else value for name, value in batch.items()}
        for batch in gt.data.DataLoader(dataset, **plain)
    ]


@pytest.mark.parametrize("write", FORMATS)
def test_every_format_is_the_same_from_s3(bucket, write):
    folder, url, upload = bucket
    (folder / "deep").mkdir()
    write(folder / "deep")
    upload()
    here, there = gt.data.open(folder / "deep"), gt.data.open(f"{url}/deep")
    assert type(here) is type(there) and len(there) == N
    assert all(name.startswith(f"{url}/deep/") for name in there.files)
    assert contents(there) == contents(here)
    assert contents(there, num_workers=0) == contents(here)


@pytest.mark.parametrize("write", FORMATS)
@pytest.mark.parametrize("tags", [True, False])
def test_every_format_is_the_same_over_http(files, tmp_path, write, tags):
    write(tmp_path)
    files.put(tmp_path, "/a b")
    files.tags = tags
    if write is write_cache:
        here, there = gt.data.CachedDataset(tmp_path), gt.data.CachedDataset(f"{files.url}/a b")
    else:
        here = gt.data.open(tmp_path)
        there = gt.data.open([f"{files.url}/a%20b/{name}" for name in sorted(os.listdir(tmp_path))])
    assert contents(there) == contents(here)


def test_patterns_and_folders_of_a_bucket(bucket):
    folder, url, upload = bucket
    for below in ("train", "train/deep", "other"):
        (folder / below).mkdir()
        for number in (1, 2, 10):
            gt.data.write_parquet(folder / below / f"part_{number}.parquet", {"x": np.arange(number)})
    (folder / "train" / "notes.txt").write_text("not data")
    upload()

    def found(pattern):
        return [name.removeprefix(url) for name in gt.data.ParquetDataset(url + pattern).files]

    in_train = [f"/train/part_{n}.parquet" for n in (1, 2, 10)]
    assert found("/train/*.parquet") == in_train
    below = [f"/train/deep/part_{n}.parquet" for n in (1, 2, 10)]
    assert found("/train") == found("/train/") == below + in_train
    assert found("/train/part_1*") == [in_train[0], in_train[2]]
    assert found("/train/part_?.parquet") == found("/train/part_[12].parquet") == in_train[:2]
    assert found("/*/part_1.parquet") == ["/other/part_1.parquet", "/train/part_1.parquet"]
    assert len(found("/train/**/*.parquet")) == 6
    with pytest.raises(FileNotFoundError, match=r"no file matches .*/train/\*\.arrow"):
        gt.data.ArrowDataset(f"{url}/train/*.arrow")
    with pytest.raises(ValueError, match="no file has one of the extensions"):
        gt.data.open(f"{url}/nothing")


def test_patterns_over_webdav(files, tmp_path):
    write_lists(tmp_path, [3, 4, 5])
    files.put(tmp_path, "/deep")
    files.lists = True
    ds = gt.data.ParquetDataset(f"{files.url}/deep/part_*.parquet")
    assert ds.files == [f"{files.url}/deep/part_{n}.parquet" for n in range(3)]
    assert contents(ds) == contents(gt.data.ParquetDataset(tmp_path))


def test_a_server_that_lists_nothing_says_so(files):
    with pytest.raises(gt.errors.DataError, match=r"server cannot list files.*name every file"):
        gt.data.ParquetDataset(f"{files.url}/*.parquet")


def test_an_event_table_behind_a_url(bucket):
    folder, url, upload = bucket
    here = write_ranges(folder, [[3, 0, 4], [2, 9, 1, 1]])
    upload()
    ranges = {"first": "first", "last": "last", "file": "batch_id", "columns": ["az"]}
    there = gt.data.ParquetDataset(
        f"{url}/batch_*.parquet",
        events=gt.data.RowRanges(f"{url}/meta.parquet", file_pattern=url + "/batch_{}.parquet", **ranges),
    )
    assert contents(there, batch_size=3) == contents(here, batch_size=3)
    mixed = gt.data.ParquetDataset(
        str(folder / "batch_*.parquet"),
        events=gt.data.RowRanges(f"{url}/meta.parquet", file_pattern=str(folder / "batch_{}.parquet"), **ranges),
    )
    assert contents(mixed, batch_size=3) == contents(here, batch_size=3)


def test_a_state_goes_on_over_a_copy_behind_a_url(bucket):
    folder, url, upload = bucket
    write_parquet(folder)
    upload()
    options = {"batch_size": 5, "shuffle": True, "sample_ids": True, "generator": 1}
    loader = gt.data.DataLoader(gt.data.open(folder), **options)
    steps = iter(loader)
    for _ in range(3):
        next(steps)
    state = loader.state_dict()
    expected = [batch["sample_id"].tolist() for batch in steps]
    again = gt.data.DataLoader(gt.data.open(url), **options)
    again.load_state_dict(state)
    assert ids_of(again) == expected


def test_the_index_is_kept_while_an_object_has_its_tag(files, tmp_path):
    write_parquet(tmp_path)
    files.put(tmp_path)
    urls = [f"{files.url}/part_{n}.parquet" for n in range(2)]
    assert len(gt.data.ParquetDataset(urls)) == N
    assert len(files.gets()) == 2
    assert len(gt.data.ParquetDataset(urls)) == N
    assert len(files.gets()) == 2
    # The same content written again is the same object; other content is not.
    files.written += 10
    assert len(gt.data.ParquetDataset(urls)) == N
    assert len(files.gets()) == 2
    files.content["/part_1.parquet"] = files.content["/part_0.parquet"]
    assert len(gt.data.ParquetDataset(urls)) == 40
    assert files.gets()[2:] and {path for _, path, _ in files.gets()[2:]} == {"/part_1.parquet"}


@pytest.mark.parametrize("write", [write_jsonl, write_tar])
def test_what_a_walk_over_a_file_found_is_kept(files, tmp_path, write):
    write(tmp_path)
    files.put(tmp_path)
    urls = [files.url + path for path in files.content]
    first = gt.data.open(urls)
    asked = len(files.gets())
    again = gt.data.open(urls)
    # Of lines the first are looked at again, as they say what columns hold.
    assert len(files.gets()) - asked == (1 if write is write_jsonl else 0)
    assert contents(again) == contents(first)


def test_parts_of_a_file_that_lie_close_are_asked_for_at_once(files, tmp_path):
    columns = {name: np.arange(1000) for name in "abcdefgh"}
    gt.data.write_parquet(tmp_path / "x.parquet", columns, rows_per_group=500)
    files.put(tmp_path)
    ds = gt.data.ParquetDataset(f"{files.url}/x.parquet")
    asked = len(files.gets())
    assert sum(len(b["a"]) for b in gt.data.DataLoader(ds, batch_size=100, num_workers=2)) == 1000
    # A block is one question; so is the footer with its page index.
    assert len(files.gets()) - asked <= 2 * 2


def test_a_query_goes_with_every_request_and_into_no_error(files, tmp_path):
    write_parquet(tmp_path)
    files.put(tmp_path)
    files.fault = lambda handler: "token=secret" not in handler.path and (handler.say(403) or True)
    ds = gt.data.open(f"{files.url}/part_0.parquet?token=secret")
    assert len(ds) == 20 and ds.files == [f"{files.url}/part_0.parquet"]
    assert len(contents(ds)) == 3
    with pytest.raises(PermissionError, match=r"part_0\.parquet") as denied:
        gt.data.open(f"{files.url}/part_0.parquet?token=wrong")
    assert "token" not in str(denied.value)


def test_credentials_are_those_of_the_environment(files, tmp_path, monkeypatch):
    write_parquet(tmp_path)
    files.put(tmp_path, "/bucket")
    files.fault = lambda handler: KEY not in handler.headers.get("Authorization", "") and (handler.say(403) or True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", files.url)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    assert len(gt.data.open("s3://bucket/part_0.parquet")) == 20
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    for url in ("s3://bucket/part_0.parquet", "s3://bucket/*.parquet"):
        with pytest.raises(PermissionError, match="^s3://bucket"):
            gt.data.open(url)


def test_missing_objects_and_buckets(bucket):
    _, url, _ = bucket
    for missing in (f"{url}/nothing.parquet", "s3://no-such-bucket/x.parquet", "s3://no-such-bucket/*.parquet"):
        with pytest.raises(FileNotFoundError) as raised:
            gt.data.open(missing)
        assert str(raised.value).startswith(missing.removesuffix("/*.parquet"))
    with pytest.raises(ValueError, match="is not a URL"):
        gt.data.ParquetDataset("s3://")


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "gt", "data", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_gt_data_commands_read_urls(bucket, tmp_path):
    folder, url, upload = bucket
    write_parquet(folder)
    upload()
    assert "37 samples in 2 files" in command("index", f"{url}/*.parquet")
    command("shuffle", url, tmp_path / "shuffled", "--files", 2)
    assert len(gt.data.open(tmp_path / "shuffled")) == N
    command("cache", url, folder / "cached")
    upload()
    cached = gt.data.CachedDataset(f"{url}/cached")
    assert [b["id"].tolist() for b in gt.data.DataLoader(cached, batch_size=N)] == [list(range(N))]
    assert "DESIGN EFFECT" in command("bench", url, "--seconds", 1, "--batch-size", 5, "--num-workers", 1)
