"""Samples of files by their number, and PyTorch's way of loading over them."""

import copy
import json
import os
import pickle

import numpy as np
import pytest
from event_files import hits, length, write_lists, write_ranges

import gt
from gt.data import BlockShuffleSampler, ConcatDataset, DataLoader, FileLoader, ParquetDataset, Subset, random_split

pytestmark = pytest.mark.transport


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    return ParquetDataset(write_lists(tmp_path_factory.mktemp("samples"), [20, 1, 33, 7]))


def ids(items):
    """A `collate_fn` that worker processes can import."""
    return [int(item["id"]) for item in items]


def test_a_sample_is_a_dict_of_arrays_and_numbers(lists):
    assert len(lists) == 61
    for i in (0, 19, 20, 21, 60, -1, np.int64(5), gt.tensor(7)):
        number = int(i) % 61
        sample = lists[i]
        assert sample["id"] == number and isinstance(sample["id"], np.int64)
        np.testing.assert_array_equal(sample["hits"], hits(number))
        assert sample["hits"].dtype == np.float32 and sample["hits"].flags.writeable
    assert ids(lists[3:-50:2]) == [3, 5, 7, 9] and lists[5:5] == []
    assert ids(list(lists)) == list(range(61))
    for wrong in (61, -62):
        with pytest.raises(IndexError, match="out of range for a data set of 61 samples"):
            lists[wrong]
    with pytest.raises(TypeError):
        lists["id"]


def test_samples_of_row_ranges_are_numbered_as_they_are_stored(tmp_path):
    data = write_ranges(tmp_path, [[3, 4, 0, 2], [6, 1]])
    (batch,) = DataLoader(data, batch_size=6)
    for i, sample in enumerate(data):
        n = len(sample["v"])
        assert n == batch["lengths"][i].item() and sample["az"] == i / 2
        assert sample["v"].tolist() == batch["v"][i, :n].tolist() and sample["odd"].dtype == np.bool_


