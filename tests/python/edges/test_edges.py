"""The edges of the surface are PyTorch's: every program of the `edge_cases_*.py` against its recording."""

import json
import re
from pathlib import Path

import pytest
from edge_cases import FAMILIES, programs
from programs import agree, constant_conditions, run

import gt

HERE = Path(__file__).parent / "fixtures"
RECORDED = {family.__name__: json.loads((HERE / f"{family.__name__}.json").read_text()) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_the_recording_is_current(family):
    assert list(RECORDED[family.__name__]) == [name for name, _ in programs(family)], "run record_edges.py again"
    assert not [program for program in RECORDED[family.__name__] if constant_conditions(program)]


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("family", "program"), [(family, program) for family, cases in RECORDED.items() for program in cases]
)
def test_program(family, program):
    expected = RECORDED[family][program]["result"]
    actual = run(gt, program)
    assert agree(actual, expected), f"\n{program}\ngave     {actual}\nexpected {expected}"


def refused_writes():
    (family,) = (family for family in FAMILIES if family.__name__ == "edge_cases_inplace")
    return [
        program for program, case in RECORDED[family.__name__].items() if case["result"] == {"raises": "RuntimeError"}
    ]


def test_a_write_was_refused_for_another_reason_than_the_value_it_replaces():
    programs = refused_writes()
    assert len(programs) > 8
    wrong = []
    for program in programs:
        with pytest.raises(RuntimeError) as raised:
            exec(compile(program, "<program>", "exec"), {"T": gt})
        if not re.search("modified by an inplace operation|a leaf Variable that requires grad", str(raised.value)):
            wrong.append(f"{program}: {raised.value}")
    assert not wrong, "\n".join(wrong)
