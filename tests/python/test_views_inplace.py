"""Views and in-place writes alias as in PyTorch: every case of `view_cases.py` against its recording."""

import pytest
from programs import agree, load, run
from view_cases import CASES

import gt

RECORDED = load("views.json")


def test_the_recording_is_current():
    assert {name: case["program"] for name, case in RECORDED.items()} == dict(CASES), "run record_views.py again"
    assert len(RECORDED) >= 120


@pytest.mark.recorded
@pytest.mark.parametrize("name", RECORDED)
def test_case(name):
    case = RECORDED[name]
    actual = run(gt, case["program"])
    assert agree(actual, case["result"]), f"\n{case['program']}\ngave     {actual}\nexpected {case['result']}"
