"""`DataLoader` over files: order, contents, resume, threads."""

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from event_files import hits, ids_of, length, write_lists, write_ranges

import gt

SHUFFLES = [
    {"shuffle": False},
    {"shuffle": True},
    {"shuffle": True, "shuffle_pool": 5, "lanes": 2},
    {"shuffle": True, "shuffle_pool": "files"},
    {"shuffle": True, "shuffle_pool": "full"},
]
CUTS = [
    {"batch_size": 8},
    {"batch_size": 8, "drop_last": True},
    {"batch_size": 8, "bucket": True},
    {"batch_size": None, "max_tokens": 40},
    {"batch_size": 6, "max_tokens": 40, "bucket": True},
    {"batch_size": 6, "max_tokens": 40, "collate": "packed"},
]


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    return gt.data.ParquetDataset(write_lists(tmp_path_factory.mktemp("lists"), [20, 1, 33, 50, 7]))


def loader(dataset, **options):
    return gt.data.DataLoader(dataset, **{"generator": 3, "sample_ids": True, "batch_size": 8, **options})


@pytest.mark.transport
@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_every_sample_exactly_once_and_in_the_same_order_whatever_the_threads(lists, shuffle, cut):
    first = ids_of(loader(lists, **shuffle, **cut))
    seen = sorted(itertools.chain(*first))
    if cut.get("drop_last"):
        assert len(seen) == len(lists) // 8 * 8 and len(set(seen)) == len(seen)
    else:
        assert seen == list(range(len(lists)))
    for workers, prefetch, budget in ((1, 1, "2GiB"), (2, 3, "1kB"), (5, 2, "2GiB")):
        other = loader(lists, num_workers=workers, prefetch_factor=prefetch, memory_budget=budget, **shuffle, **cut)
        if shuffle.get("shuffle") and "shuffle_pool" not in shuffle:
            # How many blocks "auto" mixes follows from the budget, and the order from that.
            other.load_state_dict(loader(lists, **shuffle, **cut).state_dict())
        assert ids_of(other) == first


@pytest.mark.transport
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_resume_gives_exactly_the_rest(lists, cut):
    whole = ids_of(loader(lists, shuffle=True, shuffle_pool=4, **cut))
    for stop in range(len(whole)):
        saved = loader(lists, shuffle=True, shuffle_pool=4, num_workers=stop % 3, **cut)
        for _ in itertools.islice(saved, stop):
            pass
        state = json.loads(json.dumps(saved.state_dict()))
        assert len(json.dumps(state)) < 1024
        # Another seed and another pool: the state brings its own.
        resumed = loader(lists, shuffle=True, generator=99, num_workers=(stop + 1) % 3, **cut)
        resumed.load_state_dict(state)
        assert ids_of(resumed) == whole[stop:]


@pytest.mark.transport
def test_a_state_after_the_last_batch_begins_the_next_epoch(lists):
    one, two = loader(lists, shuffle=True), loader(lists, shuffle=True)
    ids_of(one)
    two.load_state_dict(one.state_dict())
    assert ids_of(two) == ids_of(one)


@pytest.mark.transport
def test_a_state_of_other_files_or_other_batches_is_refused(lists, tmp_path):
    other = gt.data.ParquetDataset(write_lists(tmp_path / "other", [5, 6]))
    with pytest.raises(ValueError, match="other files"):
        loader(other).load_state_dict(loader(lists).state_dict())
    with pytest.raises(ValueError, match="other batch settings"):
        loader(lists, bucket=True).load_state_dict(loader(lists).state_dict())


