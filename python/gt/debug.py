"""Seeing what GT does: what the workers counted, and what the tape holds.

>>> all(name.startswith("worker_") for name in gt.debug.get_worker_stats())
True
"""

from __future__ import annotations

import sys
from typing import Any

from gt import _core
from gt._core import Tensor

__all__ = ["get_tape", "get_worker_stats", "print_tape", "print_worker_stats"]


def get_worker_stats() -> dict[str, dict[str, Any]]:
    """What every worker has counted since it started, by worker id. Waits until everything that this thread recorded has run.

    Among the entries: `total_instructions`, `windows`, `idle_cuts`, `round_trips`, `bytes_in`, `bytes_out`, `live_bytes`,
    `flops`; `transfers`, `moved_bytes_out` and `moved_bytes_in` tell what went between workers, `loaded_bytes` what they
    read from files themselves; `operations` tells how many instructions ran compiled and eager, `compilation_stats` (also as
    `compilation`) how often a plan was found in the cache; `hot_instructions`, `unique_sequences`, `hot_sequences`,
    `hot_threshold`, `top_sequences` tell what repeats. `family_ns` is where the time of the worker's steps goes, by family
    of ops, estimated from one run in sixteen.

    >>> _ = (gt.ones(3) + 1).sum().item()
    >>> gt.debug.get_worker_stats()["worker_0"]["round_trips"] >= 1
    True
    """
    return {str(counted["worker"]): _described(dict(counted)) for counted in _core.worker_stats()}


def _described(counted: dict[str, Any]) -> dict[str, Any]:
    total = counted.get("total_instructions", 0)
    compiled = counted.get("compiled_instructions", 0)
    hits, misses = counted.get("plan_hits", 0), counted.get("plan_misses", 0)
    compilation = {
        "cache_hits": hits,
        "cache_misses": misses,
        "hit_rate": hits / (hits + misses) if hits + misses else 0.0,
        "num_cached_graphs": counted.get("cached_plans", 0),
        "cache_size": counted.get("cached_plans", 0),
        "avg_ops_per_compilation": compiled / windows if (windows := counted.get("compiled_windows", 0)) else 0.0,
    }
    counted["operations"] = {"total": total, "compiled": compiled, "eager": total - compiled}
    counted["compilation_stats"] = compilation
    counted["compilation"] = dict(compilation)
    return counted


def print_worker_stats(file: Any = None) -> None:
    """Prints what `get_worker_stats` gives, one line an entry.

    >>> import io
    >>> gt.debug.print_worker_stats(file=io.StringIO())
    """
    out = sys.stdout if file is None else file
    for worker, stats in get_worker_stats().items():
        print(worker, file=out)
        for name, value in stats.items():
            if name == "compilation":
                continue
            if isinstance(value, dict):
                value = "  ".join(f"{part}={_short(number)}" for part, number in value.items())
            elif isinstance(value, list):
                value = "".join(
                    "\n    " + "  ".join(f"{part}={_short(number)}" for part, number in row.items()) for row in value
                )
            print(f"  {name}: {_short(value)}", file=out)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _tensors_in(frame: Any) -> list[Tensor]:
    """The tensors that names in a frame and in its module refer to, directly or in a list, tuple or dict."""
    found: list[Tensor] = []
    for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, Tensor)]
        elif isinstance(value, dict):
            found += [v for v in list(value.values()) if isinstance(v, Tensor)]
    return found


def _op(name: str) -> str:
    """`ArgReduceBackward0` as `arg_reduce`."""
    words = name.partition("Backward")[0]
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(words))


def _walk(tensors: list[Tensor]) -> list[dict[str, Any]]:
    waiting = [t.grad_fn for t in tensors if t.grad_fn is not None]
    nodes: dict[int, dict[str, Any]] = {}
    while waiting:
        node = waiting.pop()
        if node.sequence in nodes:
            continue
        # Leaves have no number of their own.
        sources = [source if source is not None and source.sequence else None for source, _ in node.next_functions]
        inputs = [None if source is None else source.sequence for source in sources]
        name = node.name()
        nodes[node.sequence] = {"name": name, "op": _op(name), "sequence": node.sequence, "inputs": inputs}
        waiting += [source for source in sources if source is not None]
    return [nodes[number] for number in sorted(nodes)]


def get_tape(tensor: Tensor | None = None) -> list[dict[str, Any]]:
    """The nodes that a backward pass from `tensor` would visit, in the order they were recorded.

    Each is a dict: `name`, `op` (what was recorded), `sequence` (its number) and `inputs` (the numbers of the nodes it
    refers to, None for leaves and for what needs no gradient). Without a tensor: the nodes below all tensors that the caller has names for.

    >>> x = gt.ones(2, requires_grad=True)
    >>> [node["op"] for node in gt.debug.get_tape((x * 2).sum())]
    ['mul', 'sum']
    """
    return _walk(_tensors_in(sys._getframe(1)) if tensor is None else [tensor])


def print_tape(tensor: Tensor | None = None, file: Any = None) -> None:
    """Prints what `get_tape` gives, one line a node.

    >>> import io
    >>> gt.debug.print_tape((gt.ones(2, requires_grad=True) * 2).sum(), file=io.StringIO())
    """
    nodes = _walk(_tensors_in(sys._getframe(1)) if tensor is None else [tensor])
    for node in nodes:
        inputs = ", ".join("leaf" if number is None else f"#{number}" for number in node["inputs"])
        print(
            f"#{node['sequence']} {node['op']}({inputs}) -> {node['name']}", file=sys.stdout if file is None else file
        )
