"""BlockShuffleSampler: exactly once, a function of its key, from any position, and well mixed."""

import random

import numpy as np
import pytest

import gt
from gt.data import BlockShuffleSampler, ConcatDataset


def layouts():
    rng = random.Random(0)
    fixed = [[], [0], [1], [5], [0, 3, 0], [1] * 30, [1000, 1, 1, 0, 2]]
    return fixed + [[rng.choice((0, 1, 3, rng.randrange(40))) for _ in range(rng.randrange(1, 40))] for _ in range(20)]


@pytest.mark.parametrize("lengths", layouts(), ids=lambda lengths: f"{len(lengths)} blocks, {sum(lengths)} samples")
def test_every_index_comes_once_from_few_blocks_at_a_time(lengths):
    owner = np.repeat(np.arange(len(lengths)), lengths)
    for pool in (1, 3, 128):
        sampler = BlockShuffleSampler(lengths=lengths, pool=pool, seed=4)
        given = list(sampler)
        assert sorted(given) == list(range(sum(lengths))) and len(sampler) == sum(lengths)
        # BLOCKS-3: from the first to the last sample of a block, fewer than `pool` other blocks are open.
        blocks = owner[given]
        first = {b: np.flatnonzero(blocks == b)[0] for b in set(blocks)}
        last = {b: np.flatnonzero(blocks == b)[-1] for b in set(blocks)}
        for at in range(len(given)):
            assert sum(first[b] <= at <= last[b] for b in first) <= pool


@pytest.mark.parametrize("lengths", layouts()[3:12], ids=len)
def test_it_can_be_entered_at_any_position(lengths):
    sampler = BlockShuffleSampler(lengths=lengths, pool=2, seed=7)
    sampler.set_epoch(3)
    whole, total = list(sampler), sum(lengths)
    for position in {0, 1, total // 3, max(0, total - 1), total}:
        again = BlockShuffleSampler(lengths=lengths, pool=2)
        again.load_state_dict({"seed": 7, "epoch": 3, "position": position})
        assert list(again) == whole[position:]
        assert sorted(again) == list(range(total)) and again.epoch == 4


def test_the_state_counts_what_was_given():
    sampler = BlockShuffleSampler(lengths=[4, 4, 4], pool=2, seed=1)
    indices = iter(sampler)
    seen = [next(indices) for _ in range(5)]
    state = sampler.state_dict()
    again = BlockShuffleSampler(lengths=[4, 4, 4], pool=2)
    again.load_state_dict(state)
    assert seen + list(again) == seen + list(indices) and (state["seed"], state["epoch"], state["position"]) == (
        1,
        0,
        5,
    )


def test_a_state_of_another_order_is_refused():
    state = BlockShuffleSampler(lengths=[4, 4, 4], pool=2, seed=1).state_dict()
    with pytest.raises(ValueError, match="other block lengths"):
        BlockShuffleSampler(lengths=[4, 8], pool=2).load_state_dict(state)
    with pytest.raises(ValueError, match="pool=2, but this one has pool=1"):
        BlockShuffleSampler(lengths=[4, 4, 4], pool=1).load_state_dict(state)
    takes_any = BlockShuffleSampler(lengths=[4, 4, 4])
    takes_any.load_state_dict(state)
    assert list(takes_any) == list(BlockShuffleSampler(lengths=[4, 4, 4], pool=2, seed=1))
    whole = BlockShuffleSampler(lengths=[4, 4, 4], pool="full", seed=1)
    whole.load_state_dict(BlockShuffleSampler(lengths=[4, 4, 4], pool=50, seed=1).state_dict())


def test_a_pool_and_a_seed_may_be_given_in_many_ways():
    lengths = [5] * 6

    def order(**arguments):
        return list(BlockShuffleSampler(lengths=lengths, **arguments))

    assert order(pool=np.int64(3), seed=np.int64(2)) == order(pool=3, seed=2)
    assert order(seed=gt.Generator().manual_seed(7)) == order(seed=7) != order(seed=8)
    gt.manual_seed(11)
    assert order(seed=None) == order(seed=11)
    assert order(pool="auto") == order() == order(pool=128)
    assert order(pool="full") == order(pool=6) and BlockShuffleSampler(lengths=[], pool="full").pool == 1
    for wrong in ("half", 1.5, True):
        with pytest.raises(ValueError, match="pool should be a positive number of blocks, 'auto' or 'full'"):
            order(pool=wrong)
    for wrong in ([1.5], [[1]], [-1], ["a"]):
        with pytest.raises(ValueError, match="lengths should be a list of non-negative sample counts"):
            BlockShuffleSampler(lengths=wrong)


def test_the_order_is_the_same_on_every_machine():
    assert list(BlockShuffleSampler(lengths=[3, 2, 4], pool=2, seed=3)) == [2, 8, 1, 0, 6, 5, 7, 3, 4]


def test_seeds_and_epochs_give_other_orders():
    orders = set()
    for seed in range(4):
        sampler = BlockShuffleSampler(lengths=[5] * 6, pool=3, seed=seed)
        orders |= {tuple(sampler) for _ in range(4)}
    assert len(orders) == 16


def test_it_mixes_nearly_as_well_as_a_full_shuffle():
    """Labels that vary between blocks: the variance of batch means over what independent samples would have."""
    blocks, size, batch = 330, 64, 64
    labels = np.repeat(np.random.default_rng(0).normal(size=blocks), size)
    noise = np.random.default_rng(1).normal(size=blocks * size)
    labels = 0.1 * labels + noise  # Correlation 0.01 within a block.

    def design_effect(order):
        means = labels[order].reshape(-1, batch).mean(1)
        return means.var() * batch / labels.var()

    sampler = BlockShuffleSampler(lengths=[size] * blocks, pool=64, seed=0)
    effects = [design_effect(np.array(list(sampler))) for _ in range(8)]
    assert np.mean(effects) < 1.2, effects
    assert design_effect(np.arange(blocks * size)) > 1.4


def test_a_last_batch_may_be_dropped():
    sampler = BlockShuffleSampler(lengths=[3, 4], pool=2, drop_last=3)
    assert len(sampler) == 6 and len(list(sampler)) == 6
    # A sampler knows no batches; whoever makes them drops the last one.
    assert [len(BlockShuffleSampler(lengths=[3, 4], drop_last=flag)) for flag in (False, True)] == [7, 7]


def test_blocks_may_be_the_parts_of_a_dataset():
    assert len(BlockShuffleSampler(ConcatDataset([range(3), range(5)]))) == 8

    class Files:
        block_lengths = [2, 2]

    assert len(BlockShuffleSampler(Files())) == 4
    with pytest.raises(TypeError, match="has no block_lengths"):
        BlockShuffleSampler([1, 2])
    with pytest.raises(ValueError, match="either a dataset or lengths"):
        BlockShuffleSampler()
    with pytest.raises(ValueError, match="pool should be a positive number of blocks"):
        BlockShuffleSampler(lengths=[1], pool=0)
    with pytest.raises(ValueError, match="drop_last should be a batch size"):
        BlockShuffleSampler(lengths=[1], drop_last=-1)