@pytest.mark.transport
def test_a_plain_state_resumes_with_another_batch_size(lists):
    saved = loader(lists, shuffle=True, shuffle_pool=4)
    given = list(itertools.chain(*(b["sample_id"].tolist() for b in itertools.islice(saved, 3))))
    resumed = loader(lists, shuffle=True, batch_size=5)
    resumed.load_state_dict(saved.state_dict())
    rest = list(itertools.chain(*ids_of(resumed)))
    whole = list(itertools.chain(*ids_of(loader(lists, shuffle=True, shuffle_pool=4))))
    # Inside a batch samples come lane by lane, so the order of the same samples depends on where batches end.
    assert given == whole[: len(given)] and sorted(rest) == sorted(whole[len(given) :])


@pytest.mark.transport
def test_each_epoch_has_its_own_order(lists):
    dl = loader(lists, shuffle=True)
    first, second = ids_of(dl), ids_of(dl)
    assert first != second and sorted(sum(first, [])) == sorted(sum(second, []))
    dl.set_epoch(0)
    assert ids_of(dl) == first
    next(iter(dl))
    # An epoch that was begun and left is over, as in PyTorch.
    assert ids_of(dl) not in (first, second)
    assert ids_of(loader(lists, shuffle=True, generator=4)) != first


@pytest.mark.transport
def test_the_seed_comes_from_manual_seed(lists):
    gt.manual_seed(5)
    one = ids_of(loader(lists, shuffle=True, generator=None))
    gt.manual_seed(5)
    assert ids_of(loader(lists, shuffle=True, generator=None)) == one
    gt.manual_seed(6)
    assert ids_of(loader(lists, shuffle=True, generator=None)) != one


@pytest.mark.transport
def test_padded_batches(lists):
    dl = loader(lists, shuffle=True, num_workers=1, pad_value={"hits": -1}, pad_to_multiple_of=4)
    for batch in dl:
        ids = batch["sample_id"].tolist()
        assert batch["id"].tolist() == ids and batch["id"].dtype == gt.int64
        assert batch["lengths"].tolist() == [length(i) for i in ids] and batch["lengths"].dtype == gt.int64
        padded, mask = batch["hits"].numpy(), batch["mask"].numpy()
        assert padded.shape == mask.shape and padded.shape[1] % 4 == 0 and batch["mask"].dtype == gt.bool
        for row, i in enumerate(ids):
            np.testing.assert_array_equal(padded[row, : length(i)], hits(i))
            assert (padded[row, length(i) :] == -1).all()
            assert mask[row].sum() == length(i) and mask[row, : length(i)].all()


@pytest.mark.transport
def test_packed_batches(lists):
    for batch in loader(lists, shuffle=True, collate="packed", dtypes={"hits": gt.float64}):
        ids = batch["sample_id"].tolist()
        assert batch["hits"].dtype == gt.float64
        np.testing.assert_array_equal(batch["hits"].numpy(), np.concatenate([hits(i) for i in ids]))
        assert batch["cu_seqlens"].tolist() == np.cumsum([0] + [length(i) for i in ids]).tolist()


@pytest.mark.transport
def test_long_samples_are_cut_or_thinned_out(lists):
    cut = {i: row for b in loader(lists, max_len=5) for i, row in zip(b["sample_id"].tolist(), b["hits"].tolist())}
    assert all(cut[i][: min(length(i), 5)] == hits(i)[:5].tolist() for i in cut)
    thinned = [
        {i: row[:n] for b in dl for i, n, row in zip(*(b[k].tolist() for k in ("sample_id", "lengths", "hits")))}
        for dl in (loader(lists, max_len=5, outliers="subsample", num_workers=k, shuffle=bool(k)) for k in (0, 2))
    ]
    assert thinned[0] == thinned[1]
    for i, row in thinned[0].items():
        assert len(row) == min(length(i), 5) and row == sorted(row) and set(row) <= set(hits(i).tolist())
    assert any(row != hits(i)[:5].tolist() for i, row in thinned[0].items())


