"""Random numbers: reproducible, independent of layout and threads, with the right distributions."""

import itertools
import threading

import numpy as np
import pytest
from parity import DTYPES, FLOATS, array, check, dtype_of, name_of

import gt

pytestmark = pytest.mark.transport

DRAWS = [
    ("rand", lambda **k: gt.rand(3, 5, **k)),
    ("randn", lambda **k: gt.randn(3, 5, **k)),
    ("randint", lambda **k: gt.randint(0, 1000, (3, 5), **k)),
    ("randperm", lambda **k: gt.randperm(50, **k)),
    ("multinomial", lambda **k: gt.multinomial(gt.ones(20), 10, **k)),
    ("bernoulli", lambda **k: gt.bernoulli(gt.full((50,), 0.5), **k)),
]
IDS = [d[0] for d in DRAWS]


# --- seeds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, draw", DRAWS, ids=IDS)
def test_the_same_seed_gives_the_same_numbers(name, draw):
    gt.manual_seed(7)
    first, second = draw().tolist(), draw().tolist()
    gt.manual_seed(7)
    assert draw().tolist() == first and draw().tolist() == second
    assert first != second
    gt.manual_seed(8)
    assert draw().tolist() != first


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31, 2**63 - 1, 2**64 - 1])
def test_seeds_of_every_size(seed):
    gt.manual_seed(seed)
    first = gt.rand(4).tolist()
    gt.manual_seed(seed)
    assert gt.rand(4).tolist() == first


def test_nearby_seeds_differ():
    drawn = set()
    for seed in range(50):
        gt.manual_seed(seed)
        drawn.add(tuple(gt.rand(4).tolist()))
    assert len(drawn) == 50


def test_manual_seed_returns_a_generator_and_initial_seed_tells_it():
    made = gt.manual_seed(42)
    assert isinstance(made, gt.Generator)
    assert gt.initial_seed() == 42
    assert isinstance(gt.seed(), int)


def test_reads_do_not_change_the_numbers():
    gt.manual_seed(3)
    a = gt.rand(4)
    b = gt.rand(4)
    pair = a.tolist(), b.tolist()
    gt.manual_seed(3)
    assert (gt.rand(4).tolist(), gt.rand(4).tolist()) == pair


def test_other_work_does_not_change_the_numbers():
    gt.manual_seed(3)
    expected = gt.rand(4).tolist()
    gt.manual_seed(3)
    (gt.ones(10, requires_grad=True) * 2).sum().backward()
    assert gt.rand(4).tolist() == expected


# --- generators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, draw", DRAWS, ids=IDS)
def test_generators_are_streams_of_their_own(name, draw):
    g = gt.Generator()
    assert g.manual_seed(7) is g and g.initial_seed() == 7
    first = draw(generator=g).tolist()
    gt.manual_seed(99)
    expected = draw().tolist()
    gt.manual_seed(99)
    other = gt.Generator().manual_seed(7)
    assert draw(generator=other).tolist() == first
    assert draw().tolist() == expected, "a generator leaves the default stream alone"


def test_generator_state():
    g = gt.Generator().manual_seed(5)
    gt.rand(3, generator=g)
    state = g.get_state()
    first = gt.rand(4, generator=g).tolist()
    g.set_state(state)
    assert gt.rand(4, generator=g).tolist() == first
    h = gt.Generator()
    h.set_state(state)
    assert gt.rand(4, generator=h).tolist() == first


def test_generator_takes_a_device():
    assert gt.Generator(device="cpu").manual_seed(1).initial_seed() == 1


def test_default_generator():
    gt.manual_seed(5)
    expected = gt.rand(3).tolist()
    gt.default_generator.manual_seed(5)
    assert gt.rand(3, generator=gt.default_generator).tolist() == expected


