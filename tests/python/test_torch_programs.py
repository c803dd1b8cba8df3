"""Every program of `torch_cases.py` answers as PyTorch did when it was recorded."""

import pytest
from programs import LEFT_OUT, agree, constant_conditions, load, run
from torch_cases import CASES

import gt

RECORDED = load("programs.json")
# What GT answers where PyTorch has no kernel. GT refuses the other programs that were left out.
WITHOUT_KERNEL = load("programs_without_kernel.json")
REFUSED = {"raises": "RuntimeError"}


def expected(program):
    recorded = RECORDED[program]["result"]
    if recorded != LEFT_OUT:
        return recorded
    return WITHOUT_KERNEL[program]["result"] if program in WITHOUT_KERNEL else REFUSED


def test_the_recording_is_current():
    assert list(RECORDED) == [name for name, _ in CASES], "run record_programs.py again"
    assert not [program for program in RECORDED if constant_conditions(program)]
    left_out = {program for program, entry in RECORDED.items() if entry["result"] == LEFT_OUT}
    assert WITHOUT_KERNEL.keys() <= left_out, "PyTorch has a kernel for these now: remove them"


@pytest.mark.recorded
@pytest.mark.parametrize("program", RECORDED)
def test_program(program):
    actual = run(gt, program)
    assert agree(actual, expected(program)), f"\n{program}\ngave     {actual}\nexpected {expected(program)}"
