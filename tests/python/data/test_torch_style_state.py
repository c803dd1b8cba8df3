"""Stopping in the middle of an epoch and going on: exactly the remaining samples, then the same epochs as without a stop."""

import copy
import json
import pickle
import random

import pytest
from python_datasets import Numbers, Stream, pids

import gt
from gt.data import BatchSampler, BlockShuffleSampler, DataLoader, RandomSampler, WeightedRandomSampler


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
    with pytest.raises(ValueError, match="not a DataLoader state"):
        DataLoader(Numbers(3)).load_state_dict({"lr": 0.1})


@pytest.mark.parametrize("name", ORDERS)
def test_the_state_of_a_loader_that_was_not_begun_is_its_first_epoch(name):
    gt.manual_seed(11)
    random_state = gt.get_rng_state()
    dl = DataLoader(Numbers(20), **ORDERS[name]())
    state = json.loads(json.dumps(dl.state_dict()))
    first, second = ids(dl), ids(dl)
    for again in (dl, DataLoader(Numbers(20), **ORDERS[name]())):
        gt.set_rng_state(random_state)
        again.load_state_dict(state)
        assert ids(again) == first and ids(again) == second


def test_an_epoch_that_was_chosen_is_in_the_state():
    def loader():
        return DataLoader(Numbers(20), batch_size=4, shuffle=True, generator=5)

    dl = loader()
    epochs = [ids(dl) for _ in range(4)]
    for chosen in (loader(), dl):
        chosen.set_epoch(2)
        again = loader()
        again.load_state_dict(chosen.state_dict())
        assert ids(again) == epochs[2] and ids(again) == epochs[3]


def test_an_older_state_is_loaded():
    """As GT wrote them before states told what they belong to."""
    dl = DataLoader(Numbers(20), batch_size=4, shuffle=True, generator=5)
    batches = iter(dl)
    next(batches)
    now = dl.state_dict()
    old = {name: now[name] for name in ("version", "epoch", "batch", "finished", "base_seed")}
    again = DataLoader(Numbers(20), batch_size=4, shuffle=True, generator=5)
    again.load_state_dict(old | {"sampler": {"sampler": now["sampler"]}})
    assert ids(again) == ids(batches)
    again.load_state_dict({"version": 1, "epoch": -1, "batch": 0, "finished": True, "base_seed": 0, "sampler": None})
    assert again._epoch == 0 and ids(again)


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("other", [1, 8, 50])
def test_another_batch_size_goes_on_with_the_right_sample(name, other):
    if name == "no batches":
        return
    dl = DataLoader(Numbers(20), **ORDERS[name]())
    batches = iter(dl)
    next(batches), next(batches)
    state, left = dl.state_dict(), sum(ids(batches), [])
    again = DataLoader(Numbers(20), **ORDERS[name]() | {"batch_size": other})
    again.load_state_dict(state)
    batches = iter(again)
    seen = next(batches)[1].tolist()
    assert seen == left[:other]
    third = DataLoader(Numbers(20), **ORDERS[name]())
    third.load_state_dict(again.state_dict())
    assert seen + sum(ids(third), []) == left


def begun(dataset, **arguments):
    """The state after the first batch."""
    dl = DataLoader(dataset, **arguments)
    batches = iter(dl)
    next(batches)
    return dl.state_dict()


