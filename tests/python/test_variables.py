"""Variables of GT that are not there, and values that do not parse."""

import subprocess
import sys

import pytest
from isolated import environment, run

USE = "import gt; print(gt.ones(3).sum().item())"


@pytest.mark.parametrize(
    "name, value",
    [
        ("GT_VERIFY_REPLAY", "zzz"),
        ("GT_HOTPATH_MIN_SEQ", "zzz"),
        ("GT_HOTPATH_MAX_EXPAND", "0"),
        ("GT_INSTRUCTION_LOG_FULL", "maybe"),
        ("GT_BACKEND", "gpu"),
        ("GT_DATA_ON_WORKERS", "zzz"),
    ],
)
def test_a_value_that_does_not_parse_is_an_error_that_names_the_variable(name, value):
    done = run(USE, check=False, **{name: value})
    assert done.returncode == 1 and f'ValueError: {name}="{value}" is not valid' in done.stderr, done.stderr


def test_an_unknown_variable_is_warned_of_once_with_the_nearest_name():
    done = run(
        USE + "\ngt.ones(2).sum().item(); gt.register_config('a', gt.SignalConfig(replicated=True))", GT_NUM_TREADS=2
    )
    assert done.stdout == "3.0\n"
    assert done.stderr.count("unknown environment variable GT_NUM_TREADS; did you mean GT_NUM_THREADS?") == 1, (
        done.stderr
    )


def test_an_unknown_variable_is_warned_of_if_the_program_starts_with_gpu_workers():
    for workers in (1, 2):
        done = run(f"import gt\ngt.gpu_workers({workers})\nprint(gt.ones(3).sum().item())", GT_NUM_TREADS=2)
        assert done.stderr.count("unknown environment variable GT_NUM_TREADS") == 1, (workers, done.stderr)


def test_a_variable_without_an_effect_says_so():
    done = run(USE, GT_VERIFY_REPLAY=3)
    assert "GT_VERIFY_REPLAY has no effect in this version" in done.stderr


def test_variables_that_are_known_say_nothing():
    assert run(USE, GT_NUM_THREADS=1, GT_COMPILE=0, GT_CACHE_DIR="/tmp").stderr == ""


def test_a_backend_that_is_not_there_is_an_error():
    done = run(USE, check=False, GT_BACKEND="cuda")
    assert done.returncode == 1 and "GT_BACKEND=cuda: this build of GT has no CUDA engine" in done.stderr


# Runs a command on a machine whose NVIDIA driver is there, as far as this command and its children can see.
WITH_GPU = (
    *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
    'mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus && exec "$@"',
    "sh",
)


def can_show_a_gpu():
    try:
        return subprocess.run([*WITH_GPU, "true"], capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_show_a_gpu(), reason="this machine allows no mounts of one's own")
@pytest.mark.parametrize(
    ("variables", "told"),
    [({}, 1), ({"GT_BACKEND": "auto"}, 1), ({"GT_BACKEND": "cpu"}, 0), ({"GT_BACKEND": "reference"}, 0)],
)
def test_auto_did_not_say_that_it_leaves_a_gpu_unused(variables, told):
    # Two sessions in one process: it is said once.
    program = "import gt\nprint(gt.ones(3).sum().item(), gt.cuda.is_available())\ngt.disconnect()\ngt.ones(2).tolist()"
    command = [*WITH_GPU, sys.executable, "-c", program]
    done = subprocess.run(command, env=environment(**variables), timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "3.0 False\n"), done.stderr
    assert done.stderr.count("this machine has an NVIDIA GPU, but this version of GT has no GPU engine") == told


def test_a_device_that_is_a_hint_says_so_once_when_asked():
    program = (
        "import gt\nx = gt.zeros(2).cuda(); y = gt.ones(2, device='cuda')\nprint(x.device, gt.cuda.is_available())"
    )
    said = run(program, GT_VERBOSE=1)
    assert said.stdout == "cuda False\n"
    assert said.stderr.count("device 'cuda' is only a hint") == 1, said.stderr
    assert "hint" not in run(program).stderr
