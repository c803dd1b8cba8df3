"""The edges of the surface are PyTorch's: every program of the `edge_cases_*.py` against its recording."""

import json
from pathlib import Path

import pytest
from edge_cases import FAMILIES, programs
from programs import agree, run

import gt

HERE = Path(__file__).parent / "fixtures"
RECORDED = {family.__name__: json.loads((HERE / f"{family.__name__}.json").read_text()) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_the_recording_is_current(family):
    assert list(RECORDED[family.__name__]) == [name for name, _ in programs(family)], "run record_edges.py again"


@pytest.mark.parametrize(
    ("family", "program"), [(family, program) for family, cases in RECORDED.items() for program in cases]
)
def test_program(family, program):
    expected = RECORDED[family][program]["result"]
    actual = run(gt, program)
    assert agree(actual, expected), f"\n{program}\ngave     {actual}\nexpected {expected}"
