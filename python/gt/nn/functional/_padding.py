"""Padding at the ends of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from gt import _core
from gt._core import Tensor


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Adds elements before and after the last dimensions: `pad` counts them in pairs from the last dimension on.

    Negative counts take elements away. Modes: constant, reflect, replicate, circular.

    >>> gt.nn.functional.pad(gt.tensor([1.0, 2.0]), (1, 2))
    tensor([0., 1., 2., 0., 0.])
    >>> gt.nn.functional.pad(gt.tensor([[1.0, 2.0, 3.0]]), (1, 1), mode="reflect")
    tensor([[2., 1., 2., 3., 2.]])
    """
    counts = list(pad)
    if len(counts) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {counts}")
    if len(counts) > 2 * input.dim():
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(counts)} and input of shape {tuple(input.shape)}"
        )
    sides = {input.dim() - 1 - i // 2: (counts[i], counts[i + 1]) for i in range(0, len(counts), 2)}
    for dim, (before, after) in sides.items():
        if input.shape[dim] + before + after < 0:
            raise RuntimeError(
                f"narrow(): negative padding {counts} removes more than dimension {dim} of shape {tuple(input.shape)} has"
            )
    if mode == "constant":
        return _constant(input, sides, 0.0 if value is None else value)
    if mode not in _EDGES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    limit = {1: (2, 3), 2: (3, 4), 3: (4, 5)}.get(len(sides), ())
    if input.dim() not in limit:
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: "
            f"got padding {counts} for an input of shape {tuple(input.shape)}"
        )
    for dim in sorted(sides):
        input = _EDGES[mode](input, dim, *sides[dim])
    return input


def _constant(input: Tensor, sides: dict[int, tuple[int, int]], value: float) -> Tensor:
    shape = list(input.shape)
    place = [slice(None)] * input.dim()
    for dim, (before, after) in sides.items():
        start, end = max(-before, 0), shape[dim] - max(-after, 0)
        if start or end != shape[dim]:
            input = input.narrow(dim, start, end - start)
        kept = end - start
        place[dim] = slice(max(before, 0), max(before, 0) + kept)
        shape[dim] = kept + max(before, 0) + max(after, 0)
    if tuple(shape) == tuple(input.shape):
        return input.clone()
    out = _core.full(shape, value, dtype=input.dtype, device=input.device)
    out[tuple(place)] = input
    return out


def _cropped(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    start, end = max(-before, 0), input.shape[dim] - max(-after, 0)
    return input.narrow(dim, start, end - start) if (before < 0 or after < 0) else input


def _joined(parts: list[Tensor | None], dim: int) -> Tensor:
    there = [p for p in parts if p is not None]
    return there[0] if len(there) == 1 else _core.cat(there, dim)


def _reflect(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    size = input.shape[dim]
    if before >= size or after >= size:
        raise RuntimeError(
            "Padding size should be less than the corresponding input dimension, but got: "
            f"padding ({before}, {after}) at dimension {dim} of input {list(input.shape)}"
        )
    left = input.narrow(dim, 1, before).flip(dim) if before > 0 else None
    right = input.narrow(dim, size - 1 - after, after).flip(dim) if after > 0 else None
    return _joined([left, _cropped(input, dim, before, after), right], dim)


def _replicate(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    size = input.shape[dim]

    def repeated(at: int, count: int) -> Tensor | None:
        if count <= 0:
            return None
        shape = list(input.shape)
        shape[dim] = count
        return input.narrow(dim, at, 1).expand(shape)

    return _joined([repeated(0, before), _cropped(input, dim, before, after), repeated(size - 1, after)], dim)


def _circular(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    # What is taken away is not part of the ring.
    input = _cropped(input, dim, before, after)
    size = input.shape[dim]
    if before > size or after > size:
        raise RuntimeError(
            f"Padding value causes wrapping around more than once: padding ({before}, {after}) at dimension {dim} "
            f"of input {list(input.shape)}"
        )
    left = input.narrow(dim, size - before, before) if before > 0 else None
    right = input.narrow(dim, 0, after) if after > 0 else None
    return _joined([left, input, right], dim)


_EDGES = {"reflect": _reflect, "replicate": _replicate, "circular": _circular}
