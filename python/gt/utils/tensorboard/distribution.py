"""Values as histograms, with the buckets that TensorBoard's own summaries have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from gt import _core
from gt._core import Tensor


class Distribution(NamedTuple):
    """What a histogram's message holds."""

    extent: tuple[float, float]
    totals: tuple[float, float, float]
    limits: list[float]
    counts: list[float]


@cache
def _default_edges() -> tuple[float, ...]:
    """Limits that grow by a tenth, from 1e-12 to 1e20, on both sides of zero."""
    positive = []
    edge = 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return (*(-edge for edge in reversed(positive)), 0.0, *positive)


def _edges(values: Tensor, extent: tuple[float, float], bins: Any) -> Sequence[float]:
    if bins == "tensorflow":
        return _default_edges()
    if isinstance(bins, int):
        low, high = extent if extent[0] < extent[1] else (extent[0] - 0.5, extent[1] + 0.5)
        return [low + (high - low) * i / bins for i in range(bins)] + [high]
    if isinstance(bins, str):
        # The rules that NumPy names: auto, fd, sturges, …
        import numpy

        return numpy.histogram_bin_edges(values.numpy(), bins).tolist()  # type: ignore[no-any-return]
    return [float(edge) for edge in bins]


def distribution(values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Distribution:
    """Counts the values between edges, on the device. Waits.

    >>> from gt.utils.tensorboard.distribution import distribution
    >>> distribution(gt.tensor([1.0, 1.0, 3.0]), bins=[0, 2, 4]).counts
    [0.0, 2.0, 1.0]
    """
    flat = _core.as_tensor(values).detach().double().reshape(-1)
    if flat.numel() == 0:
        raise ValueError("The input has no element.")
    low, high, total, squares = _core.stack([flat.min(), flat.max(), flat.sum(), (flat * flat).sum()]).tolist()
    edges = _edges(flat, (low, high), bins)
    inner = _core.tensor(list(edges), dtype=_core.float64)
    # The bucket of a value is the number of edges at or below it; the last edge belongs to the bucket before it.
    place = _core.where(flat == edges[-1], len(edges) - 1, _searchsorted(inner, flat))
    counts = place.bincount(minlength=len(edges) + 1).tolist()[1 : len(edges)]
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = [sum(counts[i : i + step]) for i in range(0, len(counts), step)]
        edges = [*edges[:-1:step], edges[-1]]
    occupied = [i for i, count in enumerate(counts) if count]
    first, last = (occupied[0], occupied[-1]) if occupied else (0, len(counts) - 1)
    # A bucket has an upper limit only: an empty one before the first tells where that begins.
    limits = [float(edge) for edge in edges[first : last + 2]]
    return Distribution(
        (low, high), (float(flat.numel()), total, squares), limits, [0.0, *map(float, counts[first : last + 1])]
    )


def _searchsorted(edges: Tensor, values: Tensor) -> Tensor:
    import gt

    return gt.searchsorted(edges, values, right=True)
