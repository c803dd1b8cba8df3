"""Stopping in the middle of an epoch and going on: exactly the remaining samples, then the same epochs as without a stop."""

import json
import random

import pytest
from python_datasets import Numbers, Stream

import gt
from gt.data import BlockShuffleSampler, DataLoader, RandomSampler, WeightedRandomSampler


def ids(dl):
    return [(b if isinstance(b, gt.Tensor) else b[1]).tolist() for b in dl]


ORDERS = {
    "in order": lambda: {"batch_size": 3},
    "shuffled by the thread's stream": lambda: {"batch_size": 3, "shuffle": True},
    "shuffled by a seed": lambda: {"batch_size": 3, "shuffle": True, "generator": 5},
    "shuffled by a generator": lambda: {"batch_size": 3, "shuffle": True, "generator": gt.Generator().manual_seed(9)},
    "drawn": lambda: {"batch_size": 3, "sampler": RandomSampler(range(20), replacement=True, generator=1)},
    "weighted": lambda: {"batch_size": 3, "sampler": WeightedRandomSampler(range(1, 21), 20, generator=2)},
    "blocks": lambda: {"batch_size": 3, "sampler": BlockShuffleSampler(lengths=[7, 1, 0, 6, 6], pool=2, seed=3)},
    "no batches": lambda: {
        "batch_size": None,
        "shuffle": True,
        "generator": 5,
        "collate_fn": lambda item: (0, gt.tensor(item[1])),
    },
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_rest_of_the_epoch_and_the_next_ones_are_the_same(name):
    for stop in (0, 1, 4, 6):
        gt.manual_seed(11)
        dl = DataLoader(Numbers(20), **ORDERS[name]())
        first = ids(dl)
        batches = iter(dl)
        seen = [next(batches) for _ in range(stop)]
        assert len(seen) == stop
        state = json.loads(json.dumps(dl.state_dict()))
        assert len(json.dumps(state)) < 1024
        random_state = gt.get_rng_state()
        rest, third, fourth = ids(batches), ids(dl), ids(dl)

        gt.manual_seed(99)
        again = DataLoader(Numbers(20), **ORDERS[name]())
        again.load_state_dict(state)
        gt.set_rng_state(random_state)
        assert json.loads(json.dumps(again.state_dict())) == state
        assert ids(again) == rest and ids(again) == third and ids(again) == fourth, (name, stop)
        assert (first == third) == (name == "in order")


@pytest.mark.parametrize("name", ORDERS)
def test_between_epochs(name):
    gt.manual_seed(11)
    dl = DataLoader(Numbers(20), **ORDERS[name]())
    ids(dl)
    state, random_state = dl.state_dict(), gt.get_rng_state()
    second = ids(dl)
    again = DataLoader(Numbers(20), **ORDERS[name]())
    again.load_state_dict(state)
    gt.set_rng_state(random_state)
    assert ids(again) == second


def test_after_the_last_batch_there_is_nothing_left_of_the_epoch():
    dl = DataLoader(Numbers(6), batch_size=3, shuffle=True, generator=0)
    batches = iter(dl)
    next(batches), next(batches)
    again = DataLoader(Numbers(6), batch_size=3, shuffle=True, generator=0)
    again.load_state_dict(dl.state_dict())
    assert ids(again) == [] and ids(again) == ids(dl)


def test_another_number_of_workers_goes_on_with_the_same_samples():
    dl = DataLoader(Numbers(40), batch_size=3, shuffle=True, generator=0, num_workers=2)
    batches = iter(dl)
    for _ in range(random.Random(1).randrange(1, 9)):
        next(batches)
    state = dl.state_dict()
    rest = ids(batches)
    for workers in (0, 1):
        again = DataLoader(Numbers(40), batch_size=3, shuffle=True, generator=0, num_workers=workers)
        again.load_state_dict(state)
        assert ids(again) == rest
        assert ids(again) == ids(dl)
        dl.set_epoch(1)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_goes_on(workers):
    dl = DataLoader(Stream(23), batch_size=2, num_workers=workers)
    batches = iter(dl)
    for _ in range(5):
        next(batches)
    state = dl.state_dict()
    rest = ids(batches)
    again = DataLoader(Stream(23), batch_size=2, num_workers=workers)
    again.load_state_dict(state)
    assert ids(again) == rest and rest


def test_set_epoch_reaches_the_sampler():
    dl = DataLoader(Numbers(20), batch_size=4, sampler=BlockShuffleSampler(lengths=[5] * 4, pool=2))
    epochs = [ids(dl) for _ in range(3)]
    dl.set_epoch(1)
    assert ids(dl) == epochs[1] and ids(dl) == epochs[2] and epochs[0] != epochs[1]


def test_a_state_of_something_else_is_refused():
    with pytest.raises(ValueError, match="not the state of a DataLoader"):
        DataLoader(Numbers(3)).load_state_dict({"lr": 0.1})
