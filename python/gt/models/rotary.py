"""Rotary positions: by which angles the position of a token turns the pairs of a head.

ROTARY-1: tables are float32 whatever the model's dtype, and cast where they are used, as the angles of late positions
need the digits.
ROTARY-2: a table is made once and sliced. The start of a slice does not change a window's shape, so that generating
token after token meets the same plan.
"""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor

SCALINGS = ("default", "linear", "yarn")
# The smallest table; it doubles when a position lies beyond.
FIRST_TABLE = 256


def _kind(scaling: dict[str, Any] | None) -> str:
    # Older files say `type`.
    return (scaling or {}).get("rope_type") or (scaling or {}).get("type") or "default"


def check_scaling(scaling: dict[str, Any] | None) -> None:
    """Raises unless these are settings that `frequencies` understands."""
    kind = _kind(scaling)
    if kind not in SCALINGS:
        raise ValueError(f"rope_scaling: unknown type {kind!r}; supported types are {', '.join(SCALINGS)}")
    if kind != "default":
        factor = (scaling or {}).get("factor")
        if not isinstance(factor, (int, float)) or factor <= 0:
            raise ValueError(f"rope_scaling of type {kind!r} needs a positive factor, not {factor!r}")


def frequencies(config: Any) -> tuple[list[float], float]:
    """The angle that each pair turns by from one position to the next, and the factor on cosines and sines."""
    scaling = config.rope_scaling or {}
    dim, base = config.head_dim, float(config.rope_theta)
    plain = [base ** -(2 * pair / dim) for pair in range(dim // 2)]
    kind = _kind(scaling)
    if kind == "linear":
        return [f / scaling["factor"] for f in plain], 1.0
    if kind == "yarn":
        return _yarn(plain, dim, base, config.max_position_embeddings, scaling)
    return plain, 1.0


def _yarn(
    plain: list[float], dim: int, base: float, positions: int, scaling: dict[str, Any]
) -> tuple[list[float], float]:
    """Slow pairs are stretched by the factor, fast ones left alone, a ramp between (arXiv 2309.00071)."""
    factor = float(scaling["factor"])
    original = scaling.get("original_max_position_embeddings") or positions

    def pair_with_turns(turns: float) -> float:
        """The pair that makes so many turns over the original context."""
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair_with_turns(scaling.get("beta_fast") or 32), pair_with_turns(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    mixed = []
    for pair, frequency in enumerate(plain):
        stretched = min(max((pair - low) / (high - low), 0.0), 1.0)
        mixed.append(frequency / factor * stretched + frequency * (1 - stretched))

    def magnitude(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    attention = scaling.get("attention_factor")
    if attention is None:
        over, under = scaling.get("mscale"), scaling.get("mscale_all_dim")
        attention = magnitude(over) / magnitude(under) if over and under else magnitude(1.0)
    return mixed, float(attention)


class RotaryTables:
    """Cosines and sines by position, [positions, head_dim] each."""

    def __init__(self, config: Any) -> None:
        self.frequencies, self.factor = frequencies(config)
        self.positions = 0
        self.cos: Tensor
        self.sin: Tensor

    def _grow(self, needed: int) -> None:
        self.positions = max(self.positions, FIRST_TABLE)
        while self.positions < needed:
            self.positions *= 2
        angles = _core.arange(self.positions, dtype=_core.float32).unsqueeze(1) * _core.tensor(self.frequencies)
        angles = _core.cat([angles, angles], dim=1)
        self.cos, self.sin = angles.cos() * self.factor, angles.sin() * self.factor

    def following(self, start: int, count: int, dtype: Any) -> tuple[Tensor, Tensor]:
        """The rows [count, head_dim] of positions one after the other."""
        if start + count > self.positions:
            self._grow(start + count)
        return self.cos[start : start + count].to(dtype), self.sin[start : start + count].to(dtype)

    def at(self, positions: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
        """The rows of positions given as a tensor [batch, count]: [batch, 1, count, head_dim], the 1 for the heads."""
        angles = positions.to(_core.float32).unsqueeze(-1) * _core.tensor(self.frequencies)
        angles = _core.cat([angles, angles], dim=-1).unsqueeze(1)
        return (angles.cos() * self.factor).to(dtype), (angles.sin() * self.factor).to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns pairs (i, i + head_dim / 2) of the last dimension by the angles of their positions."""
    half = x.shape[-1] // 2
    return x * cos + _core.cat((-x[..., half:], x[..., :half]), dim=-1) * sin
