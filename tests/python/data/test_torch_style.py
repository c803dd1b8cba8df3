"""Datasets, samplers, collation and the loader in one process: torch's meanings and messages."""

import builtins
import sys
import types
from collections import OrderedDict

import numpy as np
import pytest
from python_datasets import Numbers, Pair, Stream

import gt
from gt.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)

pytestmark = pytest.mark.transport


def lists(batches):
    return [b.tolist() for b in batches]


def counted(name):
    """What all workers have counted."""
    return sum(stats[name] for stats in gt.debug.get_worker_stats().values())


# --- collation -------------------------------------------------------------------------------------------------------


def test_numbers_become_tensors_of_torchs_dtypes():
    cases = [
        ([1, 2], gt.int64),
        ([1.0, 2.0], gt.float64),
        ([True, False], gt.bool),
        ([1, 2.5], gt.float32),
        ([np.float32(1), np.float32(2)], gt.float32),
        ([np.float64(1), np.float64(2)], gt.float64),
        ([np.int32(1), np.int32(2)], gt.int32),
        ([np.ones(3, np.uint8)] * 2, gt.uint8),
        ([gt.ones(3, dtype=gt.bfloat16)] * 2, gt.bfloat16),
    ]
    for samples, dtype in cases:
        batch = default_collate(samples)
        assert batch.dtype == dtype and batch.shape[0] == 2, samples


def test_containers_are_gone_into():
    samples = [
        {"a": np.ones(2), "b": (1, "x"), "c": Pair(1.0, [2, 3]), "d": b"q", "e": OrderedDict(k=1)} for _ in range(3)
    ]
    batch = default_collate(samples)
    assert batch["a"].shape == (3, 2) and batch["b"][0].tolist() == [1, 1, 1] and batch["b"][1] == ("x", "x", "x")
    assert isinstance(batch["c"], Pair) and batch["c"].x.dtype == gt.float64
    assert lists(batch["c"].y) == [[2, 2, 2], [3, 3, 3]]
    assert batch["d"] == [b"q"] * 3
    assert isinstance(batch["e"], OrderedDict) and batch["e"]["k"].tolist() == [1, 1, 1]


def test_collation_refuses_what_torch_refuses():
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1, 2], [3]])
    with pytest.raises(
        TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found"
    ):
        default_collate([object(), object()])
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"]), np.array(["b"])])
    with pytest.raises(
        RuntimeError, match=r"stack expects each tensor to be equal size, but got \[2\] at entry 0 and \[3\] at entry 1"
    ):
        default_collate([np.ones(2), np.ones(3)])


def test_conversion_leaves_what_is_no_array():
    data = {"x": np.arange(3), "s": "text", "t": (np.float32(1), 2), "names": np.array(["a"])}
    made = default_convert(data)
    assert made["x"].tolist() == [0, 1, 2] and made["s"] == "text" and made["names"] is data["names"]
    assert isinstance(made["t"], list) and isinstance(made["t"][0], gt.Tensor) and made["t"][1] == 2


def test_a_batch_keeps_its_values_when_its_arrays_change():
    array = np.zeros((2, 1_000_000), np.float32)
    (batch,) = DataLoader([array], batch_size=None)
    array[:] = 7
    assert float(batch.sum()) == 0


# --- datasets --------------------------------------------------------------------------------------------------------


def test_a_tensor_dataset_gives_a_batch_with_one_instruction_a_tensor():
    x, y = gt.randn(100, 5), gt.arange(100)
    ds = Subset(TensorDataset(x, y), list(range(99, -1, -1)))
    slow = DataLoader(ds, batch_size=8, collate_fn=lambda items: default_collate(items))
    for (a, b), (c, d) in zip(DataLoader(ds, batch_size=8), slow):
        assert gt.equal(a, c) and gt.equal(b, d)
    gt.synchronize()
    before = counted("total_instructions")
    batches = list(DataLoader(ds, batch_size=50))
    gt.synchronize()
    # Indices in, two gathers; torch's way would be more than a hundred.
    assert counted("total_instructions") - before < 30
    assert len(batches) == 2


def test_datasets_are_put_together():
    a, b = Numbers(3), Numbers(2)
    joined = a + b
    assert isinstance(joined, ConcatDataset)
    assert len(joined) == 5 and joined[3][1] == 0 and joined[-1][1] == 1
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        joined[-6]
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        ConcatDataset([Stream(3)])
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    stacked = StackDataset(n=Numbers(3), s=Subset("abc", [2, 1, 0]))
    (batch,) = DataLoader(stacked, batch_size=3)
    assert batch["n"][1].tolist() == [0, 1, 2] and batch["s"] == ["c", "b", "a"]
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        StackDataset([1], [1, 2])
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(gt.ones(2), gt.ones(3))


