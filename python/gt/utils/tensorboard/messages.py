"""The messages TensorBoard reads, written by hand in the protocol buffers' wire format.

Each function is one message; the numbers are those of the fields in TensorBoard's event.proto, summary.proto, tensor.proto
and the hparams plugin's api.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Data types of tensor.proto.
_DT_STRING = 7


def _varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    """An integer, a bool or an enum."""
    return _varint(field << 3) + _varint(value)


def double(field: int, value: float) -> bytes:
    """A float of 64 bits."""
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    """A float of 32 bits. What is too large for them is infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _varint(field << 3 | 5) + packed


def message(field: int, content: bytes) -> bytes:
    """A message within a message, or bytes."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A string."""
    return message(field, value.encode("utf-8", "backslashreplace"))


def doubles(field: int, values: Sequence[float]) -> bytes:
    """A packed list of floats."""
    return message(field, struct.pack(f"<{len(values)}d", *values))


def event(wall_time: float, step: int | None, content: bytes) -> bytes:
    """An event: `content` is one of its further fields."""
    return double(1, wall_time) + (b"" if not step else integer(2, step)) + content


def file_version() -> bytes:
    """What the first event of a file says."""
    return text(3, "brain.Event:2")


def session_start() -> bytes:
    """Says that events from here on replace those after this one's step."""
    return message(7, integer(1, 1))


def summary(values: Iterable[bytes]) -> bytes:
    """The values of an event."""
    return message(5, b"".join(message(1, value) for value in values))


def scalar(tag: str, value: float) -> bytes:
    """A number."""
    return text(1, tag) + single(2, value)


def image(tag: str, height: int, width: int, channels: int, png: bytes) -> bytes:
    """A picture, encoded."""
    return text(1, tag) + message(4, integer(1, height) + integer(2, width) + integer(3, channels) + message(4, png))


def histogram(
    tag: str, extent: tuple[float, float], totals: tuple[float, float, float], limits: list[float], counts: list[float]
) -> bytes:
    """A distribution: least and largest value; number, sum and sum of squares; upper limits of buckets, and their counts."""
    low, high = extent
    number, total, squares = totals
    numbers = double(1, low) + double(2, high) + double(3, number) + double(4, total) + double(5, squares)
    return text(1, tag) + message(5, numbers + doubles(6, limits) + doubles(7, counts))


def _plugin(name: str, content: bytes = b"") -> bytes:
    return message(9, message(1, text(1, name) + (message(2, content) if content else b"")))


def words(tag: str, value: str) -> bytes:
    """A text, which TensorBoard shows as Markdown."""
    shape = message(2, message(2, integer(1, 1)))
    return (
        text(1, f"{tag}/text_summary") + _plugin("text") + message(8, integer(1, _DT_STRING) + shape + text(8, value))
    )


def _json_value(value: Any) -> bytes:
    """A google.protobuf.Value."""
    if isinstance(value, bool):
        return integer(4, value)
    return double(2, float(value)) if isinstance(value, (int, float)) else text(3, str(value))


def _hparams_value(tag: str, content: bytes) -> bytes:
    return text(1, f"_hparams_/{tag}") + _plugin("hparams", content)


def hparams(parameters: Mapping[str, Any], metrics: Iterable[str], now: float) -> list[bytes]:
    """The three values that make a run a row in the table of hyperparameters."""
    kinds = {
        name: 2 if isinstance(value, bool) else 3 if isinstance(value, (int, float)) else 1
        for name, value in parameters.items()
    }
    infos = b"".join(message(4, text(1, name) + integer(4, kind)) for name, kind in kinds.items())
    measured = b"".join(message(5, message(1, text(2, name))) for name in metrics)
    start = b"".join(message(1, text(1, k) + message(2, _json_value(v))) for k, v in parameters.items())
    return [
        _hparams_value("experiment", message(2, double(3, now) + infos + measured)),
        _hparams_value("session_start_info", message(3, start + double(5, now))),
        _hparams_value("session_end_info", message(4, integer(1, 1) + double(2, now))),
    ]
