"""The shape of a tensor."""

from __future__ import annotations

import math
from typing import SupportsIndex, overload


class Size(tuple[int, ...]):
    """A tuple of extents that knows how many elements they hold; slices and sums are sizes too.

    >>> gt.zeros(2, 3).shape
    gt.Size([2, 3])
    >>> gt.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements in a tensor of this size."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"gt.Size([{', '.join(map(str, self))}])"

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        taken = tuple.__getitem__(self, index)
        return Size(taken) if isinstance(taken, tuple) else taken

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__