@pytest.mark.transport
def test_long_samples_split_into_rows(lists):
    joined = {}
    for batch in loader(lists, max_len=5, outliers="split", num_workers=2, shuffle=True):
        assert batch["hits"].shape[1] <= 5 and len(batch["id"]) == len(batch["hits"])
        for i, n, row in zip(*(batch[k].tolist() for k in ("sample_id", "lengths", "hits"))):
            joined[i] = joined.get(i, []) + row[:n]
    assert joined == {i: hits(i).tolist() for i in range(len(lists))}
    with pytest.raises(ValueError, match="whole samples"):
        loader(lists, max_len=5, outliers="split").cache("never")


@pytest.mark.transport
def test_buckets_save_padding_and_tokens_are_a_limit(lists):
    def padding(**options):
        batches = list(loader(lists, shuffle=True, **options))
        return 1 - sum(b["mask"].sum().item() for b in batches) / sum(b["mask"].numel() for b in batches)

    assert padding(bucket=True) < 0.5 * padding()
    for batch in loader(lists, batch_size=None, max_tokens=40, shuffle=True):
        assert batch["mask"].numel() <= 40 or len(batch["mask"]) == 1
    with pytest.raises(TypeError, match="lengths of samples"):
        len(loader(lists, batch_size=None, max_tokens=40))


@pytest.mark.transport
def test_lengths(lists):
    assert len(loader(lists)) == 14 and len(loader(lists, drop_last=True)) == 13
    assert len(list(loader(lists, bucket=True))) == 14


@pytest.mark.transport
def test_expressions_and_functions(lists):
    col = gt.data.col
    chosen = [(col("hits") / 10 + 1).log1p(), (3 - col("id")).clip(-2, 2).alias("near").to(gt.float32)]
    counted = []

    def count(batch):
        counted.append(len(batch["near"]))
        return {**batch, "twice": batch["near"] * 2}

    for batch in loader(lists, transforms=[*chosen, count], num_workers=1):
        ids = np.array(batch["sample_id"].tolist())
        assert batch["id"].tolist() == ids.tolist()
        np.testing.assert_allclose(batch["near"].numpy(), np.clip(3 - ids, -2, 2))
        np.testing.assert_allclose(batch["twice"].numpy(), 2 * np.clip(3 - ids, -2, 2))
        for row, i in enumerate(ids.tolist()):
            np.testing.assert_allclose(batch["hits"].numpy()[row, : length(i)], np.log1p(hits(i) / 10 + 1), rtol=1e-6)
            assert not batch["hits"].numpy()[row, length(i) :].any()
    assert sum(counted) == len(lists)


@pytest.mark.transport
def test_a_function_that_raises_ends_the_epoch_and_leaves_no_threads(lists):
    def fail(batch):
        raise ZeroDivisionError("in the transform")

    with pytest.raises(ZeroDivisionError, match="in the transform"):
        list(loader(lists, transforms=[fail], num_workers=2))
    assert loader_threads() == 0


@pytest.mark.transport
def test_row_ranges(tmp_path):
    lengths = [[3, 0, 11, 4], [1], [5, 5, 5, 0, 9]]
    ds = write_ranges(tmp_path, lengths)
    flat = [(file, sum(of[:i]), n) for file, of in enumerate(lengths, start=1) for i, n in enumerate(of)]
    assert len(ds) == len(flat) and ds.columns == ["v", "odd", "az"]
    seen = []
    for batch in loader(ds, shuffle=True, shuffle_pool=3, batch_size=4, num_workers=2):
        for row, i in enumerate(batch["sample_id"].tolist()):
            file, start, n = flat[i]
            assert batch["lengths"][row].item() == n and batch["az"][row].item() == i / 2
            expected = 1000 * file + start + np.arange(n)
            assert batch["v"][row, :n].tolist() == expected.tolist()
            assert batch["odd"][row, :n].tolist() == (expected % 2 == 1).tolist()
            seen.append(i)
    assert sorted(seen) == list(range(len(flat)))