def test_every_kind_of_column_has_its_value(tmp_path):
    rows = [{"text": f"é{i}", "x": i, "y": [i] * i} for i in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = gt.data.open(tmp_path / "rows.jsonl")
    assert [{**s, "x": int(s["x"]), "y": s["y"].tolist()} for s in data] == rows
    np.save(tmp_path / "grid.npy", np.arange(24, dtype=np.uint16).reshape(4, 2, 3))
    grid = gt.data.NpyDataset({"grid": tmp_path / "grid.npy"})
    np.testing.assert_array_equal(grid[2]["grid"], np.arange(12, 18).reshape(2, 3))
    assert DataLoader(grid, batch_size=2).dataset[0]["grid"].dtype == np.int32, "as in a batch"
    halves = {"h": gt.tensor([1.5, -2.0]).bfloat16()}
    gt.utils.safetensors.save_file(halves, str(tmp_path / "h.safetensors"))
    assert [float(s["h"]) for s in gt.data.open(tmp_path / "h.safetensors")] == [1.5, -2.0]


def test_blocks_are_decoded_anew_only_where_the_budget_forces_it(tmp_path):
    path = tmp_path / "x.parquet"
    gt.data.write_parquet(path, {"x": np.arange(40)}, rows_per_group=10)
    data, small = ParquetDataset(path), ParquetDataset(path)
    small.memory_budget = 1
    assert [int(d[i]["x"]) for d in (data, small) for i in (1, 11, 2)] == [1, 11, 2] * 2
    os.truncate(path, 100)
    assert int(data[3]["x"]) == 3 and int(data[12]["x"]) == 12
    assert int(small[4]["x"]) == 4, "the last one is kept whatever it takes"
    for dataset, i in ((data, 25), (small, 12)):
        with pytest.raises((gt.errors.DataError, OSError), match=r"x\.parquet"):
            dataset[i]
    small.memory_budget = "much"
    with pytest.raises(ValueError, match="memory_budget should be a size"):
        small[0]


def test_a_pickled_data_set_opens_the_same_files(lists, tmp_path):
    for again in (pickle.loads(pickle.dumps(lists)), copy.deepcopy(lists)):
        assert repr(again) == repr(lists) and ids(again) == ids(lists)
    gt.data.write_parquet(tmp_path / "x.parquet", {"x": [1, 2]})
    kept = pickle.dumps(ParquetDataset(tmp_path / "x.parquet"))
    gt.data.write_parquet(tmp_path / "x.parquet", {"x": [1, 2, 3]})
    with pytest.raises(ValueError, match="have changed since it was pickled"):
        pickle.loads(kept)


def test_a_copy_of_a_loader_of_files_goes_on_like_the_loader(lists):
    def ids_of(dl):
        return [batch["id"].tolist() for batch in dl]

    dl = DataLoader(lists, batch_size=8, shuffle=True, num_workers=1, generator=gt.Generator().manual_seed(3))
    running = iter(dl)
    next(running)
    copies = [copy.deepcopy(dl), copy.copy(dl), pickle.loads(pickle.dumps(dl))]
    assert all(other.state_dict() == dl.state_dict() for other in copies)
    expected = ids_of(dl)
    assert all(ids_of(other) == expected for other in copies)
    assert len(list(running)) == 7, "it has threads of its own"


def test_parts_and_sums_of_data_sets(lists):
    first, second = random_split(lists, [0.5, 0.5], generator=gt.Generator().manual_seed(0))
    assert sorted(ids(first) + ids(second)) == list(range(61))
    assert ids(Subset(lists, [5, 2])) == [5, 2]
    both = lists + lists
    assert isinstance(both, ConcatDataset) and ids([both[0], both[61], both[-1]]) == [0, 0, 60]
    batches = DataLoader(Subset(lists, range(0, 61, 3)), batch_size=4, collate_fn=ids)
    assert sum(batches, []) == list(range(0, 61, 3))


@pytest.mark.parametrize("workers", [0, 2])
def test_python_may_make_the_batches(lists, workers):
    in_order = DataLoader(lists, batch_size=8, collate_fn=ids, num_workers=workers)
    assert not isinstance(in_order, FileLoader) and sum(in_order, []) == list(range(61))
    shuffled = DataLoader(lists, 8, True, collate_fn=ids, num_workers=workers, generator=3)
    assert isinstance(shuffled.sampler, BlockShuffleSampler)
    first, second = list(shuffled), list(shuffled)
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(61)) and first != second
    shuffled.set_epoch(0)
    batches = iter(shuffled)
    assert [next(batches) for _ in range(3)] == first[:3]
    again = DataLoader(lists, 8, True, collate_fn=ids, generator=3)
    again.load_state_dict(shuffled.state_dict())
    assert list(again) == first[3:]


def test_samplers_and_single_samples(lists):
    chosen = DataLoader(lists, batch_size=2, sampler=[3, 1, 2], collate_fn=ids)
    assert list(chosen) == [[3, 1], [2]]
    chosen = DataLoader(lists, batch_sampler=[[4, 5], [6]], collate_fn=ids)
    assert list(chosen) == [[4, 5], [6]]
    single = list(DataLoader(lists, batch_size=None))
    assert [sample["id"].item() for sample in single] == list(range(61))
    assert [len(sample["hits"]) for sample in single] == [length(i) for i in range(61)]
    plain = DataLoader(lists, 4, False, [0, 1])
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(plain)
    with pytest.raises(
        TypeError, match="shuffle_pool= works only when GT's threads make the batches; with collate_fn= Python"
    ):
        DataLoader(lists, 8, collate_fn=ids, shuffle_pool=4)
    with pytest.raises(
        TypeError, match="bucket= works only when GT's threads make the batches; with batch_size=None Python"
    ):
        DataLoader(lists, None, bucket=True)


def test_a_forked_child_reads_samples_beside_a_running_gt(lists):
    total = gt.ones(100).sum()
    assert lists[0]["id"] == 0
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps([int(lists[i]["id"]) for i in (0, 30, 60)]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert json.loads(os.read(read, 100)) == [0, 30, 60]
    assert total.item() == 100 and lists[60]["id"] == 60
