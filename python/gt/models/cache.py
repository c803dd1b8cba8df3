"""Keys and values of the tokens seen so far.

KV-CACHE-1: buffers are allocated ahead and written in place, and attention looks at a multiple of `STRIDE` positions with
a mask. So the shapes of a generating loop change once in `STRIDE` tokens, and its windows are found in the plan cache.
KV-CACHE-2: what is kept is detached: no gradient flows through a cache.
KV-CACHE-3: a position that was never written is zero, not garbage: a masked position has weight zero, and zero times
NaN would not be zero.
"""

from __future__ import annotations

from gt import _core
from gt._core import Tensor

__all__ = ["KeyValueCache"]

STRIDE = 64


def round_up(count: int, unit: int = STRIDE) -> int:
    """The next multiple of `unit`."""
    return -(-count // unit) * unit


class KeyValueCache:
    """The keys and values of every layer; a model that is given one appends to it.

    `capacity` is the number of positions to allocate for, if it is known; the buffers grow otherwise.

    >>> cache = gt.models.KeyValueCache(capacity=100)
    >>> cache.get_seq_length(), cache.capacity
    (0, 128)
    """

    def __init__(self, capacity: int = 0) -> None:
        if capacity < 0:
            raise ValueError(f"capacity must not be negative, not {capacity}")
        self.capacity = round_up(capacity)
        self.length = 0
        self.layers: list[tuple[Tensor, Tensor]] = []

    def get_seq_length(self, layer: int = 0) -> int:
        """How many positions are filled; the same in every layer."""
        return self.length

    def __len__(self) -> int:
        return len(self.layers)

    def reset(self) -> None:
        """Forgets the tokens, keeps the buffers."""
        self.length = 0

    def crop(self, length: int) -> None:
        """Forgets all tokens but the first `length`; a negative number takes so many off the end."""
        length = max(self.length + length, 0) if length < 0 else length
        self.length = min(self.length, length)

    def visible(self, new: int) -> int:
        """The number of positions that attention looks at once `new` ones have been added."""
        return round_up(self.length + new)

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes [batch, heads, new, head_dim] behind what a layer has; gives the positions attention looks at.

        `advance` makes the positions count, once all layers have theirs.
        """
        start, new = self.length, keys.shape[2]
        visible = self.visible(new)
        if visible > self.capacity:
            self.capacity = max(visible, 2 * self.capacity)
        if layer == len(self.layers):
            self.layers.append((self._buffer(keys), self._buffer(values)))
        stored_keys, stored_values = self.layers[layer]
        if stored_keys.shape[0] != keys.shape[0]:
            raise ValueError(
                f"the cache holds a batch of {stored_keys.shape[0]}, but the new tokens have a batch of {keys.shape[0]}"
            )
        if stored_keys.shape[2] < self.capacity:
            stored_keys, stored_values = self._grown(stored_keys), self._grown(stored_values)
            self.layers[layer] = (stored_keys, stored_values)
        stored_keys[:, :, start : start + new] = keys.detach()
        stored_values[:, :, start : start + new] = values.detach()
        return stored_keys[:, :, :visible], stored_values[:, :, :visible]

    def advance(self, new: int) -> None:
        """Makes the positions that every layer has appended count."""
        self.length += new

    def _buffer(self, like: Tensor) -> Tensor:
        batch, heads, _, width = like.shape
        return _core.zeros(batch, heads, self.capacity, width, dtype=like.dtype)

    def _grown(self, old: Tensor) -> Tensor:
        new = self._buffer(old)
        new[:, :, : old.shape[2]] = old
        return new
