"""Resizing images: each output is a weighted sum of a few inputs, one dimension after the other.

INTERPOLATE-1: places and weights depend on sizes alone, so they are computed here, in the precision PyTorch uses: float32,
and float64 for the weights of float64 images.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.functional._adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area")


_Rounding = Callable[[float], float]


def _single(number: float) -> float:
    """Rounded to float32."""
    made: float = struct.unpack("f", struct.pack("f", number))[0]
    return made


def _ratio(size: int, out: int, align_corners: bool, factor: float | None, rounded: _Rounding) -> float:
    """How far apart in the input neighbouring outputs are."""
    if align_corners:
        return rounded((size - 1) / (out - 1)) if out > 1 else 0.0
    return rounded(1.0 / factor) if factor else rounded(size / out)


def _nearest(size: int, out: int, exact: bool, factor: float | None) -> list[int]:
    ratio = _ratio(size, out, False, factor, _single)
    half = 0.5 if exact else 0.0
    return [min(int(math.floor(_single((i + half) * ratio))), size - 1) for i in range(out)]


def _source(i: int, ratio: float, align_corners: bool, cubic: bool, rounded: _Rounding) -> float:
    if align_corners:
        return rounded(ratio * i)
    place = rounded(ratio * (i + 0.5) - 0.5)
    return place if cubic else max(place, 0.0)


def _cubic_weights(t: float) -> list[float]:
    """Keys' kernel with a = -0.75 at the four neighbours of a place t after the second."""
    a = -0.75

    def near(x: float) -> float:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: float) -> float:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _taps(
    size: int, out: int, align_corners: bool, factor: float | None, cubic: bool, rounded: _Rounding
) -> list[tuple[list[int], list[float]]]:
    """For each input that takes part in an output: where it is, and its weight."""
    ratio = _ratio(size, out, align_corners, factor, rounded)
    count = 4 if cubic else 2
    index: list[list[int]] = [[] for _ in range(count)]
    weight: list[list[float]] = [[] for _ in range(count)]
    for i in range(out):
        place = _source(i, ratio, align_corners, cubic, rounded)
        base = math.floor(place)
        if cubic:
            weights = _cubic_weights(place - base)
            places = [base - 1, base, base + 1, base + 2]
        else:
            base = min(base, size - 1)
            share = min(max(place - base, 0.0), 1.0)
            weights, places = [1 - share, share], [base, base + 1]
        for tap in range(count):
            index[tap].append(min(max(places[tap], 0), size - 1))
            weight[tap].append(weights[tap])
    return list(zip(index, weight))


def _resized(x: Tensor, axis: int, taps: list[tuple[list[int], list[float]]]) -> Tensor:
    trailing = [1] * (x.dim() - axis - 1)
    total: Tensor | None = None
    for index, weight in taps:
        part = x.index_select(axis, _core.tensor(index, dtype=_core.int64))
        part = part * _core.tensor(weight, dtype=x.dtype).reshape(-1, *trailing)
        total = part if total is None else total + part
    assert total is not None
    return total


