"""The files of a checkpoint folder: which hold the weights, and in which order they may be replaced.

CHECKPOINT-FILES-1: a reader finds `model.safetensors` first, else the shards that `model.safetensors.index.json` names. Shards get
names that the old index does not use, so one rename or removal switches a folder from an old checkpoint to a new one.
CHECKPOINT-FILES-2: files of the old checkpoint are removed when the new one is whole; shards of one that failed are removed too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gt._output_files import atomic_file

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def write_json(path: Path, content: Any) -> None:
    """Writes a file that is the old one or the new one at any time."""
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
    with atomic_file(path) as file:
        file.write(f"{text}\n".encode())


def size_in_bytes(size: int | str) -> int:
    """A number of bytes, or text as "500MB" or "2GiB"."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = re.fullmatch(r"\s*([0-9.]+)\s*([KMG]?I?B?)\s*", size.upper()) if isinstance(size, str) else None
    if match and match[2] in UNITS:
        try:
            count = int(float(match[1]) * UNITS[match[2]])
        except ValueError:
            count = 0
        if count > 0:
            return count
    raise ValueError(f'a size must be a positive number of bytes or text as "500MB" or "2GiB", not {size!r}')


def weight_files(directory: Path) -> tuple[list[Path], dict[str, str] | None]:
    """The files that hold the weights, and if there is an index, which of them holds each."""
    if (directory / SINGLE).is_file():
        return [directory / SINGLE], None
    if not (directory / INDEX).is_file():
        others = sorted(p.name for p in directory.glob("*.bin")) + sorted(p.name for p in directory.glob("*.pt"))
        hint = f"; convert {', '.join(others)} to safetensors first" if others else ""
        raise FileNotFoundError(f"{directory} has neither {SINGLE} nor {INDEX}{hint}")
    places = read_index(directory / INDEX)
    names = sorted(set(places.values()))
    if missing := [name for name in names if not (directory / name).is_file()]:
        raise FileNotFoundError(f"{directory / INDEX} names missing files: {', '.join(missing)}")
    return [directory / name for name in names], places


def read_index(path: Path) -> dict[str, str]:
    """Which file holds each weight. The files must lie in the index's own folder."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise ValueError(f"{path} has no weight_map from weight names to file names")
    if outside := sorted(
        {name for name in places.values() if name != os.path.basename(name) or name in ("", "..", ".")}
    ):
        raise ValueError(f"{path} names files outside of its folder: {', '.join(outside)}")
    return places


def in_shards(sizes: Iterable[tuple[str, int]], limit: int) -> list[list[str]]:
    """Names in groups, in order, each group at most `limit` bytes unless one weight alone is more."""
    shards: list[list[str]] = [[]]
    used = 0
    for name, size in sizes:
        if shards[-1] and used + size > limit:
            shards.append([])
            used = 0
        shards[-1].append(name)
        used += size
    return shards


def shard_names(directory: Path, count: int) -> list[str]:
    """Names for shards, none of which exists in the folder."""
    taken = {path.name for path in directory.glob("model*.safetensors")}
    stem, again = "model", 1
    while True:
        names = [f"{stem}-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
        if taken.isdisjoint(names):
            return names
        again += 1
        stem = f"model-v{again}"


def replaced_files(directory: Path) -> set[Path]:
    """The files of the checkpoint that a folder holds now. A broken index names none."""
    old = {directory / SINGLE}
    if (directory / INDEX).is_file():
        old.add(directory / INDEX)
        try:
            old |= {directory / name for name in read_index(directory / INDEX).values()}
        except ValueError:
            pass
    return {path for path in old if path.is_file()}