@pytest.mark.transport
def test_columns_of_different_lengths_need_their_own(tmp_path):
    columns = {"a": [np.arange(3), np.arange(1)], "b": [np.arange(2.0), np.arange(4.0)]}
    gt.data.write_parquet(tmp_path / "x.parquet", columns)
    ds = gt.data.ParquetDataset(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match='sample 0 has 3 items in "a" but 2 in "b"; use ragged="each"'):
        list(loader(ds))
    (batch,) = loader(ds, ragged="each")
    assert batch["a_lengths"].tolist() == [3, 1] and batch["b_lengths"].tolist() == [2, 4]
    assert batch["b_mask"].shape == (2, 4)


@pytest.mark.transport
def test_text_and_arrays(tmp_path):
    columns = {"name": ["ä", "", "xyz"], "box": np.arange(12, dtype=np.int16).reshape(3, 2, 2)}
    gt.data.write_parquet(tmp_path / "x.parquet", columns)
    (batch,) = loader(gt.data.ParquetDataset(tmp_path / "x.parquet"))
    assert batch["name"] == ["ä", "", "xyz"]
    assert batch["box"].dtype == gt.int32 and batch["box"].tolist() == columns["box"].tolist()


def loader_threads():
    names = [(Path("/proc/self/task") / t / "comm").read_text() for t in os.listdir("/proc/self/task")]
    return sum(name.startswith("gt-data") for name in names)


def threads_become(count):
    """A thread has its name a moment after it was started."""
    deadline = time.monotonic() + 10
    while loader_threads() != count and time.monotonic() < deadline:
        time.sleep(0.01)
    return loader_threads() == count


@pytest.mark.transport
def test_threads_end_with_their_epoch(lists, monkeypatch):
    monkeypatch.setenv("GT_DATA_ON_WORKERS", "0")
    dl = loader(lists, num_workers=3)
    running = iter(dl)
    next(running)
    assert threads_become(3)
    again, not_begun = iter(dl), iter(dl)
    next(again)
    assert threads_become(9)
    running.close()
    assert next(running, None) is None
    assert threads_become(6)
    del dl, again, not_begun
    assert loader_threads() == 0
    list(loader(lists, num_workers=2))
    assert loader_threads() == 0


@pytest.mark.transport
def test_two_loops_over_one_loader_do_not_mix(lists):
    dl = loader(lists, num_workers=1, shuffle=True)
    expected = [ids_of(dl) for _ in range(3)]
    dl.set_epoch(0)
    outer = iter(dl)
    first = next(outer)["sample_id"].tolist()
    assert ids_of(dl) == expected[1]
    assert dl.state_dict()["position"] == 0 and dl.epoch == 2
    assert [first, *(batch["sample_id"].tolist() for batch in outer)] == expected[0], "it went on where it was"
    assert dl.state_dict()["position"] == 0 and dl.epoch == 2, "what was begun first moves nothing"
    dl.set_epoch(0)
    pairs = [[a["sample_id"].tolist(), b["sample_id"].tolist()] for a, b in zip(dl, dl)]
    assert pairs == [list(pair) for pair in zip(*expected[:2])]


@pytest.mark.transport
def test_an_epoch_that_is_set_is_whole_whatever_an_older_iterator_still_gives(lists):
    dl = loader(lists)
    older = iter(dl)
    next(older)
    dl.set_epoch(1)
    next(older)
    assert dl.state_dict()["position"] == 0
    assert sorted(sum(ids_of(dl), [])) == list(range(len(lists)))


@pytest.mark.transport
def test_setting_the_epoch_of_a_state_that_was_loaded_keeps_its_place(lists):
    dl = loader(lists, shuffle=True)
    dl.set_epoch(np.int64(2))
    running = iter(dl)
    given = [next(running)["sample_id"].tolist() for _ in range(3)]
    state = json.loads(json.dumps(dl.state_dict()))
    resumed = loader(lists, shuffle=True)
    resumed.load_state_dict(state)
    # As a loop over epochs does that begins with the saved one.
    resumed.set_epoch(2)
    rest = ids_of(resumed)
    resumed.set_epoch(2)
    assert given + rest == ids_of(resumed), "set again, the epoch is whole"
    with pytest.raises(ValueError, match="epoch should not be negative"):
        dl.set_epoch(-1)
    with pytest.raises(ValueError, match="not the state of a file loader: it has no 'position'"):
        dl.load_state_dict({"version": 1, "epoch": 0})


