"""The examples behind docs/tutorials run, and every form of a loop computes the same."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from isolated import environment

import gt

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
EXAMPLE = EXAMPLES / "slow_loop.py"


@pytest.mark.timeout(120)
def test_the_slow_loop_gets_fast():
    command = [sys.executable, str(EXAMPLE), "--seconds", "0.05", "--workers", "1"]
    variables = environment(PYTHONPATH=Path(gt.__file__).resolve().parents[1])
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=100)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ") and "form" not in line]
    assert len(rows) == 6 and "suggested:" in done.stdout, done.stdout
    rates = [int(row.split("|")[3]) for row in rows]
    assert rates[4] > 2 * rates[0], done.stdout


@pytest.mark.timeout(120)
def test_the_slow_files_get_fast():
    command = [sys.executable, str(EXAMPLES / "slow_files.py"), "--files", "12", "--events", "300", "--pool", "6"]
    variables = environment(PYTHONPATH=Path(gt.__file__).resolve().parents[1])
    done = subprocess.run([*command, "--seconds", "0.3"], capture_output=True, text=True, env=variables, timeout=100)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| ") and "form" not in line]
    assert len(rows) == 7, done.stdout
    rates, effects = [int(row[3]) for row in rows], [float(row[5]) for row in rows]
    assert min(rates[1:]) > 5 * rates[0], done.stdout
    # File by file mixes little, a pool more, the whole best.
    assert effects[2] > effects[3] > effects[6], done.stdout


def test_the_forms_of_the_loop_compute_the_same():
    spec = importlib.util.spec_from_file_location("slow_loop", EXAMPLE)
    slow_loop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(slow_loop)
    dataset = slow_loop.Episodes(4)
    items = [dataset[i] for i in range(4)]
    lists, arrays = slow_loop.collate_lists(items), slow_loop.collate_arrays(items)
    longest = lists["states"].shape[1]
    assert (arrays["states"][:, :longest] == lists["states"]).all() and not arrays["states"][:, longest:].any()
    quick, looping = slow_loop.Critic(), slow_loop.LoopingCritic()
    looping.load_state_dict(quick.state_dict())
    slow = looping(slow_loop.as_tensors(lists))
    assert gt.allclose(quick(slow_loop.as_tensors(arrays)), slow, atol=1e-5)