def test_items_are_asked_for_at_once_where_the_dataset_can():
    class AtOnce:
        def __len__(self):
            return 4

        def __getitems__(self, indices):
            return [i * 10 for i in indices]

    assert lists(DataLoader(AtOnce(), batch_size=3)) == [[0, 10, 20], [30]]


def test_splits_have_nothing_in_common():
    gt.manual_seed(3)
    parts = random_split(range(11), [0.5, 0.3, 0.2])
    assert [len(p) for p in parts] == [6, 3, 2] and sorted(sum((list(p) for p in parts), [])) == list(range(11))
    gt.manual_seed(3)
    assert [p.indices for p in random_split(range(11), [0.5, 0.3, 0.2])] == [p.indices for p in parts]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        random_split(range(5), [2, 2])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(2), [0.9, 0.1])


# --- samplers --------------------------------------------------------------------------------------------------------


def test_random_orders_follow_the_seed_and_change_by_epoch():
    gt.manual_seed(1)
    sampler = RandomSampler(range(50))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == list(range(50)) and first != second
    gt.manual_seed(1)
    assert list(sampler) == first
    generator = gt.Generator().manual_seed(4)
    one = list(RandomSampler(range(50), generator=generator))
    assert list(RandomSampler(range(50), generator=generator)) != one
    assert list(RandomSampler(range(50), generator=gt.Generator().manual_seed(4))) == one


def test_a_random_order_is_even():
    places = np.array([list(RandomSampler(range(8), generator=seed)) for seed in range(4000)])
    counts = np.stack([np.bincount(places[:, k], minlength=8) for k in range(8)])
    # Chi-squared with 49 degrees of freedom: above 94 once in ten thousand.
    assert ((counts - 500.0) ** 2 / 500).sum() < 94


def test_samples_are_drawn_as_often_as_asked_for():
    assert len(list(RandomSampler(range(5), num_samples=13))) == 13
    drawn = list(RandomSampler(range(5), replacement=True, num_samples=1000, generator=0))
    assert len(drawn) == 1000 and set(drawn) == set(range(5))
    assert sorted(SubsetRandomSampler([3, 1, 4])) == [1, 3, 4]


def test_weights_are_obeyed():
    drawn = np.bincount(list(WeightedRandomSampler([1, 0, 3], 20_000, generator=1)), minlength=3)
    assert drawn[1] == 0 and abs(drawn[2] / 20_000 - 0.75) < 0.02
    without = list(WeightedRandomSampler([0.9, 0.4, 0.05, 0.2], 4, replacement=False))
    assert sorted(without) == [0, 1, 2, 3]
    firsts = [next(iter(WeightedRandomSampler([1, 3], 1, replacement=False, generator=s))) for s in range(2000)]
    assert abs(np.mean(firsts) - 0.75) < 0.05
    with pytest.raises(RuntimeError, match="cannot sample n_sample > prob_dist.size"):
        WeightedRandomSampler([1, 1], 3, replacement=False)


BAD = [
    ({"num_workers": -1}, "num_workers option should be non-negative"),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
    ({"num_workers": 1, "prefetch_factor": -1}, "prefetch_factor option should be non-negative"),
    ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
    ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
    ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
    ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
    ({"multiprocessing_context": "fork"}, "multiprocessing_context can only be used with multi-process loading"),
    ({"multiprocessing_context": "no", "num_workers": 1}, "should specify a valid start method"),
]


@pytest.mark.parametrize("arguments, message", BAD)
def test_wrong_arguments_have_torchs_messages(arguments, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Numbers(4), **arguments)


@pytest.mark.parametrize("name, value", [("shuffle", True), ("sampler", [0]), ("batch_sampler", [[0]])])
def test_a_stream_has_no_order(name, value):
    with pytest.raises(ValueError, match=f"DataLoader with IterableDataset: expected unspecified {name} option"):
        DataLoader(Stream(3), **{name: value})


def test_messages_are_the_same_as_torchs():
    torch_data = pytest.importorskip("torch.utils.data")
    for arguments, _ in BAD:
        with pytest.raises(ValueError) as theirs:
            torch_data.DataLoader(Numbers(4), **arguments)
        with pytest.raises(ValueError) as ours:
            DataLoader(Numbers(4), **arguments)
        assert str(ours.value) == str(theirs.value)


# --- the loader ------------------------------------------------------------------------------------------------------


def test_batches_come_in_order_and_the_last_may_be_dropped():
    dl = DataLoader(Numbers(7), batch_size=3)
    assert len(dl) == 3 and [i.tolist() for _, i in dl] == [[0, 1, 2], [3, 4, 5], [6]]
    dl = DataLoader(Numbers(7), batch_size=3, drop_last=True)
    assert len(dl) == 2 and [i.tolist() for _, i in dl] == [[0, 1, 2], [3, 4, 5]]
    (x, i), *_ = DataLoader(Numbers(7), batch_size=None)
    assert x.tolist() == [0, 0, 0] and i == 0
    dl = DataLoader(Numbers(7), batch_sampler=[[6, 0], [1]])
    assert len(dl) == 2 and [i.tolist() for _, i in dl] == [[6, 0], [1]]
    dl = DataLoader(Numbers(7), sampler=[2, 5], collate_fn=list)
    assert [[i for _, i in items] for items in dl] == [[2], [5]]


