"""Every function and module answers as PyTorch does, forward and backward, in both precisions; wrong use raises its class."""

import json

import pytest
from nn_case_tables import REPRS, TABLES
from nn_recording import FIXTURES, TOLERANCE, differences, load, run

import gt
import gt.nn

RECORDED = {name: load(f"{name}.json") for name in TABLES}
CASES = [(name, program) for name, cases in RECORDED.items() for program in cases]


@pytest.mark.recorded
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("table, program", CASES, ids=[program for _, program in CASES])
def test_program(table, program, dtype):
    actual = run(gt, program, dtype)
    wrong = differences(actual, RECORDED[table][program], TOLERANCE[dtype])
    assert not wrong, "\n".join(wrong)


def test_every_case_is_recorded():
    for name, cases in TABLES.items():
        assert list(dict.fromkeys(cases)) == list(RECORDED[name]), f"record {name} again"


PRINTED = json.loads((FIXTURES / "reprs.json").read_text())


@pytest.mark.parametrize("made", REPRS)
def test_repr(made):
    assert repr(eval(made, {"nn": gt.nn, "T": gt, "F": gt.nn.functional})) == PRINTED[made]


STORED = load("states.json")


@pytest.mark.parametrize("made", STORED)
def test_state_dict_is_pytorchs(made):
    """Names, order, shapes and dtypes: so checkpoints interchange."""
    module = eval(made, {"nn": gt.nn, "T": gt, "F": gt.nn.functional})
    state = {n: [list(t.shape), str(t.dtype).rpartition(".")[2]] for n, t in module.state_dict().items()}
    expected = STORED[made]
    assert list(state.items()) == list(expected["state"].items())
    assert [n for n, _ in module.named_parameters()] == expected["parameters"]
    assert [n for n, _ in module.named_buffers()] == expected["buffers"]
    assert [n for n, _ in module.named_modules()] == expected["modules"]
    assert repr(module.load_state_dict(module.state_dict())) == "<All keys matched successfully>"