REFUSED = {
    "its dataset has 20 samples, but this one has 10": (
        lambda: begun(Numbers(20), batch_size=2),
        lambda: DataLoader(Numbers(10), batch_size=2),
    ),
    "its sampler has 20 indices, but this one has 5": (
        lambda: begun(Numbers(20), batch_size=2),
        lambda: DataLoader(Numbers(20), batch_size=2, sampler=range(5)),
    ),
    "divided among 2 workers, but this loader has 1": (
        lambda: begun(Stream(20), batch_size=2, num_workers=2),
        lambda: DataLoader(Stream(20), batch_size=2),
    ),
    "counted in batches of 2, but this loader makes batches of 4": (
        lambda: begun(Stream(20), batch_size=2),
        lambda: DataLoader(Stream(20), batch_size=4),
    ),
    "the state counts samples but this loader counts batches": (
        lambda: begun(Numbers(20), batch_size=2),
        lambda: DataLoader(Numbers(20), batch_sampler=BatchSampler(range(20), 2, False)),
    ),
    "its batch_sampler makes batches of 2, but this one makes batches of 4": (
        lambda: begun(Numbers(20), batch_sampler=BatchSampler(range(20), 2, False)),
        lambda: DataLoader(Numbers(20), batch_sampler=BatchSampler(range(20), 4, False)),
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_state_that_would_lose_or_repeat_samples_is_refused(words):
    state, other = (make() for make in REFUSED[words])
    with pytest.raises(ValueError, match=words):
        other.load_state_dict(state)


def test_between_epochs_a_dataset_may_have_grown():
    dl = DataLoader(Numbers(4), batch_size=2)
    ids(dl)
    again = DataLoader(Numbers(6), batch_size=2)
    again.load_state_dict(dl.state_dict())
    assert ids(again) == [[0, 1], [2, 3], [4, 5]]
    dl = DataLoader(Numbers(4), batch_sampler=BatchSampler(RandomSampler(range(4)), 2, False))
    ids(dl)
    again = DataLoader(Numbers(4), batch_sampler=BatchSampler(RandomSampler(range(4)), 4, False))
    again.load_state_dict(dl.state_dict())
    assert len(ids(again)) == 1


class Varying:
    """A user's batch sampler, with another number of batches in every epoch."""

    def __init__(self):
        self.epochs = 0

    def __len__(self):
        if not self.epochs:
            raise RuntimeError("not begun")
        return self.epochs

    def __iter__(self):
        self.epochs += 1
        return iter([[i] for i in range(8 + self.epochs)])


def test_a_batch_sampler_may_have_another_length_in_every_epoch():
    dl = DataLoader(Numbers(20), batch_sampler=Varying())
    ids(dl)
    batches = iter(dl)
    next(batches)
    again = DataLoader(Numbers(20), batch_sampler=Varying())
    again.load_state_dict(dl.state_dict())
    assert ids(again) == [[i] for i in range(1, 9)]


def test_a_state_of_batches_out_of_order_is_told_of():
    dl = DataLoader(Numbers(20), num_workers=2, in_order=False)
    batches = iter(dl)
    next(batches)
    with pytest.warns(UserWarning, match="with in_order=False"):
        dl.state_dict()


class Drawing:
    """A user's sampler, of the kind that cannot be asked for its state."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def __len__(self):
        return 20

    def __iter__(self):
        return iter(self.random.sample(range(20), 20))


def test_a_sampler_that_draws_anew_is_told_of():
    state = begun(Numbers(20), batch_size=4, sampler=Drawing(1))
    same = DataLoader(Numbers(20), batch_size=4, sampler=Drawing(1))
    same.load_state_dict(state)
    assert len(ids(same)) == 4
    other = DataLoader(Numbers(20), batch_size=4, sampler=Drawing(2))
    other.load_state_dict(state)
    with pytest.warns(UserWarning, match="Drawing has no state_dict and starts this epoch with different indices"):
        iter(other)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda dl: pickle.loads(pickle.dumps(dl))], ids=["deepcopy", "pickle"]
)
def test_a_copy_of_a_loader_goes_on_like_the_loader(copied):
    dl = DataLoader(Numbers(20), batch_size=4, shuffle=True, generator=gt.Generator().manual_seed(3))
    ids(dl)
    again = copied(dl)
    assert again.generator is again.sampler.generator is not dl.generator
    assert ids(again) == ids(dl)
    dl = DataLoader(Numbers(4), num_workers=1, collate_fn=pids, persistent_workers=True)
    first = set(dl)
    assert len(set(copied(dl))) == 1 and set(copied(dl)) != first == set(dl)


@pytest.mark.parametrize("order", [{"shuffle": True, "generator": 4}, {"sampler": "blocks"}, {}], ids=str)
def test_setting_the_epoch_of_a_state_that_was_loaded_keeps_its_place(order):
    def loader():
        sampler = {"sampler": gt.data.BlockShuffleSampler(lengths=[10, 10], pool=1)} if "sampler" in order else order
        return gt.data.DataLoader(range(20), batch_size=3, **sampler)

    dl = loader()
    dl.set_epoch(2)
    batches = iter(dl)
    given = [next(batches).tolist() for _ in range(2)]
    resumed = loader()
    resumed.load_state_dict(dl.state_dict())
    resumed.set_epoch(2)
    given += [batch.tolist() for batch in resumed]
    assert sorted(sum(given, [])) == list(range(20))
    resumed.set_epoch(2)
    assert [batch.tolist() for batch in resumed] == given, "set again, the epoch is whole"
