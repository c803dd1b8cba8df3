"""Every program of `torch_cases.py` answers as PyTorch did when it was recorded."""

import pytest
from programs import agree, load, run
from torch_cases import CASES

import gt

RECORDED = load("programs.json")


def test_the_recording_is_current():
    assert set(RECORDED) <= {name for name, _ in CASES}, "run record_programs.py again"
    assert len(RECORDED) > 0.9 * len(CASES)


@pytest.mark.parametrize("program", RECORDED)
def test_program(program):
    expected = RECORDED[program]["result"]
    actual = run(gt, program)
    assert agree(actual, expected), f"\n{program}\ngave     {actual}\nexpected {expected}"
