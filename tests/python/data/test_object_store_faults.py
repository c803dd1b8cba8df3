"""Servers that forbid, vanish, stall or change what they have: an error that names the URL, soon, and no hang."""

import io
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest
from event_files import ids_of, write_lists
from object_servers import FileServer

import gt

# What a test may take: a few tries with pauses between them, not a server's patience.
SOON_S = 20


@pytest.fixture(autouse=True)
def read_here(monkeypatch):
    """A worker would have settings of its own environment, not those of a test."""
    monkeypatch.setenv("GT_DATA_ON_WORKERS", "0")


@pytest.fixture
def files(tmp_path):
    server = FileServer()
    write_lists(tmp_path, [10, 10, 10, 10])
    server.put(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def bucket(files, monkeypatch):
    """The files as a bucket's: an object of it is a path of the server."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", files.url)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    files.content = {f"/bucket{path}": content for path, content in files.content.items()}
    return "s3://bucket"


@pytest.fixture(params=["http", "s3"])
def url(request, files):
    """The files by either protocol."""
    return files.url if request.param == "http" else request.getfixturevalue("bucket")


def parts(url):
    return [f"{url}/part_{n}.parquet" for n in range(4)]


def in_part(path, number):
    return path.endswith(f"part_{number}.parquet")


def says(status, number=2):
    """A fault: one file's requests are answered so."""
    return lambda handler: in_part(handler.path, number) and (handler.say(status) or True)


@pytest.mark.parametrize(
    "status, error", [(404, FileNotFoundError), (403, PermissionError), (401, PermissionError), (500, OSError)]
)
def test_an_answer_that_refuses_names_the_file(files, url, status, error):
    files.fault = says(status)
    begun = time.monotonic()
    with pytest.raises(error, match=f"^{url}/part_2.parquet: "):
        gt.data.ParquetDataset(parts(url))
    ds = gt.data.ParquetDataset(parts(url), on_error="skip")
    assert [name for name, _ in ds.left_out] == [f"{url}/part_2.parquet"]
    assert len(ds) == 30
    assert time.monotonic() - begun < SOON_S


def test_a_server_that_stumbles_is_asked_again(files, url):
    failed = set()

    def once(handler):
        request = (handler.path, handler.headers.get("Range"))
        if request in failed:
            return False
        failed.add(request)
        handler.say(503)
        return True

    files.fault = once
    assert sorted(sum(ids_of(gt.data.DataLoader(gt.data.open(parts(url)), batch_size=8, sample_ids=True)), [])) == list(
        range(40)
    )
    assert failed


def test_nobody_listens(url, files):
    files.stop()
    begun = time.monotonic()
    with pytest.raises(OSError, match=rf"^{url}/part_0.parquet: .*[Rr]efused"):
        gt.data.open(parts(url))
    assert time.monotonic() - begun < SOON_S


def read_until_error(ds, workers, match):
    """The samples before an error that must come."""
    given = []
    begun = time.monotonic()
    with pytest.raises((OSError, gt.errors.DataError), match=match):
        for batch in gt.data.DataLoader(ds, batch_size=5, num_workers=workers, sample_ids=True):
            given += batch["sample_id"].tolist()
    assert time.monotonic() - begun < SOON_S
    return given


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("tags", [True, False])
def test_a_file_that_changes_later_is_an_error_in_its_place(files, workers, tags):
    files.tags = tags
    ds = gt.data.open(parts(files.url))
    path = "/part_2.parquet"
    # Longer, or shorter than what was to be read.
    for changed in (files.content[path] + b"more", files.content[path][:20]):
        files.content[path] = changed
        assert read_until_error(ds, workers, r"part_2\.parquet: the file changed") == list(range(20))
        loader = gt.data.DataLoader(ds, batch_size=5, num_workers=workers, sample_ids=True, on_error="skip")
        assert sorted(sum(ids_of(loader), [])) == [*range(20), *range(30, 40)]
        assert loader.stats()["skipped_samples"] == 10


@pytest.mark.parametrize("tags", [True, False])
def test_an_answer_that_is_cut_short(files, tags):
    files.tags = tags
    ds = gt.data.open(parts(files.url))

    def cut(handler):
        if handler.command != "GET" or not in_part(handler.path, 2):
            return False
        handler.send_response(206)
        first, last = handler.headers["Range"].removeprefix("bytes=").split("-")
        content = files.content["/part_2.parquet"]
        handler.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        handler.send_header("Content-Length", str(int(last) - int(first) + 1))
        handler.end_headers()
        handler.wfile.write(content[int(first) : int(first) + 10])
        handler.close_connection = True
        return True

    files.fault = cut
    assert read_until_error(ds, 1, r"^http://.*part_2\.parquet: ") == list(range(20))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_server_that_goes_away_in_the_middle(files, workers):
    ds = gt.data.open(parts(files.url))

    def go(handler):
        if in_part(handler.path, 2):
            files.socket.close()
            handler.connection.shutdown(socket.SHUT_RDWR)
        return in_part(handler.path, 2)

    files.fault = go
    given = read_until_error(ds, workers, r"^http://.*part_2\.parquet: ")
    assert given == list(range(20))


def test_a_server_that_falls_silent(files, bucket, monkeypatch):
    monkeypatch.setenv("AWS_TIMEOUT", "1 second")
    ds = gt.data.open(parts(bucket))
    quiet = threading.Event()
    files.fault = lambda handler: in_part(handler.path, 2) and (quiet.wait(60) or True)
    try:
        assert read_until_error(ds, 1, r"part_2\.parquet: .*timed out") == list(range(20))
    finally:
        quiet.set()


def test_a_server_that_gives_no_parts(files):
    files.ranges = False
    with pytest.raises(OSError, match=r"part_0\.parquet: the server does not support range requests"):
        gt.data.open(parts(files.url))


def test_content_that_is_no_parquet(files):
    files.content["/part_2.parquet"] = os.urandom(500)
    with pytest.raises(gt.errors.DataError, match=r"^http://.*part_2\.parquet: .*corrupt"):
        gt.data.open(parts(files.url))


@pytest.mark.parametrize("stage", ["opening", "reading", "reading with threads"])
def test_an_interrupt_ends_the_wait_for_a_silent_server(stage):
    """The server takes the question and never answers."""
    server, quiet = FileServer(), threading.Event()
    try:
        array = io.BytesIO()
        np.save(array, np.arange(1000))
        server.content["/x.npy"] = array.getvalue()
        waiting = threading.Event()

        def silent(handler):
            waiting.set()
            quiet.wait(60)
            return True

        def interrupt():
            waiting.wait(30)
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)

        def work():
            if stage == "opening":
                server.fault = silent
            ds = gt.data.open(f"{server.url}/x.npy")
            server.fault = silent
            list(gt.data.DataLoader(ds, batch_size=10, num_workers=1 if stage.endswith("threads") else 0))

        thread = threading.Thread(target=interrupt)
        thread.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            work()
        assert time.monotonic() - begun < SOON_S
        thread.join()
    finally:
        quiet.set()
        server.stop()


def test_a_forked_child_is_told_so_and_the_parent_goes_on(files):
    ds = gt.data.open(parts(files.url))
    loader = gt.data.DataLoader(ds, batch_size=5, sample_ids=True)
    assert len(ids_of(loader)) == 8
    child = os.fork()
    if child == 0:
        try:
            try:
                ids_of(gt.data.DataLoader(ds, batch_size=5, sample_ids=True))
                os._exit(1)
            except (OSError, RuntimeError) as e:
                os._exit(0 if "forked" in str(e) else 2)
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(ids_of(loader)) == 8


def test_a_name_that_no_one_knows():
    with pytest.raises(OSError, match=r"^http://[^ ]*/x\.npy: "):
        gt.data.open("http://nowhere.invalid/x.npy")


def test_a_port_that_speaks_no_http():
    with socket.create_server(("127.0.0.1", 0)) as odd:

        def answer():
            odd.settimeout(10)
            while True:
                try:
                    connection, _ = odd.accept()
                except OSError:
                    return
                connection.recv(1000)
                connection.sendall(b"hello, this is not HTTP\r\n\r\n")
                connection.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(OSError, match=r"/x\.npy: "):
            gt.data.open(f"http://127.0.0.1:{odd.getsockname()[1]}/x.npy")
