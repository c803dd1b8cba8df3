"""Tensors as PNG pictures."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from gt import _core
from gt._core import Tensor

# PNG's colour types by the number of channels: grey, grey and alpha, RGB, RGBA.
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
_GRID_COLUMNS = 8


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(pixels: bytes, height: int, width: int, channels: int) -> bytes:
    """A PNG file of 8-bit pixels in rows.

    >>> from gt.utils.tensorboard.pictures import png
    >>> png(bytes(4), 2, 2, 1)[:4]
    b'\\x89PNG'
    """
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    stride = width * channels
    # Every row begins with the number of its filter: none.
    rows = b"".join(b"\0" + pixels[y * stride : (y + 1) * stride] for y in range(height))
    parts = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def in_order(value: Any, dataformats: str, wanted: str) -> Tensor:
    """A picture's tensor with its dimensions in the wanted order; those it does not have are added."""
    tensor = _core.as_tensor(value).detach()
    named = dataformats.upper()
    if len(set(named)) != len(named) or not set(named) <= set(wanted):
        raise ValueError(f"dataformats must name each of {', '.join(wanted)} at most once, not {dataformats!r}")
    if tensor.dim() != len(named):
        raise ValueError(
            f"size of input tensor and input format are different: the tensor's shape is {tuple(tensor.shape)}, and "
            f"dataformats {dataformats!r} names {len(named)} dimensions"
        )
    tensor = tensor.permute([named.index(axis) for axis in wanted if axis in named])
    for i, axis in enumerate(wanted):
        if axis not in named:
            tensor = tensor.unsqueeze(i)
    return tensor


def encoded(hwc: Tensor) -> tuple[int, int, int, bytes]:
    """Height, width, channels and PNG of a picture. Floats are from 0 to 1, integers from 0 to 255. Waits."""
    height, width, channels = hwc.shape
    if channels not in _COLOUR_TYPES:
        raise ValueError(f"a picture has 1 to 4 channels, not {channels} (height {height}, width {width})")
    if hwc.dtype == _core.bool:
        hwc = hwc.float()
    if hwc.dtype.is_floating_point:
        hwc = hwc.float() * 255
    if hwc.dtype != _core.uint8:
        hwc = hwc.clamp(0, 255).to(_core.uint8)
    return height, width, channels, png(bytes(_core._tensor_bytes(hwc.contiguous())), height, width, channels)


def grid(nhwc: Tensor) -> Tensor:
    """Pictures side by side, eight to a row."""
    count, height, width, channels = nhwc.shape
    columns = min(count, _GRID_COLUMNS)
    rows = -(-count // columns)
    missing = rows * columns - count
    if missing:
        blank = _core.zeros(missing, height, width, channels, dtype=nhwc.dtype)
        nhwc = _core.cat([nhwc, blank])
    tiles = nhwc.reshape(rows, columns, height, width, channels).permute(0, 2, 1, 3, 4)
    return tiles.reshape(rows * height, columns * width, channels)
