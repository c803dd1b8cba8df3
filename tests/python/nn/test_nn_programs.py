"""A thousand small programs over modules, functions, optimizers and schedules give what they give on PyTorch."""

import json
from pathlib import Path

import pytest
from nn_program_space import Space, agree

import gt

ROWS = json.loads((Path(__file__).parent / "fixtures" / "nn_programs.json").read_text())


@pytest.mark.recorded
@pytest.mark.parametrize("program, expected", ROWS, ids=range(len(ROWS)))
def test_program(program, expected):
    actual = Space(gt).run(program)
    assert agree(actual, expected), f"{program}\ngave     {actual}\nexpected {expected}"


def test_a_wrong_result_is_noticed():
    one = Space(gt).written(gt.ones(2))
    assert agree(one, one) and not agree(Space(gt).written(gt.ones(2) * 1.001), one)
    assert not agree({"raises": "TypeError"}, {"raises": "ValueError"})
