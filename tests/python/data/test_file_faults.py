"""Files that are missing, cut short, corrupt, different or forbidden: named in the error, or left out and counted."""

import os
import shutil

import numpy as np
import pytest
from event_files import ids_of, write_lists

import gt


@pytest.fixture
def folder(tmp_path):
    write_lists(tmp_path / "data", [10, 10, 10, 10])
    return tmp_path / "data"


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-20])


def scramble_footer(path):
    data = bytearray(path.read_bytes())
    data[-40:-8] = os.urandom(32)
    path.write_bytes(data)


def not_parquet(path):
    path.write_text("not a Parquet file at all, but long enough to look at")


def empty(path):
    path.write_bytes(b"")


def other_type(path):
    gt.data.write_parquet(path, {"id": np.arange(3.0), "hits": [np.ones(1, np.float32)] * 3})


def column_missing(path):
    gt.data.write_parquet(path, {"id": np.arange(3)})


AT_OPENING = [cut_short, scramble_footer, not_parquet, empty, other_type, column_missing]


@pytest.mark.parametrize("damage", AT_OPENING)
def test_a_bad_file_is_named_when_it_is_opened(folder, damage):
    damage(folder / "part_2.parquet")
    with pytest.raises(gt.errors.DataError, match=r"part_2\.parquet"):
        gt.data.ParquetDataset(folder)


@pytest.mark.parametrize("damage", AT_OPENING)
def test_a_bad_file_is_left_out_and_counted_where_that_is_asked_for(folder, damage):
    damage(folder / "part_2.parquet")
    ds = gt.data.ParquetDataset(folder, on_error="skip")
    ((name, why),) = ds.left_out
    assert name.endswith("part_2.parquet") and "part_2.parquet" in why
    dl = gt.data.DataLoader(ds, batch_size=4, shuffle=True, num_workers=2)
    assert sorted(sum((b["id"].tolist() for b in dl), [])) == [*range(20), *range(30, 40)]
    assert dl.stats()["left_out_files"] == 1


def test_a_difference_says_what_it_is(folder):
    other_type(folder / "part_3.parquet")
    with pytest.raises(gt.errors.DataError, match='"id" is float64, but int64 in .*part_0'):
        gt.data.ParquetDataset(folder)
    column_missing(folder / "part_3.parquet")
    with pytest.raises(gt.errors.DataError, match='no column "hits"; the columns are id'):
        gt.data.ParquetDataset(folder)


def scramble_pages(path):
    """The footer is whole, the pages are not; length and time stay, as on a disk that loses bits."""
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def remove(path):
    path.unlink()


def rename(path):
    path.rename(path.with_suffix(".moved"))


def replace(path):
    shutil.copy(path.parent / "part_0.parquet", path)


@pytest.mark.parametrize("damage", [scramble_pages, remove, rename, replace])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_happens_to_a_file_later_is_met_in_its_place(folder, damage, workers):
    ds = gt.data.ParquetDataset(folder)
    damage(folder / "part_2.parquet")
    dl = gt.data.DataLoader(ds, batch_size=5, num_workers=workers, sample_ids=True)
    given = []
    with pytest.raises((OSError, gt.errors.DataError), match=r"part_2\.parquet"):
        for batch in dl:
            given += batch["sample_id"].tolist()
    assert given == list(range(20))
    skipping = gt.data.DataLoader(ds, batch_size=5, num_workers=workers, sample_ids=True, on_error="skip")
    kept = sorted(sum(ids_of(skipping), []))
    if damage is not scramble_pages:
        assert kept == [*range(20), *range(30, 40)]
    assert skipping.stats()["skipped_samples"] == 40 - len(kept) > 0


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.parquet"):
        gt.data.ParquetDataset(tmp_path / "nothing.parquet")
    with pytest.raises(FileNotFoundError, match=r"\*\.parquet"):
        gt.data.ParquetDataset(tmp_path / "*.parquet")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_forbidden_files(folder):
    (folder / "part_1.parquet").chmod(0)
    with pytest.raises(PermissionError, match=r"part_1\.parquet"):
        gt.data.ParquetDataset(folder)


def test_a_folder_in_place_of_a_file(folder):
    (folder / "part_1.parquet").unlink()
    (folder / "part_1.parquet").mkdir()
    with pytest.raises(OSError, match=r"part_1\.parquet"):
        gt.data.ParquetDataset([folder / "part_0.parquet", folder / "part_1.parquet" / "x"])


def test_the_index_is_kept_and_looked_at_again_when_a_file_changes(folder):
    cache = os.environ["GT_CACHE_DIR"]
    first = gt.data.ParquetDataset(folder)
    (entry,) = os.listdir(os.path.join(cache, "data"))
    assert len(gt.data.ParquetDataset(folder)) == len(first) == 40
    gt.data.write_parquet(folder / "part_1.parquet", {"id": np.arange(3), "hits": [np.ones(2, np.float32)] * 3})
    assert len(gt.data.ParquetDataset(folder)) == 33
    # An entry that is damaged is as if it were not there.
    with open(os.path.join(cache, "data", entry), "w") as file:
        file.write('{"version": 1, "content": [')
    assert len(gt.data.ParquetDataset(folder)) == 33


def test_no_index_is_kept_where_that_is_asked_for(folder):
    gt.data.ParquetDataset(folder, index_cache=False)
    assert not os.path.exists(os.path.join(os.environ["GT_CACHE_DIR"], "data"))


def test_a_cache_folder_that_cannot_be_written_is_no_error(folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GT_CACHE_DIR", str(tmp_path / "file"))
    assert len(gt.data.ParquetDataset(folder)) == 40
