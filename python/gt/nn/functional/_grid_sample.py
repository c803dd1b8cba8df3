"""Sampling images at places that are computed: `grid_sample` and the grids of affine maps."""

from __future__ import annotations

from collections.abc import Sequence

from gt import _core
from gt._core import Tensor


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Places (N, H, W, 2) that an affine map `theta` (N, 2, 3) sends the pixels of an image of `size` (N, C, H, W) to.

    >>> identity = gt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> gt.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=True).flatten().tolist()
    [-1.0, 0.0, 1.0, 0.0]
    """
    shape = tuple(size)
    if len(shape) != 4 or tuple(theta.shape) != (shape[0], 2, 3):
        raise RuntimeError(
            f"affine_grid takes theta (N, 2, 3) and size (N, C, H, W), got {tuple(theta.shape)} and {list(shape)}"
        )
    height, width = shape[2:]

    def axis(count: int) -> Tensor:
        if count <= 1:
            return _core.zeros(count, dtype=theta.dtype)
        places = _core.linspace(-1, 1, count, dtype=theta.dtype)
        return places if align_corners else places * ((count - 1) / count)

    x = axis(width).expand(height, width)
    y = axis(height).unsqueeze(1).expand(height, width)
    base = _core.stack([x, y, _core.ones(height, width, dtype=theta.dtype)], -1).reshape(1, height * width, 3)
    return base.matmul(theta.transpose(1, 2)).reshape(shape[0], height, width, 2)


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


def _looked_up(input: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Pixels at whole places; zero outside."""
    batch, channels, height, width = input.shape
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    flat = y.clamp(0, height - 1) * width + x.clamp(0, width - 1)
    index = flat.long().reshape(batch, 1, -1).expand(batch, channels, -1)
    found = input.reshape(batch, channels, height * width).gather(2, index)
    return _core.where(inside.unsqueeze(1), found.reshape(batch, channels, *x.shape[1:]), 0.0)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Values of images (N, C, H, W) at places (N, h, w, 2), which count from -1 to 1.

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
    if input.dim() != 4 or grid.dim() != 4 or grid.shape[3] != 2 or grid.shape[0] != input.shape[0]:
        raise RuntimeError(
            "grid_sample(): expected an input (N, C, H, W) and a grid (N, h, w, 2), "
            f"but got {tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if mode == "bicubic":
        return _bicubic(input, grid, padding_mode, bool(align_corners))
    x = _pixel(grid[..., 0], input.shape[3], padding_mode, bool(align_corners))
    y = _pixel(grid[..., 1], input.shape[2], padding_mode, bool(align_corners))
    if mode == "nearest":
        found = _looked_up(input, x.detach().round(), y.detach().round())
        # Steps have the gradient zero, but they have one.
        return found + ((x - x.detach()) + (y - y.detach())).unsqueeze(1) * 0 if grid.requires_grad else found
    left, top = x.detach().floor(), y.detach().floor()
    right_share, low_share = (x - left).unsqueeze(1), (y - top).unsqueeze(1)
    above = _looked_up(input, left, top) * (1 - right_share) + _looked_up(input, left + 1, top) * right_share
    below = _looked_up(input, left, top + 1) * (1 - right_share) + _looked_up(input, left + 1, top + 1) * right_share
    return above * (1 - low_share) + below * low_share


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
            term = _looked_up(input, column, row) * part
            line = term if line is None else line + term
        assert line is not None
        total = line * share if total is None else total + line * share
    assert total is not None
    return total
