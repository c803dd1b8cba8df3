"""Checkpoints of a training run: everything needed to go on as if nothing had happened.

TRAINING-STATE-1: a file is written under another name and renamed when it is whole, so a crash leaves the older one as it was.
TRAINING-STATE-2: model, optimizer, schedule, random numbers and position in the data are all in it; the arguments too, and a run
with other ones that matter is refused.
"""

import os
from pathlib import Path

KEPT = 2


def suffix(T):
    """GT stores tensors as safetensors, PyTorch in its own format."""
    return ".pt" if T.__name__ == "torch" else ".safetensors"


def save(T, folder, step, state):
    """Writes the checkpoint of a step; the oldest ones beyond KEPT are removed. Gives the path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:07d}{suffix(T)}"
    temporary = folder / f".{path.name}.{os.getpid()}.tmp{suffix(T)}"
    try:
        T.save(state, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    for old in checkpoints(T, folder)[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def checkpoints(T, folder):
    """The checkpoints in a folder, oldest first."""
    return sorted(Path(folder).glob(f"step-*{suffix(T)}"))


def find(T, place):
    """The checkpoint that `--resume` means: a file, or the newest in a folder."""
    path = Path(place)
    if path.is_file():
        return path
    found = checkpoints(T, path) if path.is_dir() else []
    if not found:
        raise SystemExit(f"--resume: there is no checkpoint (step-*{suffix(T)}) in {path}")
    return found[-1]


def load(T, path, settings):
    """The state in a checkpoint, if it belongs to a run with the same settings."""
    try:
        state = T.load(path)
    except (OSError, ValueError, RuntimeError) as error:
        raise SystemExit(f"--resume: {path} cannot be read: {error}") from None
    stored = state.get("settings") if isinstance(state, dict) else None
    if not isinstance(stored, dict):
        raise SystemExit(f"--resume: {path} is no checkpoint of this script")
    names = sorted(set(settings) | set(stored))
    if other := [n for n in names if stored.get(n) != settings.get(n)]:
        listed = ", ".join(f"{n} was {stored.get(n)!r} and is {settings.get(n)!r}" for n in other)
        raise SystemExit(f"--resume: {path} belongs to another run: {listed}")
    return state
