"""Calls of a module with other tensors in the place of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gt._core import Tensor
from gt.nn.modules.module import Module


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with the given parameters and buffers; afterwards it has its own again.

    >>> layer = gt.nn.Linear(1, 1)
    >>> other = {"weight": gt.full((1, 1), 3.0), "bias": gt.zeros(1)}
    >>> gt.nn.utils.stateless.functional_call(layer, other, gt.ones(1))
    tensor([3.])
    """
    given: dict[str, Tensor] = {}
    for mapping in [parameters_and_buffers] if isinstance(parameters_and_buffers, Mapping) else parameters_and_buffers:
        twice = given.keys() & mapping.keys()
        if twice:
            raise ValueError(
                f"{sorted(twice)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        given.update(mapping)
    places = _places(module, tie_weights)
    _check(module, given, strict)
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name, value in given.items():
            for owner, attribute in places.get(name, ()):
                before.append((owner, attribute, owner[attribute]))
                owner[attribute] = value
        positional = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*positional, **(kwargs or {}))
    finally:
        for owner, attribute, value in reversed(before):
            owner[attribute] = value


def _places(module: Module, tie_weights: bool) -> dict[str, list[tuple[dict[str, Any], str]]]:
    """Where the tensor of each name is held: in several places if it is shared."""
    named = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    own = {name: _owner(module, name) for name, _ in named}
    if not tie_weights:
        return {name: [place] for name, place in own.items()}
    alike: dict[int, list[str]] = {}
    for name, value in named:
        alike.setdefault(id(value), []).append(name)
    return {name: [own[other] for other in alike[id(value)]] for name, value in named}


def _owner(module: Module, name: str) -> tuple[dict[str, Any], str]:
    path, _, attribute = name.rpartition(".")
    return module.get_submodule(path).__dict__, attribute


def _check(module: Module, given: Mapping[str, Tensor], strict: bool) -> None:
    if not strict:
        return
    names = {
        *(name for name, _ in module.named_parameters(remove_duplicate=False)),
        *(name for name, _ in module.named_buffers(remove_duplicate=False)),
    }
    unexpected, missing = sorted(given.keys() - names), sorted(names - given.keys())
    if unexpected or missing:
        raise RuntimeError(
            f"Error(s) in passing tensors to {type(module).__name__}: unexpected key(s) {unexpected}, missing key(s) {missing}"
        )
