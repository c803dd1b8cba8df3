"""Which parameters kept their values when an update was skipped.

A failed update names the types of what kept its value; workers know no parameters. Here these types are compared with the last
updates of the optimizers there are. What fits no optimizer, or several, is not named.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from gt import _core
from gt._core import Tensor

if TYPE_CHECKING:
    from gt.optim.list_optimizer import ListOptimizer

_DTYPES = {_core.float32: "f32", _core.float64: "f64", _core.float16: "f16", _core.bfloat16: "bf16"}
# More names than this say less than how many there are.
_MOST_NAMED = 12

_optimizers: weakref.WeakSet[ListOptimizer] = weakref.WeakSet()


def watch(optimizer: ListOptimizer) -> None:
    """From now on this optimizer's parameters can be named."""
    _optimizers.add(optimizer)


def _type(tensor: Tensor) -> str:
    return f"{_DTYPES.get(tensor.dtype)}{list(tensor.shape)}"


def _updated(optimizer: ListOptimizer, kept: Sequence[str]) -> list[tuple[int, list[int]]] | None:
    """The groups, with the positions in them, whose updates write exactly these types."""
    at, found = 0, []
    for group, positions, lists in optimizer._last_updates:
        params = optimizer.param_groups[group]["params"]
        types = [_type(params[i]) for i in positions] * lists
        if list(kept[at : at + len(types)]) == types:
            at += len(types)
            found.append((group, positions))
    return found if at == len(kept) else None


def _is_at(code_and_offset: tuple[CodeType, int] | None, site: str) -> bool:
    if code_and_offset is None:
        return False
    code, offset = code_and_offset
    lines = [line for line, *_ in code.co_positions()]
    return f"{code.co_filename}:{lines[offset // 2]}" == site


def _ranges(positions: Sequence[int]) -> str:
    """`0-3, 5` for `[0, 1, 2, 3, 5]`."""
    ranges: list[list[int]] = []
    for i in positions:
        if ranges and ranges[-1][1] == i - 1:
            ranges[-1][1] = i
        else:
            ranges.append([i, i])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _named(optimizer: ListOptimizer, updated: list[tuple[int, list[int]]]) -> Iterator[str]:
    groups: dict[int, list[int]] = {}
    for group, positions in updated:
        groups.setdefault(group, []).extend(positions)
    for group, positions in sorted(groups.items()):
        names: Any = optimizer.param_groups[group].get("param_names")
        if names and len(positions) <= _MOST_NAMED:
            yield ", ".join(names[i] for i in sorted(positions))
        elif len(optimizer.param_groups) == 1:
            yield _ranges(sorted(positions))
        else:
            yield f"{_ranges(sorted(positions))} of group {group}"


def parameters_of(site: str | None, kept: Sequence[str]) -> str | None:
    """What to say of the parameters that kept their values, if they are known. Called when a failure is raised."""
    fitting = [(o, updated) for o in list(_optimizers) if (updated := _updated(o, kept))]
    if len(fitting) > 1 and site is not None:
        fitting = [(o, updated) for o, updated in fitting if _is_at(o._stepped_at, site)]
    if len(fitting) != 1:
        return None
    optimizer, updated = fitting[0]
    count = sum(len(positions) for _, positions in updated)
    noun = "parameter" if count == 1 else "parameters"
    return f"not updated: {noun} {'; '.join(_named(optimizer, updated))} of {type(optimizer).__name__}"
