"""Weights from and to a folder of safetensors files.

PRETRAINED-1: everything is looked at before anything is changed: an error lists all names, shapes and dtypes that do
not fit, and leaves the model as it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gt import _core, nn
from gt._core import Tensor
from gt._output_files import make_folder, remove_file
from gt.models import checkpoint_files as files


def _wanted_dtype(dtype: Any) -> Any:
    """A dtype of GT, None to keep what is stored."""
    if dtype is None or dtype == "auto":
        return None
    found = getattr(_core, dtype.removeprefix("gt.").removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(found, _core.dtype) or not found.is_floating_point:
        raise ValueError(
            f'dtype must be "auto" or a floating-point dtype such as gt.bfloat16 or "bfloat16", not {dtype!r}'
        )
    return found


def _read(directory: Path) -> dict[str, Tensor]:
    """All weights of a folder."""
    from gt.serialization import load_file

    paths, places = files.weight_files(directory)
    weights: dict[str, Tensor] = {}
    problems = []
    for path in paths:
        for name, value in load_file(path).items():
            if places is not None and places.get(name) != path.name:
                problems.append(
                    f"{path.name} holds {name}, which the index {'places elsewhere' if name in places else 'does not name'}"
                )
            weights[name] = value
    problems += [f"{file} does not contain {name}" for name, file in (places or {}).items() if name not in weights]
    if problems:
        raise ValueError(f"{directory / files.INDEX} and its files do not agree: " + "; ".join(problems))
    return weights


def load_weights(model: nn.Module, directory: str | os.PathLike[str], dtype: Any, tied: Mapping[str, str]) -> None:
    """Makes the weights of a folder the model's own. `tied` names weights that may be absent, as they are another's."""
    target = _wanted_dtype(dtype)
    weights = _read(Path(directory))
    for name, original in tied.items():
        if name not in weights and original in weights:
            weights[name] = weights[original]
    if target is not None:
        weights = {n: w.to(target) if w.dtype.is_floating_point else w for n, w in weights.items()}
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise RuntimeError(f"the weights in {directory} do not fit the model of its config.json: {error}") from None
    for name, original in tied.items():
        module, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(module), attribute, model.get_parameter(original))


def save_weights(
    model: Any, directory: str | os.PathLike[str], max_shard_size: int | str, tied: Mapping[str, str]
) -> None:
    """Writes configuration and weights; CHECKPOINT-FILES-1 tells in which order."""
    from gt.serialization import save_file

    limit = files.size_in_bytes(max_shard_size)
    folder = Path(directory)
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file; save a model to a folder")
    make_folder(folder)
    weights = {name: value for name, value in model.state_dict().items() if name not in tied}
    sizes = {name: value.numel() * value.element_size() for name, value in weights.items()}
    shards = files.in_shards(sizes.items(), limit)
    old = files.replaced_files(folder)
    model.config.architectures = [type(model).__name__]
    model.config.dtype = str(next(iter(weights.values())).dtype).removeprefix("gt.")
    if hasattr(model.config, "torch_dtype"):  # The field's older name, if the configuration came with it.
        model.config.torch_dtype = model.config.dtype
    if len(shards) == 1:
        model.config.save_pretrained(folder)
        save_file(weights, folder / files.SINGLE, metadata={"format": "pt"})
        new = {folder / files.SINGLE}
    else:
        new = _save_shards(model.config, weights, sizes, shards, folder)
    for path in sorted(old - new):
        remove_file(path)


def _save_shards(
    config: Any, weights: Mapping[str, Tensor], sizes: Mapping[str, int], shards: list[list[str]], folder: Path
) -> set[Path]:
    """Writes shards, then the configuration, then the index that makes them count. Gives the files."""
    from gt.serialization import save_file

    names = files.shard_names(folder, len(shards))
    try:
        for name, shard in zip(names, shards):
            save_file({key: weights[key] for key in shard}, folder / name, metadata={"format": "pt"})
        config.save_pretrained(folder)
        places = {key: name for name, shard in zip(names, shards) for key in shard}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": places}
        files.write_json(folder / files.INDEX, index)
    except BaseException:
        for name in names:
            remove_file(folder / name)
        raise
    return {folder / name for name in (*names, files.INDEX)}
