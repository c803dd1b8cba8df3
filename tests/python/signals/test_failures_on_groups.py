"""Failures on a group: every worker that met one has it, and it is raised once."""

import pytest

import gt


@pytest.fixture(autouse=True)
def three_workers():
    """Each test leaves the session as it found it."""
    gt.gpu_workers(3)
    gt.register_config("everywhere", gt.SignalConfig(replicated=True))
    yield
    gt.gpu_workers(1)


def test_a_failure_behind_one_that_a_read_had_raised_came_up_twice():
    with gt.signal.context("everywhere"):
        first, second = gt.ones(1), gt.ones(1)
        bad = gt.arange(3.0)[gt.tensor([7])]
        first += bad
        with pytest.raises(IndexError, match="7"):
            bad.tolist()
        second += gt.arange(3.0)[gt.tensor([8])]
    with pytest.raises(IndexError, match="8"):
        gt.synchronize()
    gt.synchronize()
    assert first.tolist() == second.tolist() == [1]


def test_two_failures_are_raised_one_after_the_other():
    with gt.signal.context("everywhere"):
        first, second = gt.ones(1), gt.ones(1)
        first += gt.arange(3.0)[gt.tensor([7])]
        second += gt.arange(3.0)[gt.tensor([8])]
    for index in ("7", "8"):
        with pytest.raises(IndexError, match=index):
            gt.synchronize()
    gt.synchronize()
    assert first.tolist() == second.tolist() == [1]


def test_a_failure_of_the_next_step_at_the_same_line_is_raised():
    weight = gt.ones(1)
    for index in (7, 8, 9):
        with gt.signal.context("everywhere"):
            rows = gt.arange(3.0)[gt.tensor([index])]
            weight += rows
        with pytest.raises(IndexError, match=str(index)):
            weight.tolist()
        assert weight.tolist() == [1]