@pytest.mark.transport
def test_loaders_of_several_threads(lists):
    expected, found = ids_of(loader(lists, shuffle=True)), []
    threads = [threading.Thread(target=lambda: found.append(ids_of(loader(lists, shuffle=True)))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [expected] * 4


@pytest.mark.transport
def test_stats(lists):
    dl = loader(lists, num_workers=1)
    assert dl.stats()["samples"] == dl.stats()["wait_s"] == 0
    list(dl)
    list(dl)
    stats = dl.stats()
    assert stats["batches"] == 28 and stats["samples"] == 2 * len(lists)
    assert all(stats[name] >= 0 for name in ("read_s", "decode_s", "gather_s", "copy_s", "wait_s"))
    assert stats["bytes"] > 0 and stats["read_bytes"] > 0 and stats["blocks"] == 2 * len(lists.block_lengths)


@pytest.mark.transport
def test_expressions_of_one_column_follow_one_another(lists):
    col = gt.data.col
    dl = loader(lists, transforms=[(col("id") / 4).alias("part"), col("id") + 1, col("id") * 2, col("part") - 1])
    batch = next(iter(dl))
    ids = batch["sample_id"]
    assert batch["id"].tolist() == [2 * (i + 1) for i in ids.tolist()] and batch["id"].dtype == gt.int64
    assert batch["part"].tolist() == [i / 4 - 1 for i in ids.tolist()] and batch["part"].dtype == gt.float32
    (batch, *_) = loader(lists, transforms=col("id").log1p())
    assert batch["id"].dtype == gt.float32
    (batch, *_) = loader(lists, transforms=lambda batch: {"n": len(batch["id"])})
    assert batch == {"n": 8}
    with pytest.raises(ValueError, match="expressions run before functions"):
        loader(lists, transforms=[lambda batch: batch, col("id") + 1])


@pytest.mark.transport
def test_arguments_may_be_numbers_and_dtypes_of_numpy(lists):
    dl = loader(lists, batch_size=np.int64(5), num_workers=np.int32(1), generator=np.int64(3), dtypes=np.float32)
    assert json.loads(json.dumps(dl.state_dict()))["seed"] == 3
    assert next(iter(dl))["id"].dtype == gt.float32
    assert next(iter(loader(lists, dtypes={"id": "int32", "hits": "gt.bfloat16"})))["hits"].dtype == gt.bfloat16
    for wrong in ({"max_len": -1}, {"pad_to_multiple_of": 0}, {"dtypes": "float7"}, {"timeout": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            loader(lists, **wrong)


@pytest.mark.transport
def test_columns_that_are_cut_differently_have_their_own_lengths(tmp_path):
    lengths = [5, 0, 2, 7]
    columns = {name: [np.arange(n) + 1 for n in lengths] for name in ("a", "b", "c")}
    gt.data.write_parquet(tmp_path / "x.parquet", columns)
    ds = gt.data.ParquetDataset(tmp_path / "x.parquet")
    (batch,) = gt.data.DataLoader(ds, batch_size=4, max_len={"b": 3}, pad_value={"c": -1})
    assert set(batch) == {"a", "b", "c", "lengths", "mask", "b_lengths", "b_mask"}
    assert batch["lengths"].tolist() == lengths and batch["b_lengths"].tolist() == [3, 0, 2, 3]
    assert batch["a"].shape == batch["c"].shape == batch["mask"].shape == (4, 7)
    assert batch["b"].tolist() == [[1, 2, 3], [0, 0, 0], [1, 2, 0], [1, 2, 3]]
    assert batch["b_mask"].sum().item() == 8 and batch["c"][1].tolist() == [-1] * 7
    (batch,) = gt.data.DataLoader(ds, batch_size=4, max_len={"a": 1}, collate="packed")
    assert batch["cu_seqlens"].tolist() == [0, 1, 1, 2, 3] and batch["b_cu_seqlens"].tolist() == [0, 5, 5, 7, 14]
    with pytest.raises(ValueError, match="needs the same max_len"):
        next(iter(gt.data.DataLoader(ds, batch_size=4, max_len={"a": 1}, outliers="split")))


@pytest.mark.transport
def test_a_class_of_ones_own_is_a_loader_of_files_too(lists):
    class Mine(gt.data.DataLoader):
        def __init__(self, data, **options):
            super().__init__(data, batch_size=8, sample_ids=True, shuffle_pool=4, **options)
            self.mine = True

    assert gt.data.DataLoader[int].__origin__ is gt.data.DataLoader
    mine = Mine(lists)
    assert isinstance(mine, gt.data.FileLoader) and mine.mine and type(mine).__name__ == "Mine"
    assert ids_of(mine) == ids_of(loader(lists))


@pytest.mark.transport
def test_what_a_loader_of_files_does_not_take(lists):
    with pytest.raises(ValueError, match="collate_fn, .* work only when Python makes the batches"):
        gt.data.FileLoader(lists, collate_fn=list)
    with pytest.raises(ValueError, match="batch_size should be a positive integer"):
        loader(lists, batch_size=0)
    with pytest.raises(ValueError, match="shuffle_pool"):
        loader(lists, shuffle=True, shuffle_pool="some")
    with pytest.raises(ValueError, match="pad_value names 'hit', which is not a column"):
        loader(lists, pad_value={"hit": 1})
    with pytest.raises(ValueError, match="no such column; the columns are id, hits"):
        loader(lists, transforms=[gt.data.col("x") + 1])
    with pytest.raises(ValueError, match="memory_budget"):
        loader(lists, memory_budget="much")


@pytest.mark.transport
def test_a_forked_child_is_told_to_make_its_own(lists):
    dl = loader(lists, num_workers=1)
    running = iter(dl)
    next(running)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            next(running)
            os.write(write, b"no error")
        except BaseException as e:
            os.write(write, str(e).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert "forked" in os.read(read, 200).decode()


def test_interrupt(tmp_path):
    write_lists(tmp_path / "data", [500] * 4)
    script = f"""
        import sys, gt
        dl = gt.data.DataLoader(gt.data.ParquetDataset({str(tmp_path / "data")!r}), batch_size=2, shuffle=True, num_workers=2)
        print("ready", flush=True)
        try:
            while True:
                for batch in dl:
                    pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    threading.Event().wait(0.3)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "interrupted\n"
    assert process.returncode == 0


@pytest.mark.transport
def test_reports(lists):
    full = loader(lists, shuffle=True, shuffle_pool="full").shuffle_report()
    off = loader(lists, shuffle=False).shuffle_report(label="id")
    assert full.exactly_once and off.exactly_once
    assert off.rank_correlation > 0.99 > abs(full.rank_correlation) * 4
    # Labels that grow with the place in storage: batches of neighbours know almost nothing of the whole.
    assert off.design_effect > 5 > full.design_effect
    assert "design effect" in str(full) and "exactly once: yes" in str(full)
    with pytest.raises(ValueError, match="one number per sample"):
        loader(lists).shuffle_report(label="hits")


@pytest.mark.transport
def test_dryrun(lists):
    dl = loader(lists, shuffle=True)
    before = dl.state_dict()
    said = dl.dryrun(seconds=0.05)
    assert dl.state_dict() == before
    assert said.samples == len(lists) and said.batches == 14 and said.files == 5
    assert "hits" in str(said) and "first batch" in str(said)
