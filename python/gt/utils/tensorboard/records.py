"""TFRecord files: each record with its length, and both with a checksum.

The layout is: length as u64, masked CRC-32C of these 8 bytes as u32, the record, masked CRC-32C of the record as u32, all
little-endian.
"""

from __future__ import annotations

import struct
from functools import cache

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reversed.
_MASK_DELTA = 0xA282EAD8


@cache
def _table() -> tuple[int, ...]:
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        rows.append(byte)
    return tuple(rows)


def crc32c(data: bytes) -> int:
    """The CRC-32C of some bytes.

    >>> from gt.utils.tensorboard.records import crc32c
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table = _table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """A checksum that may itself lie in checksummed data."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def framed(record: bytes) -> bytes:
    """A record as it lies in the file."""
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", masked(crc32c(length))) + record + struct.pack("<I", masked(crc32c(record)))
