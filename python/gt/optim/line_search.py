"""A line search for the strong Wolfe conditions: far enough down, and flat enough there.

Follows Nocedal & Wright, Numerical Optimization, algorithms 3.5 and 3.6, with cubic interpolation, and makes the choices
that PyTorch makes, so that both walk the same points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from gt._core import Tensor


class Point(NamedTuple):
    """A place on the line: how far along, the value there, its gradient, and the slope along the line."""

    t: float
    value: float
    gradient: Tensor
    slope: float


def cubic_minimum(a: Point, b: Point, low: float | None = None, high: float | None = None) -> float:
    """Where the cubic through two points with their slopes is least, within bounds (the points themselves if none)."""
    if low is None or high is None:
        low, high = min(a.t, b.t), max(a.t, b.t)
    left, right = (a, b) if a.t <= b.t else (b, a)
    # The same for either order of the points.
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    slopes = right.slope - left.slope + 2 * d2
    if slopes == 0:
        return (low + high) / 2
    least = right.t - (right.t - left.t) * ((right.slope + d2 - d1) / slopes)
    return min(max(least, low), high)


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    direction: Tensor,
    start: Point,
    t: float,
    *,
    decrease: float = 1e-4,
    curvature: float = 0.9,
    tolerance_change: float = 1e-9,
    max_evaluations: int = 25,
) -> tuple[Point, int]:
    """The point that was chosen, and how often `evaluate` was called."""
    longest = float(direction.abs().max())
    calls = 0

    def at(t: float) -> Point:
        nonlocal calls
        value, gradient = evaluate(t)
        calls += 1
        return Point(t, value, gradient, float(gradient.dot(direction)))

    def too_high(point: Point) -> bool:
        return point.value > start.value + decrease * point.t * start.slope

    def flat_enough(point: Point) -> bool:
        return abs(point.slope) <= -curvature * start.slope

    # First walk outwards until a good point lies between two that were seen.
    previous, point = start, at(t)
    rounds = 0
    bracket = None
    while rounds < max_evaluations:
        if too_high(point) or (rounds > 1 and point.value >= previous.value):
            bracket = [previous, point]
            break
        if flat_enough(point):
            return point, calls
        if point.slope >= 0:
            bracket = [previous, point]
            break
        nearest, farthest = point.t + 0.01 * (point.t - previous.t), point.t * 10
        previous, point = point, at(cubic_minimum(previous, point, nearest, farthest))
        rounds += 1
    if bracket is None:
        bracket = [start, point]

    # Then close in on it.
    stuck = False
    low = 0 if bracket[0].value <= bracket[1].value else 1
    while rounds < max_evaluations:
        left, right = sorted(p.t for p in bracket)
        if (right - left) * longest < tolerance_change:
            break
        t, stuck = _away_from_ends(cubic_minimum(bracket[0], bracket[1]), left, right, stuck)
        point = at(t)
        rounds += 1
        if too_high(point) or point.value >= bracket[low].value:
            bracket[1 - low] = point
            low = 0 if bracket[0].value <= bracket[1].value else 1
            continue
        done = flat_enough(point)
        if not done and point.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = point
        if done:
            break
    return bracket[low], calls


def _away_from_ends(t: float, left: float, right: float, stuck: bool) -> tuple[float, bool]:
    """A trial near an end of the bracket is allowed once; the next is moved inwards."""
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if stuck or t >= right or t <= left:
        return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
    return t, True