def test_rng_state():
    gt.manual_seed(5)
    gt.randn(3)
    state = gt.get_rng_state()
    first = gt.rand(4).tolist()
    gt.rand(2)
    gt.set_rng_state(state)
    assert gt.rand(4).tolist() == first
    assert isinstance(state, gt.Tensor) and state.dtype == gt.uint8


def test_state_survives_a_round_trip_through_bytes():
    gt.manual_seed(5)
    gt.rand(3)
    state = gt.tensor(gt.get_rng_state().tolist(), dtype=gt.uint8)
    first = gt.randn(4).tolist()
    gt.set_rng_state(state)
    assert gt.randn(4).tolist() == first


def test_fork_rng_like_use():
    gt.manual_seed(1)
    state = gt.get_rng_state()
    gt.manual_seed(2)
    gt.rand(10)
    gt.set_rng_state(state)
    after = gt.rand(3).tolist()
    gt.manual_seed(1)
    assert gt.rand(3).tolist() == after


# --- distributions ---------------------------------------------------------------------------------------------------


def moments(values):
    return values.mean(), values.std(), values.min(), values.max()


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype):
    drawn = gt.rand(40_000, dtype=dtype_of(dtype))
    assert name_of(drawn.dtype) == dtype
    values = array(drawn).astype("float64")
    mean, std, low, high = moments(values)
    assert abs(mean - 0.5) < 0.01 and abs(std - 12**-0.5) < 0.01
    assert low >= 0 and high < 1 and low < 0.01 and high > 0.99
    histogram, _ = np.histogram(values, bins=10, range=(0, 1))
    assert (abs(histogram - 4000) < 350).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal(dtype):
    values = array(gt.randn(40_000, dtype=dtype_of(dtype))).astype("float64")
    mean, std, low, high = moments(values)
    assert abs(mean) < 0.02 and abs(std - 1) < 0.02 and np.isfinite(values).all()
    assert -6.5 < low < -3 and 3 < high < 6.5
    assert abs((values**3).mean()) < 0.08 and abs((values**4).mean() - 3) < 0.2
    assert abs((np.abs(values) < 1).mean() - 0.6827) < 0.01


def test_neighbours_are_not_correlated():
    for draw in (gt.rand(40_000) - 0.5, gt.randn(40_000)):
        values = array(draw).astype("float64")
        for lag in (1, 2, 3, 4, 8):
            assert abs(np.corrcoef(values[:-lag], values[lag:])[0, 1]) < 0.02
    a, b = array(gt.randn(40_000)), array(gt.randn(40_000))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02


def test_draws_have_no_repeated_values():
    values = array(gt.rand(10_000, dtype=gt.float64))
    assert len(np.unique(values)) == 10_000


@pytest.mark.parametrize("low, high", [(0, 10), (-5, 5), (3, 4), (0, 2**40), (-(2**62), 2**62), (0, 256)])
def test_randint_range(low, high):
    drawn = gt.randint(low, high, (5000,))
    values = array(drawn)
    assert drawn.dtype == gt.int64 and values.min() >= low and values.max() < high
    if high - low <= 10:
        counts = np.bincount(values - low, minlength=high - low)
        assert (abs(counts - 5000 / (high - low)) < 150).all()
    else:
        assert abs((values.astype("float64") - low).mean() / (high - low) - 0.5) < 0.02


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_randint_dtypes(dtype):
    drawn = gt.randint(0, 5, (100,), dtype=dtype_of(dtype))
    assert name_of(drawn.dtype) == dtype and set(drawn.tolist()) == {0, 1, 2, 3, 4}


def test_randint_spellings():
    assert gt.randint(10, (3,)).shape == (3,) and gt.randint(1, 10, (2, 3)).shape == (2, 3)
    assert gt.randint(high=10, size=(3,)).shape == (3,) and gt.randint(low=5, high=6, size=(2,)).tolist() == [5, 5]
    assert gt.randint(10, size=[2, 2]).shape == (2, 2) and gt.randint(10, ()).shape == ()
    with pytest.raises((RuntimeError, ValueError)):
        gt.randint(5, 3, (2,))


