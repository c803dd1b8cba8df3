"""Every optimizer walks where PyTorch's walks, and its state is PyTorch's."""

import importlib
import json
import pathlib

import numpy as np
import optim_cases as cases
import pytest

import gt
import gt.optim

HERE = pathlib.Path(__file__).parent
RECORDED = json.loads((HERE / "optim.json").read_text())
HISTORIES = np.load(HERE / "optimizers.npz")
CASES = list(cases.cases())


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-9), ("float32", 1e-6)])
@pytest.mark.parametrize("name, kind, options, variation", CASES, ids=[case[0] for case in CASES])
def test_twenty_steps(name, kind, options, variation, dtype, tolerance):
    if variation == "tensor_lr" or kind in ("ASGD", "NAdam"):
        # A rate in a float32 tensor, and counters that PyTorch rounds to float32.
        tolerance = max(tolerance, 1e-6)
    _, _, history = cases.run(gt, kind, options, variation, dtype)
    np.testing.assert_allclose(history.numpy(), HISTORIES[f"{name}/{dtype}"], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name, kind, options, variation", CASES, ids=[case[0] for case in CASES])
def test_state_after_twenty_steps(name, kind, options, variation):
    optimizer, _, _ = cases.run(gt, kind, options, variation, "float64")
    state = optimizer.state_dict()["state"]
    expected = RECORDED["states"][name]
    assert [str(key) for key in state] == list(expected)
    for index, entry in expected.items():
        ours = state[int(index)]
        assert sorted(ours) == sorted(entry)
        for key, values in entry.items():
            assert isinstance(ours[key], gt.Tensor), key
            np.testing.assert_allclose(ours[key].numpy().ravel(), values, rtol=2e-6, atol=1e-7, err_msg=key)


def restored(value):
    """What `record_optim.plain` wrote, with GT's tensors."""
    if isinstance(value, list):
        return [restored(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return gt.tensor(value["tensor"], dtype=getattr(gt, value["dtype"]))
    if "tuple" in value:
        return tuple(restored(inner) for inner in value["tuple"])
    return {key: restored(inner) for key, inner in value["dict"]}


@pytest.mark.parametrize("kind", cases.VARIED)
def test_a_state_dict_of_pytorch_goes_on_where_it_stopped(kind):
    half = RECORDED["resumed"][kind]
    params, scales = cases.parameters(gt, "float64")
    for param, stored in zip(params, half["params"]):
        param.data = restored(stored)
    optimizer = getattr(gt.optim, kind)(params, lr=123.0)
    optimizer.load_state_dict(restored(half["state"]))
    index = [case[0] for case in CASES if case[1] == kind and case[2] == cases.VARIED[kind] and case[3] == "closure"]
    expected = HISTORIES[f"{index[0]}/float64"]
    for step in range(10, cases.STEPS):
        optimizer.zero_grad()
        cases.loss_of(params, scales).backward()
        optimizer.step()
        now = np.concatenate([p.detach().numpy().ravel() for p in params])
        np.testing.assert_allclose(now, expected[step], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", cases.VARIED)
def test_the_layout_of_a_state_dict_is_pytorchs(kind):
    half = RECORDED["resumed"][kind]
    theirs = restored(half["state"])

    seen = {}

    def visit(step, optimizer):
        if step == 9:
            seen.update(optimizer.state_dict())

    cases.run(gt, kind, cases.VARIED[kind], None, "float64", visit)
    assert sorted(seen) == sorted(theirs)
    assert list(seen["state"]) == list(theirs["state"])
    for ours, group in zip(seen["param_groups"], theirs["param_groups"]):
        assert ours == group
    for index, entry in theirs["state"].items():
        assert set(seen["state"][index]) == set(entry)
        for key, value in entry.items():
            ours = seen["state"][index][key]
            assert type(ours) is type(value) and ours.shape == value.shape and ours.dtype == value.dtype, key


@pytest.mark.parametrize("i", range(len(cases.LBFGS)))
def test_lbfgs(i):
    expected = RECORDED["lbfgs"][i]
    ours = cases.rosenbrock(gt, **cases.LBFGS[i])
    np.testing.assert_allclose(ours["points"], expected["points"], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(ours["losses"], expected["losses"], rtol=1e-6, atol=1e-9)
    assert (ours["n_iter"], ours["func_evals"]) == (expected["n_iter"], expected["func_evals"])


FUSED = [case for case in CASES if case[1] in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop")]


@pytest.mark.parametrize("name, kind, options, variation", FUSED, ids=[case[0] for case in FUSED])
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 2e-6)])
def test_one_instruction_and_many_operations_agree(monkeypatch, name, kind, options, variation, dtype, tolerance):
    one, _, fused = cases.run(gt, kind, options, variation, dtype)
    module = importlib.import_module(f"gt.optim.{'adam' if kind == 'AdamW' else kind.lower()}")
    monkeypatch.setattr(module, "one_instruction", lambda lr: False)
    many, _, composed = cases.run(gt, kind, options, variation, dtype)
    np.testing.assert_allclose(fused.numpy(), composed.numpy(), rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(one.state.values(), many.state.values(), strict=True):
        assert list(ours) == list(theirs)
        for key, value in ours.items():
            if isinstance(value, gt.Tensor):
                np.testing.assert_allclose(value.numpy(), theirs[key].numpy(), rtol=1e-5, atol=1e-7)
            else:
                assert value == theirs[key]
