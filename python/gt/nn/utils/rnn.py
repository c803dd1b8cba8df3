"""Sequences of different lengths in one tensor."""

from __future__ import annotations

from collections.abc import Sequence

from gt import _core
from gt._core import Tensor
from gt.nn.utils.packed_sequence import (
    PackedSequence,
    invert_permutation,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    unpack_sequence,
)

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences filled up to the longest and stacked: (length, batch, …), or (batch, length, …).

    >>> gt.nn.utils.rnn.pad_sequence([gt.tensor([1, 2]), gt.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side should be one of 'right' or 'left', got {padding_side!r}")
    parts = list(sequences)
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    length = max(p.shape[0] for p in parts)
    rows = []
    for part in parts:
        missing = length - part.shape[0]
        if missing:
            filling = part.new_full((missing, *part.shape[1:]), padding_value)
            part = _core.cat([filling, part] if padding_side == "left" else [part, filling])
        rows.append(part)
    return _core.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Padded sequences cut back to their lengths, which are read.

    >>> gt.nn.utils.rnn.unpad_sequence(gt.tensor([[1, 2], [3, 0]]), gt.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows.unbind(0), lengths.tolist())]
