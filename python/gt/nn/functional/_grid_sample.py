"""Sampling images at places that are computed: `grid_sample` and the grids of affine maps."""

from __future__ import annotations

from collections.abc import Sequence

from gt import _core
from gt._core import Tensor


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Places (N, H, W, 2) that an affine map `theta` (N, 2, 3) sends the pixels of an image of `size` (N, C, H, W) to.

    Of volumes (N, C, D, H, W) likewise: theta is (N, 3, 4) then, and the places are (N, D, H, W, 3).

    >>> identity = gt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> gt.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=True).flatten().tolist()
    [-1.0, 0.0, 1.0, 0.0]
    """
    shape = tuple(size)
    rank = len(shape) - 2
    if rank not in (2, 3) or tuple(theta.shape) != (shape[0], rank, rank + 1):
        raise ValueError(
            "affine_grid takes theta (N, 2, 3) and size (N, C, H, W), or (N, 3, 4) and (N, C, D, H, W), "
            f"got {tuple(theta.shape)} and {list(shape)}"
        )
    extents = shape[2:]

    def axis(dim: int) -> Tensor:
        count = extents[dim]
        if count <= 1:
            places = _core.zeros(count, dtype=theta.dtype)
        else:
            places = _core.linspace(-1, 1, count, dtype=theta.dtype)
            places = places if align_corners else places * ((count - 1) / count)
        return places.reshape([count if d == dim else 1 for d in range(rank)]).expand(extents)

    # The last axis is x: places are named the other way round.
    axes = [axis(dim) for dim in reversed(range(rank))]
    base = _core.stack([*axes, _core.ones(extents, dtype=theta.dtype)], -1).reshape(1, -1, rank + 1)
    return base.matmul(theta.transpose(1, 2)).reshape(shape[0], *extents, rank)


def _reflected(place: Tensor, low: float, high: float) -> Tensor:
    """Places folded back between two walls."""
    span = high - low
    if span <= 0:
        return place * 0
    away = (place - low).abs()
    rounds = (away.detach() / span).floor()
    rest = away - rounds * span
    return _core.where(rounds % 2 == 0, rest, span - rest) + low


def _pixel(place: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """From [-1, 1] to pixels, kept inside as the padding mode says."""
    return _kept_inside(_unnormalized(place, size, align_corners), size, padding_mode, align_corners)


def _unnormalized(place: Tensor, size: int, align_corners: bool) -> Tensor:
    return (place + 1) * ((size - 1) / 2) if align_corners else ((place + 1) * size - 1) / 2


def _kept_inside(pixel: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    if padding_mode == "reflection":
        pixel = _reflected(pixel, 0, size - 1) if align_corners else _reflected(pixel, -0.5, size - 0.5)
    return pixel if padding_mode == "zeros" else pixel.clamp(0, size - 1)


def _looked_up(input: Tensor, places: Sequence[Tensor]) -> Tensor:
    """Pixels at whole places, of which the first is x; zero outside."""
    batch, channels, *extents = input.shape
    inside, flat = None, None
    for place, size in zip(reversed(places), extents):
        here = (place >= 0) & (place < size)
        inside = here if inside is None else inside & here
        kept = place.clamp(0, size - 1)
        flat = kept if flat is None else flat * size + kept
    assert inside is not None and flat is not None
    index = flat.long().reshape(batch, 1, -1).expand(batch, channels, -1)
    found = input.reshape(batch, channels, -1).gather(2, index)
    return _core.where(inside.unsqueeze(1), found.reshape(batch, channels, *flat.shape[1:]), 0.0)


def _blended(input: Tensor, places: Sequence[Tensor], whole: list[Tensor]) -> Tensor:
    """What lies between the neighbours of each place, along the last axes first; `whole` are those already chosen."""
    if len(whole) == len(places):
        return _looked_up(input, whole[::-1])
    place = places[len(places) - 1 - len(whole)]
    below = place.detach().floor()
    share = (place - below).unsqueeze(1)
    return _blended(input, places, [*whole, below]) * (1 - share) + _blended(input, places, [*whole, below + 1]) * share


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Values of images (N, C, H, W) at places (N, h, w, 2), or of volumes (N, C, D, H, W) at places (N, d, h, w, 3).

    Places count from -1 to 1 and are named x first.

    >>> image = gt.tensor([[[[1.0, 3.0]]]])
    >>> gt.nn.functional.grid_sample(image, gt.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[2.]]]])
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: {padding_mode!r}"
        )
    rank = input.dim() - 2
    if rank not in (2, 3) or grid.dim() != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != input.shape[0]:
        raise RuntimeError(
            "grid_sample(): expected an input (N, C, H, W) and a grid (N, h, w, 2), or one dimension more of both, "
            f"but got {tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if mode == "bicubic":
        if rank != 2:
            raise RuntimeError("grid_sample(): bicubic interpolation only supports 4D input")
        return _bicubic(input, grid, padding_mode, bool(align_corners))
    places = [_pixel(grid[..., i], input.shape[-1 - i], padding_mode, bool(align_corners)) for i in range(rank)]
    if mode == "nearest":
        found = _looked_up(input, [place.detach().round() for place in places])
        if not grid.requires_grad:
            return found
        # Steps have the gradient zero, but they have one.
        return found + sum(place - place.detach() for place in places).unsqueeze(1) * 0  # type: ignore[union-attr]
    return _blended(input, places, [])


def _cubic_shares(t: Tensor) -> list[Tensor]:
    """Keys' kernel with a = -0.75 at the four neighbours of a place t after the second."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _bicubic(input: Tensor, grid: Tensor, padding_mode: str, align_corners: bool) -> Tensor:
    """Sixteen pixels a place; each of them is kept inside on its own."""
    height, width = input.shape[2:]
    x, y = _unnormalized(grid[..., 0], width, align_corners), _unnormalized(grid[..., 1], height, align_corners)
    left, top = x.detach().floor(), y.detach().floor()
    columns = [_kept_inside(left + i, width, padding_mode, align_corners) for i in range(-1, 3)]
    rows = [_kept_inside(top + i, height, padding_mode, align_corners) for i in range(-1, 3)]
    across, down = _cubic_shares((x - left).unsqueeze(1)), _cubic_shares((y - top).unsqueeze(1))
    total: Tensor | None = None
    for row, share in zip(rows, down):
        line: Tensor | None = None
        for column, part in zip(columns, across):
            term = _looked_up(input, [column, row]) * part
            line = term if line is None else line + term
        assert line is not None
        total = line * share if total is None else total + line * share
    assert total is not None
    return total
