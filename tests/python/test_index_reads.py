"""How many round trips it takes to go through a tensor of indices in Python."""

import pytest

import gt

pytestmark = pytest.mark.transport


def trips():
    gt.synchronize()
    return sum(stats["round_trips"] for stats in gt.debug.get_worker_stats().values())


def counted(f):
    before = trips()
    out = f()
    return out, trips() - before


def test_slices_at_a_tensor_of_indices_take_no_read_each():
    data = gt.arange(1000)
    ix = gt.randint(0, 900, (16,))
    expected = [list(range(i, i + 8)) for i in ix.tolist()]

    def batch():
        xs = gt.stack([data[i : i + 8] for i in ix])
        ys = gt.stack([data[i + 1 : i + 1 + 8] for i in ix])
        return xs, ys

    (xs, ys), reads = counted(batch)
    assert reads <= 2, reads
    assert xs.tolist() == expected
    assert ys.tolist() == [[v + 1 for v in row] for row in expected]


def test_numbers_of_one_tensor_are_read_together():
    ix = gt.arange(32) * 3
    values, reads = counted(lambda: [int(i) for i in ix])
    assert values == list(range(0, 96, 3)) and reads == 1
    values, reads = counted(lambda: [ix[k].item() for k in range(32)])
    assert values == list(range(0, 96, 3)) and reads == 0


def test_floats_are_read_together_from_the_second_on():
    losses = gt.arange(8).float() / 2
    values, reads = counted(lambda: [loss.item() for loss in losses])
    assert values == [i / 2 for i in range(8)] and reads <= 2


def test_a_write_is_seen():
    ix = gt.arange(4)
    first = ix[1]
    assert first.item() == 1
    ix[1] = 7
    assert first.item() == 7 and ix[1].item() == 7
    ix += 1
    assert [int(i) for i in ix] == [1, 8, 3, 4] and first.item() == 8
    first.fill_(5)
    assert ix.tolist() == [1, 5, 3, 4] and int(ix[1]) == 5


def test_views_of_views_find_their_place():
    grid = gt.arange(24).reshape(4, 6)
    assert [[int(v) for v in row] for row in grid.t()[1:5:2]] == grid.t()[1:5:2].tolist()
    assert grid[2][3].item() == 15 and grid.flip(0)[0, 0].item() == 18
    assert grid.view(2, 12)[1, 4].item() == 16 and grid.diagonal()[2].item() == 14


def test_sums_of_known_numbers_are_known():
    ix = gt.tensor([5, 6])
    one = ix[0]
    assert int(one) == 5
    values, reads = counted(lambda: (int(one + 3), int(10 - one), int(one * 2 - 1), int(one + ix[1])))
    assert values == (8, 5, 9, 11) and reads == 0
    assert (one + 3).tolist() == 8


def test_a_large_tensor_is_not_read_for_a_number():
    large = gt.arange(1_000_000)
    before = sum(stats["bytes_out"] for stats in gt.debug.get_worker_stats().values())
    assert [large[k].item() for k in (5, 500_000)] == [5, 500_000]
    assert sum(stats["bytes_out"] for stats in gt.debug.get_worker_stats().values()) - before < 1000


def test_sums_of_known_numbers_are_known_in_int32_too():
    ix = gt.tensor([5, 6, 2**31 - 1], dtype=gt.int32)
    one = ix[0]
    assert int(one) == 5
    values, reads = counted(lambda: (int(one + 3), int(10 - one), int(one * 2 - 1), int(one + ix[1]), int(ix[2] + 1)))
    assert values == (8, 5, 9, 11, -(2**31)) and reads == 0
    assert (one + 3).tolist() == 8 and (ix[2] + 1).tolist() == -(2**31)
    data = gt.arange(20)
    rows, reads = counted(lambda: [data[i : i + 2] for i in ix[:2]])
    assert reads == 0 and [row.tolist() for row in rows] == [[5, 6], [6, 7]]


@pytest.mark.parametrize("dtype", [gt.int32, gt.int64, gt.float32])
def test_a_large_tensor_is_read_whole_after_some_of_its_numbers(dtype):
    large = gt.arange(50_000).to(dtype)
    values, reads = counted(lambda: [large[k].item() for k in range(0, 50_000, 50)])
    assert values == list(range(0, 50_000, 50)) and reads <= 30, reads


def test_a_tensor_of_megabytes_is_read_number_by_number():
    large = gt.arange(200_000)
    values, reads = counted(lambda: [large[k].item() for k in range(150)])
    assert values == list(range(150)) and reads == 150, reads


def test_a_poisoned_tensor_of_indices_raises():
    gt.synchronize()
    ix = gt.arange(4)[gt.tensor([0, 9])]
    with pytest.raises(IndexError, match="index 9"):
        [int(i) for i in ix]


def test_two_large_tensors_that_are_read_in_turn_are_read_whole_too():
    one, other = gt.arange(50_000), gt.arange(50_000) * 2
    values, reads = counted(lambda: [(one[k].item(), other[k].item()) for k in range(300)])
    assert values == [(k, 2 * k) for k in range(300)] and reads <= 60, reads
