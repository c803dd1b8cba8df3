"""Programs written for PyTorch train on GT as they do there, loss by loss."""

import json
import warnings

import pytest
from training_programs import FIXTURE, all_programs

import gt

pytestmark = pytest.mark.timeout(300)
RECORDED = json.loads(FIXTURE.read_text())
# A line search compares numbers that differ by rounding, so its path drifts a little.
TOLERANCE = {"quasi_newton_with_closure": 2e-3}


def test_every_program_is_recorded():
    assert sorted(RECORDED) == sorted(all_programs())


@pytest.mark.recorded
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_program(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actual = [float(value) for value in all_programs()[name](gt)]
    assert actual == pytest.approx(RECORDED[name], rel=TOLERANCE.get(name, 1e-4), abs=1e-5)
