"""Every example runs, at a reduced size and in a process of its own, and says clearly what is wrong with its arguments."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gt

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(gt.__file__).resolve().parents[1]), "PYTHONUNBUFFERED": "1"}
TEXT = "".join(f"{n} times {n + 1} is {n * (n + 1)}; the quick brown fox jumps over it.\n" for n in range(200))
SMALL = ["--size", "tiny", "--batch-size", "4", "--seq-len", "16", "--log-every", "2"]


def final_losses(out):
    return [float(x) for x in re.search(r"loss ([\d.]+) → ([\d.]+)", out).groups()]


@pytest.mark.parametrize("name", ["data_parallel", "tensor_parallel", "pipeline", "qwen3_parallel"])
def test_parallel_training_is_the_same_with_and_without_its_config(name, text, monkeypatch):
    # A server of the tests has as many workers as it has; these need four.
    monkeypatch.delitem(ENVIRONMENT, "GT_ADDRESS", raising=False)
    arguments = ["--steps", 21, *(["--data", text, "--seq-len", 16] if name == "qwen3_parallel" else [])]
    monkeypatch.delitem(ENVIRONMENT, "GT_CONFIG", raising=False)
    alone = run(f"{name}.py", *arguments)
    assert "is not configured and is ignored" in alone
    assert (
        f"GT_CONFIG is not set: everything runs on one worker. The file that splits it is examples/{name}.yaml" in alone
    )
    monkeypatch.setitem(ENVIRONMENT, "GT_CONFIG", str(EXAMPLES / f"{name}.yaml"))
    together = run(f"{name}.py", *arguments)
    assert "ignored" not in together and "skipped" not in together and "GT_CONFIG" not in together
    (start, end), losses = final_losses(alone), final_losses(together)
    assert end < start and losses == pytest.approx([start, end], abs=1e-4)


@pytest.mark.parametrize("automatic", ["0", "1"])
def test_scaling(automatic, monkeypatch):
    monkeypatch.delitem(ENVIRONMENT, "GT_ADDRESS", raising=False)
    monkeypatch.setitem(ENVIRONMENT, "GT_AUTO_SHARD", automatic)
    out = run("scaling.py", "--workers", 1, 2, 3, "--steps", 2, "--batch-size", 32, "--width", 32)
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["1", "2", "3"]


def command(name, *arguments):
    return [sys.executable, str(EXAMPLES / name), *map(str, arguments)]


def run(name, *arguments, code=0):
    """What the example prints; its exit code must be `code`."""
    done = subprocess.run(command(name, *arguments), capture_output=True, text=True, env=ENVIRONMENT, timeout=100)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_mlp():
    out = run("mlp.py", "--steps", 300, "--points", 100, "--hidden", 48, "--min-accuracy", 0.85)
    assert "300 steps" in out and "└" in out and "accuracy" in out


def test_mlp_fails_below_the_accuracy_asked_for():
    assert "below 100.0%" in run("mlp.py", "--steps", 2, "--points", 50, "--min-accuracy", 1.0, code=1)


def test_cnn():
    out = run("cnn.py", "--images", 1500, "--epochs", 5, "--min-accuracy", 0.75)
    assert "circle, square, triangle" in out and "images/s" in out


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("mlp.py", ["--steps", "0"], "must be at least 1"),
        ("cnn.py", ["--epochs", "0"], "must be at least 1"),
        ("cnn.py", ["--batch-size", "1"], "--batch-size must be at least 2"),
        ("cnn.py", ["--images", "10", "--batch-size", "20"], "at most --images"),
        ("qwen3.py", ["--size", "huge"], "invalid choice"),
        ("qwen3.py", ["--steps", "0"], "--steps must be at least 1, not 0"),
        ("qwen3.py", ["--batch-size", "-2"], "--batch-size must be at least 1, not -2"),
        ("qwen3.py", ["--seq-len", "0"], "--seq-len must be at least 1"),
        ("qwen3.py", ["--accumulate", "0"], "--accumulate must be at least 1"),
        ("qwen3.py", ["--warmup", "-1"], "--warmup must not be negative"),
        ("qwen3.py", ["--lr", "0"], "--lr must be positive"),
        ("qwen3.py", ["--lr", "nan"], "--lr must be positive"),
        ("qwen3.py", ["--epochs", "1", "--steps", "1"], "--epochs or --steps, not both"),
        ("qwen3.py", ["--checkpoint-every", "5"], "--checkpoint-every needs --checkpoint-dir"),
        ("qwen3.py", ["--resume"], "--resume needs a path"),
        ("qwen3.py", ["--sample", ""], "--sample needs a prompt"),
    ],
)
def test_wrong_arguments(name, arguments, message):
    assert message in run(name, *arguments, code=2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--data", "/no/such/place"], "there is no /no/such/place"),
        (["--resume", "/no/such/place"], "there is no checkpoint"),
        (["--seq-len", "100000"], "choose a smaller --batch-size or --seq-len"),
        (["--accumulate", "100000", "--epochs", "1"], "--accumulate asks for more batches than there are"),
    ],
)
def test_arguments_that_do_not_fit(text, arguments, message):
    assert message in run("qwen3.py", *SMALL, "--data", text, *arguments, code=1)


def test_qwen3_learns_logs_and_writes(text, tmp_path):
    arguments = ["--data", text, "--steps", 60, "--lr", 5e-3, "--logdir", tmp_path / "log", "--max-loss", 3.5]
    out = run("qwen3.py", *SMALL, *arguments, "--sample", "12 times ", "--sample-tokens", 40)
    first, last = map(float, re.search(r"loss ([\d.]+) → ([\d.]+)", out).groups())
    assert 5.0 < first < 6.0 and last < 3.5
    assert "tokens/s" in out and "peak memory" in out and "\n12 times " in out
    assert any("tfevents" in path.name for path in (tmp_path / "log").rglob("*"))
    assert "above 0.1" in run("qwen3.py", *SMALL, "--data", text, "--steps", 2, "--max-loss", 0.1, code=1)


def test_qwen3_reads_folders(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.md").write_text(TEXT)
    (tmp_path / "b.rs").write_text(TEXT)
    (tmp_path / "picture.png").write_bytes(b"\0\1\2" * 1000)
    (tmp_path / ".hidden").write_text(TEXT)
    out = run("qwen3.py", *SMALL, "--data", tmp_path, "--steps", 1)
    assert f"{2 * len(TEXT) / 1000:.3g}k tokens of text" in out
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "there is no text in" in run("qwen3.py", *SMALL, "--data", empty, "--steps", 1, code=1)


def final_state(folder):
    return gt.load(sorted(folder.glob("step-*.safetensors"))[-1])


def flat(state, prefix=""):
    """A nested state as one dict of plain values."""
    pairs = state.items() if isinstance(state, dict) else enumerate(state)
    found = {}
    for name, value in pairs:
        if isinstance(value, (dict, list, tuple)):
            found |= flat(value, f"{prefix}{name}/")
        else:
            found[f"{prefix}{name}"] = value.tolist() if isinstance(value, gt.Tensor) else value
    return found


def test_qwen3_resumes_exactly(text, tmp_path):
    arguments = [*SMALL, "--data", text, "--steps", 12]
    run("qwen3.py", *arguments, "--checkpoint-dir", tmp_path / "whole")
    parts = tmp_path / "parts"
    run("qwen3.py", *arguments, "--checkpoint-dir", parts, "--checkpoint-every", 5)
    assert [path.stem for path in sorted(parts.iterdir())] == ["step-0000010", "step-0000012"]
    (parts / "step-0000012.safetensors").unlink()
    out = run("qwen3.py", *arguments, "--checkpoint-dir", parts, "--resume")
    assert "from step 10" in out
    whole, resumed = final_state(tmp_path / "whole"), final_state(parts)
    assert len(whole["losses"]) == 12
    assert flat(resumed) == flat(whole)


def test_qwen3_refuses_the_checkpoint_of_another_run(text, tmp_path):
    arguments = [*SMALL, "--data", text, "--checkpoint-dir", tmp_path / "c"]
    run("qwen3.py", *arguments, "--steps", 2)
    out = run("qwen3.py", *arguments, "--steps", 4, "--lr", 0.5, "--resume", code=1)
    assert "belongs to another run" in out and "lr was 0.001 and is 0.5" in out and "total was 2 and is 4" in out
    (path,) = (tmp_path / "c").iterdir()
    path.write_bytes(path.read_bytes()[:200])
    assert "cannot be read" in run("qwen3.py", *arguments, "--steps", 2, "--resume", code=1)


def losses(text, folder, *arguments):
    run("qwen3.py", *SMALL, "--data", text, "--steps", 6, "--checkpoint-dir", folder, *arguments)
    return final_state(folder)["losses"]


def test_qwen3_ways_to_the_same_gradients(text, tmp_path):
    plain = losses(text, tmp_path / "a")
    assert losses(text, tmp_path / "b", "--grad-checkpoint") == pytest.approx(plain, abs=1e-5)
    assert losses(text, tmp_path / "c", "--accumulate", 2, "--batch-size", 2) == pytest.approx(plain, abs=1e-4)
    assert losses(text, tmp_path / "d", "--amp") == pytest.approx(plain, abs=0.05)
    assert losses(text, tmp_path / "e", "--seed", 1) != pytest.approx(plain, abs=1e-3)


def test_qwen3_saves_on_interrupt(text, tmp_path):
    arguments = [*SMALL, "--data", text, "--steps", 100_000, "--checkpoint-dir", tmp_path / "c"]
    process = subprocess.Popen(
        command("qwen3.py", *arguments, "--logdir", tmp_path / "log"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        assert "100000 steps" in process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=50)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in errors
    path = Path(re.search(r"--resume (\S+)", out)[1])
    state = gt.load(path)
    assert state["step"] == len(state["losses"]) > 0


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_qwen3_says_that_torch_is_missing(text):
    assert "torch cannot be imported" in run("qwen3.py", *SMALL, "--data", text, "--steps", 1, "--pytorch", code=1)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_qwen3_on_pytorch(text):
    out = run("qwen3.py", *SMALL, "--data", text, "--steps", 3, "--pytorch", "--sample", "12 ", "--sample-tokens", 5)
    assert "on torch" in out


@pytest.mark.skipif(importlib.util.find_spec("tokenizers") is not None, reason="tokenizers is installed")
def test_qwen3_says_that_tokenizers_is_missing(text):
    out = run("qwen3.py", *SMALL, "--data", text, "--tokenizer", "tokenizer.json", "--steps", 1, code=1)
    assert "needs the package `tokenizers`" in out


def test_help_needs_no_framework():
    start = time.perf_counter()
    out = run("qwen3.py", "--help")
    assert "--grad-checkpoint" in out and time.perf_counter() - start < 5
