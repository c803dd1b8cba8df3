"""The state of one parameter, whose counters are numbers inside and tensors outside.

COUNTERS-1: counting neither reads nor records anything. A counter becomes a tensor when somebody looks at it; that tensor
            then counts along, and what is written to it counts too, at the price of a read in the next step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gt import _core
from gt._core import Tensor


class ParameterState(dict):  # type: ignore[type-arg]
    """A dict in which `counters` are seen as tensors without dimensions.

    >>> state = gt.optim.parameter_state.ParameterState(frozenset({"step"}), {"step": 3.0})
    >>> state["step"], state.number("step")
    (tensor(3.), 3.0)
    """

    __slots__ = ("counters", "seen")

    def __init__(self, counters: frozenset[str], values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.counters = counters
        # The tensors that were given out, each with the version it had when it was last counted.
        self.seen: dict[str, tuple[Tensor, int]] = {}

    def number(self, key: str) -> Any:
        """A counter as a number."""
        if key in self.seen:
            tensor, version = self.seen[key]
            if tensor._version != version:
                dict.__setitem__(self, key, float(tensor))
                self.seen[key] = (tensor, tensor._version)
        return dict.__getitem__(self, key)

    def count(self, key: str, value: Any) -> None:
        """Sets a counter."""
        dict.__setitem__(self, key, value)
        if key in self.seen:
            tensor = self.seen[key][0]
            tensor.fill_(value)
            self.seen[key] = (tensor, tensor._version)

    def __getitem__(self, key: str) -> Any:
        if key not in self.counters:
            return dict.__getitem__(self, key)
        if key not in self.seen:
            value = dict.__getitem__(self, key)
            if isinstance(value, Tensor):
                return value
            tensor = _core.full((), float(value), dtype=_core.get_default_dtype())
            self.seen[key] = (tensor, tensor._version)
        return self.seen[key][0]

    def __setitem__(self, key: str, value: Any) -> None:
        self.seen.pop(key, None)
        if key in self.counters and isinstance(value, Tensor):
            # Of no version it ever had: the next step reads it.
            self.seen[key] = (value, -1)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: str) -> None:
        self.seen.pop(key, None)
        dict.__delitem__(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def pop(self, key: str, *default: Any) -> Any:
        if key not in self:
            return dict.pop(self, key, *default)
        value = self[key]
        del self[key]
        return value

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        return ParameterState, (self.counters, {key: self._kept(key) for key in self})

    def _kept(self, key: str) -> Any:
        return self.number(key) if key in self.counters else dict.__getitem__(self, key)
