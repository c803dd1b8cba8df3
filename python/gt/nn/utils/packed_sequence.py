"""Sequences of different lengths without their padding: one row for every step of every sequence, step by step.

PACKED-1: lengths are known to the script, not only to the device; so nothing here waits, unless they are given as a tensor.
PACKED-2: sequences are ordered from the longest to the shortest; the order goes with them and is undone at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gt import _core
from gt._core import Tensor


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Fields):
    """The rows of all sequences, first those of step 0, and how many sequences reach each step.

    >>> packed = gt.nn.utils.rnn.pack_sequence([gt.tensor([1, 2, 3]), gt.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    _sizes: list[int] | None = None

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def step_sizes(self) -> list[int]:
        """`batch_sizes` as numbers; read once if only the device knows them."""
        if self._sizes is None:
            self._sizes = [int(size) for size in self.batch_sizes.tolist()]
        return self._sizes

    def with_data(self, data: Tensor) -> PackedSequence:
        """The same lengths and order around other rows."""
        made = PackedSequence(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)
        made._sizes = self._sizes
        return made

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The rows in another dtype or on another device."""
        return self.with_data(self.data.to(*args, **kwargs))

    def float(self) -> PackedSequence:
        """The rows as float32."""
        return self.to(_core.float32)

    def double(self) -> PackedSequence:
        """The rows as float64."""
        return self.to(_core.float64)

    def half(self) -> PackedSequence:
        """The rows as float16."""
        return self.to(_core.float16)

    def long(self) -> PackedSequence:
        """The rows as int64."""
        return self.to(_core.int64)

    def int(self) -> PackedSequence:
        """The rows as int32."""
        return self.to(_core.int32)

    def cpu(self) -> PackedSequence:
        """The rows on the CPU."""
        return self.with_data(self.data.cpu())

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The rows on a GPU."""
        return self.with_data(self.data.cuda(*args, **kwargs))

    def pin_memory(self) -> PackedSequence:
        """The sequence itself."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Whether the rows were asked to be on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Never: GT copies what it is given."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes an order.

    >>> gt.nn.utils.rnn.invert_permutation(gt.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def _as_numbers(lengths: Any) -> list[int]:
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]


def _steps(ordered: Sequence[int]) -> list[int]:
    """How many of the sequences, ordered from long to short, reach each step."""
    return [sum(1 for n in ordered if n > step) for step in range(ordered[0])]


def _packed(data: Tensor, sizes: list[int], order: list[int] | None) -> PackedSequence:
    sorted_indices = None if order is None else _core.tensor(order, dtype=_core.int64)
    made = PackedSequence(data, _core.tensor(sizes, dtype=_core.int64), sorted_indices)
    made._sizes = sizes
    return made


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs (length, batch, …), or (batch, length, …), without what lies behind each sequence's length.

    >>> padded = gt.tensor([[1, 2], [3, 0]])
    >>> gt.nn.utils.rnn.pack_padded_sequence(padded, [2, 1], batch_first=True).data
    tensor([1, 3, 2])
    """
    numbers = _as_numbers(lengths)
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else (input.shape[0], input.shape[1])
    if len(numbers) != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size {batch}, but got {len(numbers)}.")
    if not numbers or min(numbers) <= 0:
        raise RuntimeError(
            f"Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0: {numbers}"
        )
    if max(numbers) > steps:
        raise RuntimeError(f"lengths {numbers} reach beyond the {steps} steps of an input of {tuple(input.shape)}")
    order = sorted(range(batch), key=lambda i: -numbers[i])
    if enforce_sorted:
        if order != list(range(batch)):
            raise RuntimeError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                f"`enforce_sorted=False` to pack_padded_sequence to sidestep this requirement: got {numbers}"
            )
    sizes = _steps([numbers[i] for i in order])
    stride = (1, steps) if batch_first else (batch, 1)
    places = [step * stride[0] + order[i] * stride[1] for step, size in enumerate(sizes) for i in range(size)]
    rows = input.reshape(steps * batch, *input.shape[2:])
    data = rows.index_select(0, _core.tensor(places, dtype=_core.int64))
    return _packed(data, sizes, None if enforce_sorted else order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """What was packed, padded again, and the lengths.

    >>> packed = gt.nn.utils.rnn.pack_sequence([gt.tensor([1, 2]), gt.tensor([3])])
    >>> gt.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    sizes = sequence.step_sizes()
    steps, batch = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, "
                f"but got total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    padded = padded_steps(sequence.data, sizes, padding_value, steps)
    lengths = _core.tensor([sum(1 for size in sizes if size > i) for i in range(batch)], dtype=_core.int64)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices)
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def padded_steps(data: Tensor, sizes: list[int], padding_value: float = 0.0, steps: int | None = None) -> Tensor:
    """Packed rows as (steps, batch, …), in the order they have."""
    steps, batch = steps or len(sizes), sizes[0]
    places, start = [], 0
    for size in [*sizes, *([0] * (steps - len(sizes)))]:
        # The row behind the last is the padding.
        places += [start + i if i < size else data.shape[0] for i in range(batch)]
        start += size
    rows = _core.cat([data, data.new_full((1, *data.shape[1:]), padding_value)])
    return rows.index_select(0, _core.tensor(places, dtype=_core.int64)).reshape(steps, batch, *data.shape[1:])


def packed_steps(padded: Tensor, sizes: list[int]) -> Tensor:
    """The rows of (steps, batch, …) that belong to a sequence."""
    batch = padded.shape[1]
    places = [step * batch + i for step, size in enumerate(sizes) for i in range(size)]
    rows = padded.reshape(padded.shape[0] * batch, *padded.shape[2:])
    return rows.index_select(0, _core.tensor(places, dtype=_core.int64))


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of sequences.

    >>> gt.nn.utils.rnn.pack_sequence([gt.tensor([1, 2]), gt.tensor([3])]).data
    tensor([1, 3, 2])
    """
    from gt.nn.utils.rnn import pad_sequence

    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], False, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed.

    >>> gt.nn.utils.rnn.unpack_sequence(gt.nn.utils.rnn.pack_sequence([gt.tensor([1, 2]), gt.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    from gt.nn.utils.rnn import unpad_sequence

    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
