"""What programs that load batches have in common: a digest of a batch, and where the files are."""

from pathlib import Path

DIGEST = """
import hashlib, json, os, sys, time
import gt
def digest(batch):
    h = hashlib.sha256()
    for name, value in batch.items():
        h.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        h.update(value.numpy().tobytes())
    return h.hexdigest()
"""


def filled_in(text: str, folder: Path, options: dict[str, object]) -> str:
    """The program with the files' folder and the loader's options in their places."""
    return text.replace("FOLDER", repr(str(folder))).replace("OPTIONS", repr(options))