def test_streams_are_batched():
    assert lists(DataLoader(Stream(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert len(DataLoader(Stream(5, length=5), batch_size=2)) == 3
    with pytest.raises(TypeError, match="no length"):
        len(DataLoader(Stream(5)))


def test_a_stream_longer_than_it_said_warns():
    dl = DataLoader(Stream(5, length=3))
    assert len(dl) == 3
    with pytest.warns(UserWarning, match="was reported to be 3"):
        list(dl)


def test_fixed_attributes_stay():
    dl = DataLoader(Numbers(3))
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        dl.batch_size = 4


def test_shuffling_needs_no_read():
    dl = DataLoader(TensorDataset(gt.arange(100)), batch_size=10, shuffle=True)
    gt.synchronize()
    before = counted("round_trips")
    batches = list(dl)
    assert counted("round_trips") == before
    assert sorted(sum((b.tolist() for (b,) in batches), [])) == list(range(100))


def test_errors_of_the_dataset_come_as_they_are():
    class Wrong(Numbers):
        def __getitem__(self, i):
            raise LookupError(f"item {i}")

    with pytest.raises(LookupError, match="item 0"):
        next(iter(DataLoader(Wrong(3))))


def test_torchs_tensors_become_gts():
    torch = pytest.importorskip("torch")
    ds = [(torch.ones(2), torch.tensor(i), torch.ones(1, dtype=torch.bfloat16)) for i in range(3)]
    (batch,) = DataLoader(ds, batch_size=3)
    assert all(isinstance(b, gt.Tensor) for b in batch) and batch[1].tolist() == [0, 1, 2]


def test_names_are_where_torch_has_them():
    import gt.utils.data

    assert gt.utils.data.DataLoader is DataLoader and gt.utils.data.BatchSampler is BatchSampler


def test_stats_tell_computing_from_waiting():
    from python_datasets import Sleeping, Spinning

    for ds, more, less in ((Sleeping(8, 0.005), "read_s", "decode_s"), (Spinning(8, 0.005), "decode_s", "read_s")):
        dl = DataLoader(ds, batch_size=4)
        list(dl)
        stats = dl.stats()
        assert stats[more] > 0.035 and stats[more] > 5 * stats[less], stats
        assert (stats["batches"], stats["samples"], stats["bytes"]) == (2, 8, 8 * (3 * 4 + 8))


def test_all_of_the_module_leaves_builtins_alone():
    for name in ("gt.data", "gt.utils.data"):
        taken = {}
        exec(f"from {name} import *", taken)
        assert not set(taken) & set(dir(builtins)) - {"__builtins__"}
    assert callable(gt.data.open) and gt.utils.data.open is gt.data.open


def test_collate_fn_is_the_function_that_is_used():
    assert DataLoader([1, 2]).collate_fn is default_collate
    assert DataLoader([1, 2], batch_size=None).collate_fn is default_convert
    assert DataLoader([1, 2], batch_sampler=[[0], [1]]).collate_fn is default_collate
    for workers in (0, 1):
        items = [np.ones(2), np.zeros(2)]
        (batch,) = DataLoader(items, batch_size=2, collate_fn=default_convert, num_workers=workers)
        assert isinstance(batch, list) and lists(batch) == [[1, 1], [0, 0]]
        batches = DataLoader(TensorDataset(gt.arange(2)), batch_size=2, collate_fn=default_convert, num_workers=workers)
        assert [[x.item() for x in row] for row in next(iter(batches))] == [[0], [1]]


def test_whole_numbers_may_be_numpys():
    dl = DataLoader(list(range(4)), batch_size=np.int64(2), num_workers=np.int64(0))
    assert lists(dl) == [[0, 1], [2, 3]] and type(dl.batch_size) is type(dl.num_workers) is int
    assert len(list(DataLoader(list(range(4)), num_workers=np.int32(1)))) == 4
    assert list(BatchSampler(range(3), np.int64(2), False)) == [[0, 1], [2]]
    for wrong in (2.0, True, "2"):
        with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
            DataLoader([1], batch_size=wrong)


def test_torchs_streams_are_streams(monkeypatch):
    torch = types.ModuleType("torch.utils.data")
    torch.IterableDataset = type("IterableDataset", (), {"__getitem__": None})
    monkeypatch.setitem(sys.modules, "torch.utils.data", torch)

    class Count(torch.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert lists(DataLoader(Count(), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert list(ChainDataset([Count(), Stream(2)])) == [0, 1, 2, 3, 4, 0, 1]
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        ConcatDataset([Count()])
