"""What repeats is found, and the statistics say so truly: loops with and without reads, signals that compile, every worker."""

import json

import pytest
from isolated import run

# The worker's statistics of a program, as its last line of output.
STATS = """
import json
def report():
    gt.synchronize()
    print(json.dumps(gt.debug.get_worker_stats()))
"""


def stats_of(program, **variables):
    done = run(f"import gt\n{STATS}\n{program}\nreport()", **variables)
    return json.loads(done.stdout.splitlines()[-1])


def loop(iterations, read=""):
    """Four additions an iteration on tensors of its own."""
    body = "\n".join(f"    x = x + {step}.5" for step in range(4))
    return f"x = gt.zeros(8)\nfor i in range({iterations}):\n{body}\n    {read or 'pass'}\nassert x[0].item() == {iterations} * 8\n"


@pytest.mark.parametrize("iterations, hot", [(100, 0.3), (1000, 0.9)])
def test_a_loop_without_reads_was_not_found(iterations, hot):
    (stats,) = stats_of(loop(iterations)).values()
    assert stats["hot_sequences"] >= 1
    assert hot * stats["total_instructions"] <= stats["hot_instructions"] <= stats["total_instructions"]


def test_a_loop_with_reads_is_found():
    (stats,) = stats_of(loop(100, read="x[1].item()")).values()
    assert stats["hot_instructions"] > 0.8 * stats["total_instructions"]


def test_variables_say_which_loops_are_found_and_how_many_windows_are_joined():
    (short,) = stats_of(loop(1000), GT_HOTPATH_MIN_SEQ=5).values()
    (joined,) = stats_of(loop(1000), GT_HOTPATH_MAX_EXPAND=2).values()
    (more,) = stats_of(loop(1000), GT_HOTPATH_MAX_EXPAND=8).values()
    longest = [max(row["instructions"] for row in stats["top_sequences"]) for stats in (joined, more)]
    assert longest == [64, 256]
    # Cut by count, its windows are of 256 instructions.
    assert short["windows"] < joined["windows"] and more["windows"] < joined["windows"]


def test_results_do_not_depend_on_how_loops_are_cut():
    program = """
        import gt
        gt.manual_seed(3)
        x = gt.randn(64)
        for i in range(150):
            y = x.exp() * 0.25
            x = (y - y.mean()) / (1.0 + i)
            x = x + y.tanh()
        print(x.tolist())
    """
    outputs = {
        run(program, **variables).stdout
        for variables in ({}, {"GT_AUTO_COMPILE": 0}, {"GT_HOTPATH_MIN_SEQ": 100}, {"GT_COMPILE": 1}, {"GT_COMPILE": 0})
    }
    assert len(outputs) == 1


def test_a_signal_that_compiles_had_no_effect():
    program = """
gt.register_config("hot", gt.SignalConfig(compile=True))
x = gt.ones(8)
for i in range(2):
    with gt.signal.context("hot"):
        y = (x * 2.0).reshape(2, 4).exp().sum()
    x = x + y
    x.sum().item()
"""
    (stats,) = stats_of(program).values()
    assert stats["compiled_windows"] == 2, "both windows of the scope, and nothing else"
    assert 0 < stats["operations"]["compiled"] < stats["operations"]["total"]


def test_the_threshold_without_automatic_compilation_is_the_one_that_was_set():
    (stats,) = stats_of(loop(1000), GT_AUTO_COMPILE=0).values()
    assert stats["hot_threshold"] == 5 and stats["compiled_windows"] == 0


TRAIN_ON_TWO = """
gt.register_config("split", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
w = gt.ones(16, 16)
for i in range(40):
    with gt.signal.context("split"):
        x = gt.ones(8, 16) * float(i)
        y = (x @ w).relu().sum(0)
    y.sum().item()
"""


def test_every_worker_of_a_group_tells_the_truth():
    everything = stats_of("gt.gpu_workers(2)\n" + TRAIN_ON_TWO)
    assert len(everything) == 2
    for stats in everything.values():
        assert 0 < stats["total_instructions"] >= stats["compiled_instructions"] > 0
        assert stats["hot_instructions"] <= stats["total_instructions"]
        assert stats["compilation_stats"]["cache_size"] > 0
        assert stats["compilation_stats"]["avg_ops_per_compilation"] > 0
        assert sum(stats["family_ns"].values()) > 0