@pytest.mark.parametrize("n", [0, 1, 2, 10, 1000])
def test_randperm_is_a_permutation(n):
    drawn = gt.randperm(n)
    assert drawn.dtype == gt.int64 and sorted(drawn.tolist()) == list(range(n))
    if n == 1000:
        assert drawn.tolist() != list(range(n))
    assert gt.randperm(n, dtype=gt.int32).dtype == gt.int32


def test_randperm_is_fair():
    counts = dict.fromkeys(itertools.permutations(range(3)), 0)
    for _ in range(1200):
        counts[tuple(gt.randperm(3).tolist())] += 1
    assert all(130 < count < 270 for count in counts.values()), counts


def test_bernoulli():
    probability = gt.tensor([0.0, 1.0, 0.25])
    drawn = gt.stack([gt.bernoulli(probability) for _ in range(20)])
    assert set(drawn[:, 0].tolist()) == {0} and set(drawn[:, 1].tolist()) == {1}
    values = array(gt.bernoulli(gt.full((20_000,), 0.25)))
    assert set(values.tolist()) == {0, 1} and abs(values.mean() - 0.25) < 0.02
    assert gt.bernoulli(gt.ones(2, dtype=gt.float64)).dtype == gt.float64
    assert abs(array(gt.bernoulli(gt.zeros(20_000), 0.7)).mean() - 0.7) < 0.02
    assert abs(array(gt.zeros(20_000).bernoulli_(0.3)).mean() - 0.3) < 0.02
    assert gt.full((3,), 1.0).bernoulli().tolist() == [1, 1, 1]


def test_a_probability_out_of_range_is_an_error_of_the_read():
    drawn = gt.bernoulli(gt.tensor([2.0, -1.0]))
    doubled = drawn * 2
    with pytest.raises(RuntimeError, match=r"p_in >= 0(.|\n)*test_random.py"):
        doubled.tolist()


def test_multinomial_with_replacement():
    weights = gt.tensor([1.0, 0.0, 3.0, 6.0])
    drawn = gt.multinomial(weights, 20_000, replacement=True)
    counts = np.bincount(array(drawn), minlength=4) / 20_000
    assert drawn.dtype == gt.int64 and drawn.shape == (20_000,)
    np.testing.assert_allclose(counts, [0.1, 0, 0.3, 0.6], atol=0.02)


