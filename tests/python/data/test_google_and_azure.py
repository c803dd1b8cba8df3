"""Data sets in Google's and Azure's stores are the data sets their files are: as from S3, by their own clients.

Google's are asked in XML, which is S3's: its server answers for theirs. Azure's own server for tests comes from npm
(`npm install -g azurite`); without it those tests are skipped.
"""

import shutil

import numpy as np
import pytest
from event_files import write_lists
from object_servers import AzureServer, S3Server

import gt


@pytest.fixture(autouse=True)
def read_here(monkeypatch):
    """A worker has the credentials of its own environment, not of a test's."""
    monkeypatch.setenv("GT_DATA_ON_WORKERS", "0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What every store holds."""
    folder = tmp_path_factory.mktemp("store")
    write_lists(folder / "deep", [20, 17])
    np.save(folder / "x.npy", np.arange(12.0).reshape(4, 3))
    # Longer than what is asked for at once.
    np.save(folder / "long.npy", np.random.default_rng(0).integers(0, 255, (9, 1 << 20), dtype=np.uint8))
    return folder


@pytest.fixture(scope="module")
def google(folder):
    server = S3Server()
    server.put("/box")
    server.upload(folder, "box", **{"x-amz-acl": "public-read"})
    server.put("/box/hidden.npy", (folder / "x.npy").read_bytes())
    yield {"GOOGLE_BASE_URL": server.url, "GOOGLE_SKIP_SIGNATURE": "true"}
    server.stop()


@pytest.fixture(scope="module")
def azure(folder, tmp_path_factory):
    if shutil.which(AzureServer.COMMAND) is None:
        pytest.skip(f"{AzureServer.COMMAND} is not installed: npm install -g azurite")
    server = AzureServer(tmp_path_factory.mktemp("azurite"))
    try:
        server.upload(folder, "box")
        yield {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": server.url}
    finally:
        server.stop()


@pytest.fixture(params=["gs", "az"])
def store(request, monkeypatch):
    """The URL of a store."""
    for name, value in request.getfixturevalue({"gs": "google", "az": "azure"}[request.param]).items():
        monkeypatch.setenv(name, value)
    return f"{request.param}://box"


def contents(dataset):
    options = {"batch_size": 8, "sample_ids": True, "shuffle": True, "generator": 3, "num_workers": 2}
    return [{name: value.tolist() for name, value in b.items()} for b in gt.data.DataLoader(dataset, **options)]


def test_files_folders_and_patterns(store, folder):
    here = contents(gt.data.ParquetDataset(folder / "deep"))
    for pattern in ("deep", "deep/*.parquet", "*/part_?.parquet", "**/*.parquet"):
        there = gt.data.ParquetDataset(f"{store}/{pattern}")
        assert there.files == [f"{store}/deep/part_{n}.parquet" for n in range(2)]
        assert contents(there) == here
    assert contents(gt.data.open(f"{store}/x.npy")) == contents(gt.data.open(folder / "x.npy"))


def test_a_long_range_is_read_in_pieces(store, folder):
    (there,) = gt.data.DataLoader(gt.data.open(f"{store}/long.npy"), batch_size=9)
    (here,) = gt.data.DataLoader(gt.data.open(folder / "long.npy"), batch_size=9)
    assert all(np.array_equal(there[name].numpy(), here[name].numpy()) for name in here)


def test_what_is_not_there_is_named(store):
    with pytest.raises(FileNotFoundError, match=rf"^{store}/nothing\.npy"):
        gt.data.open(f"{store}/nothing.npy")
    elsewhere = store.replace("box", "no-such-box")
    with pytest.raises(FileNotFoundError, match=f"^{elsewhere}"):
        gt.data.open(f"{elsewhere}/*.npy")


def test_what_may_not_be_read_is_named(google, monkeypatch):
    for name, value in google.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PermissionError, match=r"^gs://box/hidden\.npy"):
        gt.data.open("gs://box/hidden.npy")


def test_a_wrong_key_is_a_denial(azure, monkeypatch):
    for name, value in azure.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    with pytest.raises(PermissionError, match=r"^az://box/x\.npy"):
        gt.data.open("az://box/x.npy")