def _output_size(
    input: Tensor, rank: int, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = [size] * rank if isinstance(size, int) else [int(n) for n in size]
        if len(sizes) != rank:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} and output size of {sizes}."
            )
        return sizes, [None] * rank
    factors = (
        [float(scale_factor)] * rank if isinstance(scale_factor, (int, float)) else [float(f) for f in scale_factor]
    )
    if len(factors) != rank:
        raise ValueError(
            f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(input.shape[2:])} and scale_factor of shape {factors}."
        )
    sizes = [int(math.floor(n * f)) for n, f in zip(input.shape[2:], factors)]
    return sizes, ([None] * rank if recompute else list(factors))


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(N, C, …) resized to a size or by a factor. Modes: nearest, nearest-exact, linear, bilinear, trilinear, bicubic, area.

    >>> gt.nn.functional.interpolate(gt.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    >>> gt.nn.functional.interpolate(gt.tensor([[[1.0, 2.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1.0000, 1.5000, 2.0000]]])
    """
    if mode not in _MODES:
        raise NotImplementedError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            f"Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input: "
            f"got mode {mode!r} and shape {tuple(input.shape)}"
        )
    rank = input.dim() - 2
    if rank not in (1, 2, 3):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D of shape {tuple(input.shape)})"
        )
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
            )
    wanted = _LINEAR.get(mode, 2 if mode == "bicubic" else rank)
    if wanted != rank:
        raise NotImplementedError(
            f"Got {rank + 2}D input, but {mode} mode needs {wanted + 2}D input: {tuple(input.shape)}"
        )
    sizes, factors = _output_size(input, rank, size, scale_factor, recompute_scale_factor)
    if min(sizes) < 1:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(input.shape[2:])} and output {sizes}"
        )
    if mode == "area":
        pools: Sequence[Any] = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[rank - 1](input, sizes)  # type: ignore[no-any-return]
    if not input.dtype.is_floating_point and not mode.startswith("nearest"):
        if input.dtype != _core.uint8:
            raise NotImplementedError(f"interpolate in mode {mode!r} is not implemented for {input.dtype}")
        wide = interpolate(input.float(), sizes, None, mode, align_corners, None, antialias)
        return wide.round().clamp(0, 255).to(_core.uint8)
    rounded: _Rounding = float if input.dtype == _core.float64 else _single
    out = input
    for i, (new, factor) in enumerate(zip(sizes, factors)):
        old = input.shape[2 + i]
        if antialias:
            out = _smoothed(out, 2 + i, new, bool(align_corners), factor, mode == "bicubic")
        elif mode.startswith("nearest"):
            out = _repeated(out, 2 + i, new, mode == "nearest-exact", factor)
        elif old != new or mode == "bicubic" or factor not in (None, 1.0):
            taps = _taps(old, new, bool(align_corners), factor, mode == "bicubic", rounded)
            out = _resized(out, 2 + i, taps)
    return out.clone() if out is input else out


def _smoothing(x: float, cubic: bool) -> float:
    """The filter at a distance: a triangle, or Keys' kernel with a = -0.5."""
    x = abs(x)
    if not cubic:
        return max(1.0 - x, 0.0)
    if x < 1.0:
        return (1.5 * x - 2.5) * x * x + 1.0
    return ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0 if x < 2.0 else 0.0


def _smoothed(x: Tensor, axis: int, new: int, align_corners: bool, factor: float | None, cubic: bool) -> Tensor:
    """Each output from all inputs that its filter covers, which is as wide as the image shrinks."""
    old = x.shape[axis]
    ratio = _ratio(old, new, align_corners, factor, float)
    stretch = max(ratio, 1.0)
    reach = (2.0 if cubic else 1.0) * stretch
    weights = []
    for i in range(new):
        center = ratio * (i + 0.5)
        start, end = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), old)
        row = [_smoothing((k - center + 0.5) / stretch, cubic) if start <= k < end else 0.0 for k in range(old)]
        total = sum(row)
        weights.append([weight / total if total else weight for weight in row])
    return x.movedim(axis, -1).matmul(_core.tensor(weights, dtype=x.dtype).t()).movedim(-1, axis)


def _repeated(x: Tensor, axis: int, new: int, exact: bool, factor: float | None) -> Tensor:
    old = x.shape[axis]
    if new == old and factor in (None, 1.0):
        return x
    if new % old == 0 and factor in (None, new / old):
        times = new // old
        shape = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
        return x.unsqueeze(axis + 1).expand(shape).flatten(axis, axis + 1)
    return x.index_select(axis, _core.tensor(_nearest(old, new, exact, factor), dtype=_core.int64))


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The old name of `interpolate`.

    >>> gt.nn.functional.upsample(gt.tensor([[[1.0, 2.0]]]), scale_factor=2).shape
    gt.Size([1, 1, 4])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with the mode "nearest".

    >>> gt.nn.functional.upsample_nearest(gt.tensor([[[1.0, 2.0]]]), scale_factor=2).shape
    gt.Size([1, 1, 4])
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with the mode "bilinear" and aligned corners.

    >>> gt.nn.functional.upsample_bilinear(gt.ones(1, 1, 2, 2), scale_factor=2).shape
    gt.Size([1, 1, 4, 4])
    """
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)