def test_multinomial_without_replacement():
    for _ in range(20):
        assert sorted(gt.multinomial(gt.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]
        assert 1 not in gt.multinomial(gt.tensor([1.0, 0.0, 1.0]), 2).tolist()
    firsts = [gt.multinomial(gt.tensor([1.0, 9.0]), 2)[0].item() for _ in range(300)]
    assert 240 < sum(firsts) < 295


def test_multinomial_of_rows():
    drawn = gt.multinomial(gt.tensor([[1.0, 0.0], [0.0, 1.0]]), 3, replacement=True)
    assert drawn.tolist() == [[0, 0, 0], [1, 1, 1]]
    for wrong in (
        lambda: gt.multinomial(gt.ones(3), 4),
        lambda: gt.multinomial(gt.ones(2, 2, 2), 1),
        lambda: gt.multinomial(gt.ones(3), 0),
    ):
        with pytest.raises((RuntimeError, ValueError)):
            wrong()


def test_fills():
    x = gt.empty(20_000)
    assert x.uniform_(-3, 5) is x
    values = array(x)
    assert values.min() >= -3 and values.max() < 5 and abs(values.mean() - 1) < 0.1
    values = array(gt.empty(20_000).normal_(2, 3))
    assert abs(values.mean() - 2) < 0.1 and abs(values.std() - 3) < 0.1
    values = array(gt.normal(1.0, 2.0, size=(20_000,)))
    assert abs(values.mean() - 1) < 0.1 and abs(values.std() - 2) < 0.1
    check(gt.normal(gt.tensor([5.0]), gt.tensor([0.0])), [5.0])
    values = array(gt.empty(20_000).exponential_(2.0))
    assert values.min() >= 0 and abs(values.mean() - 0.5) < 0.05


def test_gradients_do_not_flow_into_random_numbers():
    p = gt.full((3,), 0.5, requires_grad=True)
    assert not gt.bernoulli(p).requires_grad or gt.bernoulli(p).grad_fn is not None
    assert not gt.rand_like(p).requires_grad


# --- layout ----------------------------------------------------------------------------------------------------------


def test_a_shape_is_only_a_layout():
    gt.manual_seed(11)
    flat = gt.rand(24)
    gt.manual_seed(11)
    assert gt.rand(2, 3, 4).flatten().tolist() == flat.tolist()
    gt.manual_seed(11)
    assert gt.rand(1000)[:24].tolist() == flat.tolist(), "element i depends on seed, ordinal and i alone"


# --- Philox 4x32-10 --------------------------------------------------------------------------------------------------


def philox(seed: int, ordinal: int, block: int) -> list[int]:
    """Ten rounds over (block, ordinal) with the seed as key."""
    counter = [block & 0xFFFFFFFF, block >> 32, ordinal & 0xFFFFFFFF, ordinal >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        left, right = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (right >> 32) ^ counter[1] ^ key[0],
            right & 0xFFFFFFFF,
            (left >> 32) ^ counter[3] ^ key[1],
            left & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def test_the_reference_here_is_philox():
    """Random123's known answer for all zeros."""
    assert philox(0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("seed", [0, 1234, 2**40 + 17])
def test_single_precision_bits_are_philox(seed):
    """The bits are part of the interface: key = seed, counter = (element / 4, ordinal), the first draw has ordinal 0."""
    words = [word for block in range(5) for word in philox(seed, 0, block)]
    gt.manual_seed(seed)
    assert gt.rand(20).tolist() == [(word >> 8) / 2**24 for word in words]


@pytest.mark.parametrize("seed", [0, 1234])
def test_double_precision_bits_are_philox(seed):
    words = [word for block in range(4) for word in philox(seed, 0, block)]
    wide = [words[i] | words[i + 1] << 32 for i in range(0, 16, 2)]
    gt.manual_seed(seed)
    assert gt.rand(8, dtype=gt.float64).tolist() == [(word >> 11) / 2**53 for word in wide]


def test_ordinals_count_draws():
    gt.manual_seed(9)
    gt.rand(3)
    second = gt.rand(4).tolist()
    assert second == [(word >> 8) / 2**24 for word in philox(9, 1, 0)]


# --- threads ---------------------------------------------------------------------------------------------------------


def test_threads_do_not_disturb_each_other():
    gt.manual_seed(21)
    alone = [gt.rand(4).tolist() for _ in range(5)]

    def noise():
        for _ in range(20):
            gt.rand(100)

    gt.manual_seed(21)
    made = []
    for _ in range(5):
        worker = threading.Thread(target=noise)
        worker.start()
        made.append(gt.rand(4).tolist())
        worker.join()
    assert made == alone


def test_generators_in_threads_are_deterministic():
    def draw(seed, results):
        g = gt.Generator().manual_seed(seed)
        results[seed] = [gt.randn(50, generator=g).sum().item() for _ in range(20)]

    alone: dict[int, list[float]] = {}
    for seed in range(4):
        draw(seed, alone)
    together: dict[int, list[float]] = {}
    threads = [threading.Thread(target=draw, args=(seed, together)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_threads_draw_different_numbers():
    results: list[tuple[float, ...]] = []
    lock = threading.Lock()

    def draw():
        made = tuple(gt.rand(4).tolist())
        with lock:
            results.append(made)

    threads = [threading.Thread(target=draw) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 6
