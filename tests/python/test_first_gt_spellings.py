"""Ways of writing that scripts for the first GT have."""

import json

import numpy as np
import pytest
from isolated import run

import gt


def test_from_numpy_takes_requires_grad():
    x = gt.from_numpy(np.ones(3, dtype=np.float32), requires_grad=True)
    assert x.requires_grad and x.is_leaf
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool"])
def test_dtypes_are_equal_to_their_names_and_to_those_of_numpy(name):
    x = gt.zeros(2).to(getattr(gt, name))
    of_numpy = np.dtype(name)
    assert x.dtype == name and name == x.dtype and hash(x.dtype) == hash(name)
    assert x.dtype == of_numpy and x.dtype == of_numpy.type
    assert {name: 1}[x.dtype] == 1
    assert x.dtype != "something" and x.dtype != np.complex64 and not (x.dtype != name)
    for given in (name, of_numpy, of_numpy.type):
        assert gt.zeros(2, dtype=given).dtype is x.dtype
        assert x.to(given).dtype is x.dtype


def test_a_name_that_is_no_dtype_is_an_error():
    with pytest.raises(TypeError, match="unknown dtype 'float33': GT has bool"):
        gt.zeros(2, dtype="float33")


@pytest.mark.parametrize("name", "sum mean prod max min any all std var argmax argmin cumsum".split())
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions_of_numpy(name, axis):
    values = np.array([[1.0, 5.0, 2.0], [4.0, 0.5, 3.0]], dtype=np.float32)
    function = getattr(np, name)
    ours = function(gt.from_numpy(values), axis=axis)
    np.testing.assert_allclose(np.asarray(ours), function(values, axis=axis), rtol=1e-6)


def test_reductions_of_numpy_keep_axes_and_change_dtypes():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = gt.from_numpy(values)
    assert np.mean(x, axis=1, keepdims=True).shape == (2, 1)
    assert np.sum(x, dtype=np.float64).dtype == np.float64
    np.testing.assert_allclose(np.std(x, ddof=1).item(), np.std(values, ddof=1), rtol=1e-6)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        x.sum(nothing=1)


def test_functions_of_networks_under_nn():
    x = gt.tensor([-1.0, 0.0, 2.0])
    assert gt.nn.relu(x).tolist() == [0, 0, 2]
    assert gt.nn.sigmoid(x).tolist() == gt.sigmoid(x).tolist()
    assert gt.nn.tanh(x).tolist() == gt.tanh(x).tolist()


def test_a_signal_over_all_workers_by_null(tmp_path):
    path = tmp_path / "signals.yaml"
    path.write_text("all_of_them:\n  shard: {axis: 0, workers: null}\nwhole:\n  shard: {axis: 0, replicated: true}\n")
    gt.load_config(path)
    assert gt.get_signal_config("all_of_them") == gt.SignalConfig(gt.ShardConfig(axis=0))
    assert gt.get_signal_config("whole").replicated


def test_a_shard_config_cuts_axis_0_unless_it_is_replicated():
    assert gt.ShardConfig(workers=[0, 1]).axis == 0
    assert gt.ShardConfig(replicated=True).axis is None and gt.ShardConfig(axis=1, replicated=True).axis is None
    assert gt.ShardConfig(axis=None).replicated
    gt.register_config("two", gt.SignalConfig(shard=gt.ShardConfig(replicated=True)))
    assert gt.get_config().get_signal("two").replicated
    assert gt.get_config().get_signal("nothing of the kind") is None


def test_the_signal_that_is_current():
    gt.register_config("outer", gt.SignalConfig(replicated=True))
    assert gt.signal.current_signal() is None
    with gt.signal.context("outer"):
        assert gt.signal.current_signal() == "outer"
    assert gt.signal.current_signal() is None


def test_a_sharded_tensor_names_the_signal_of_its_gradient():
    gt.register_config("there", gt.SignalConfig(replicated=True, backward_signal="in_the_config"))
    gt.register_config("back", gt.SignalConfig(replicated=True))
    gt.register_config("in_the_config", gt.SignalConfig(replicated=True))
    for named, expected in ((None, "in_the_config"), ("back", "back")):
        x = gt.ones(2, requires_grad=True)
        seen = []
        y = gt.signal.tensor(x, name="there", backward_name=named)
        y.register_hook(lambda grad, seen=seen: seen.append(gt._core.signal_name(gt._core.signal_scope())))
        y.sum().backward()
        assert x.grad.tolist() == [1, 1] and seen == [expected]


def test_a_shard_config_of_workers_replicated_in_silence():
    # A tensor of 1 MiB, and what each of two workers holds of it.
    program = """
    import gt
    gt.gpu_workers(2)
    gt.register_config("two", gt.SignalConfig(shard=gt.ShardConfig(workers=[0, 1])))
    with gt.signal.context("two"):
        x = gt.ones(512, 512)
    gt.synchronize()
    print(*(stats["live_bytes"] for stats in gt.debug.get_worker_stats().values()), x.sum().item())
    """
    *held, total = run(program).stdout.split()
    assert held == [str(512 << 10)] * 2 and total == f"{512 * 512}.0"


def test_statistics_of_the_first_gt():
    program = """
    import gt, json
    for _ in range(3):
        x = gt.ones(3)
        for _ in range(10):
            x = x * 2 + 1
        x.sum().item()
    (stats,) = gt.debug.get_worker_stats().values()
    print(json.dumps(stats))
    """
    stats = json.loads(run(program, GT_COMPILE=1).stdout)
    for compilation in (stats["compilation"], stats["compilation_stats"]):
        assert compilation["cache_size"] == compilation["num_cached_graphs"] > 0
        average = stats["compiled_instructions"] / stats["compiled_windows"]
        assert compilation["avg_ops_per_compilation"] == average >= 5, stats
    stats = json.loads(run(program, GT_COMPILE=0).stdout)
    assert stats["compilation"]["avg_ops_per_compilation"] == 0
