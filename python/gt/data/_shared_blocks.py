"""Batches between processes: arrays in shared memory, the rest as a pickle that names them by offset.

SHARED-1: a block is an anonymous file (memfd), known only by descriptors. When the last process that has one is gone, by
          whatever death, so is the block: there is no name to leak, and /dev/shm need not be large.
SHARED-2: the writer owns its blocks; the reader copies out of one and gives its number back, then it is written again.
SHARED-3: a block only grows. A reader that finds it larger than what it mapped maps it again.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from typing import TYPE_CHECKING, Any

from gt import _core
from gt.data._collate import Maker, array_of_torch, is_torch_tensor

if TYPE_CHECKING:
    import numpy as np

# Arrays begin at multiples of this: what vector instructions like, and a cache line.
ALIGNMENT = 64
# Blocks are this many bytes or a multiple, so that batches of nearly one size share them.
GRAIN = 1 << 16


class Block:
    """A piece of memory that two processes map."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self.size = size
        self.memory = mmap.mmap(descriptor, size) if size else None

    @classmethod
    def create(cls) -> Block:
        """A new block without any room yet."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("gt-batch", os.MFD_CLOEXEC), 0)
        handle, path = tempfile.mkstemp(prefix="gt-batch-")
        os.unlink(path)
        return cls(handle, 0)

    def grow(self, size: int) -> None:
        """Makes the file at least this large. Arrays in the old mapping stay valid: it is the same memory."""
        if size <= self.size:
            return
        # Half as much again, so that batches that grow slowly do not map anew each time.
        size = -(-max(size, self.size + self.size // 2 if self.size else 0) // GRAIN) * GRAIN
        os.ftruncate(self.descriptor, size)
        if hasattr(os, "posix_fallocate"):
            # Too little memory is an error here and not a bus error at the first write.
            os.posix_fallocate(self.descriptor, 0, size)
        self.map(size)

    def map(self, size: int) -> None:
        """Maps the file anew."""
        self.memory = mmap.mmap(self.descriptor, size)
        self.size = size

    def array(self, offset: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """The array at an offset, in place."""
        import numpy as np

        if 0 in shape:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, buffer=self.memory, offset=offset)

    def close(self) -> None:
        """Gives the descriptor back; the mapping goes with the last array in it."""
        self.memory = None
        os.close(self.descriptor)


class ArrayOfTensor:
    """An array that is to be a GT tensor at the other end."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array


class BlockMaker(Maker):
    """Makes the leaves of a batch in a block."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.used = 0
        # Where the arrays made here lie, by the address of their first element.
        self._offsets: dict[int, int] = {}

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """An array in the block, which grows if it has to."""
        import numpy as np

        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        offset = -(-self.used // ALIGNMENT) * ALIGNMENT
        self.block.grow(offset + size)
        self.used = offset + size
        array = self.block.array(offset, shape, dtype)
        self._offsets[array.__array_interface__["data"][0]] = offset
        return array

    def tensor(self, array: Any) -> Any:
        """An array that is to be a tensor."""
        return ArrayOfTensor(array)

    def stack(self, tensors: list[Any]) -> Any:
        """Tensors that this process has made are stacked by its own GT."""
        return _core.stack(tensors)

    def offset_of(self, array: np.ndarray[Any, Any]) -> int:
        """Where the array lies in the block; it is copied there unless it was made there."""
        address = array.__array_interface__["data"][0]
        if array.size and array.flags.c_contiguous and address in self._offsets:
            return self._offsets[address]
        room = self.empty(array.shape, array.dtype)
        room[...] = array
        return self._offsets[room.__array_interface__["data"][0]]


class BatchPickler(pickle.Pickler):
    """Writes a batch of any structure; arrays and tensors in it become places in the block."""

    def __init__(self, file: Any, maker: BlockMaker) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._maker = maker
        import numpy as np

        self._ndarray = np.ndarray

    def persistent_id(self, value: Any) -> Any:
        """The place of an array or tensor, None for all else."""
        # Nearly everything that comes by here is none of these.
        if isinstance(value, ArrayOfTensor):
            return self._place("gt", value.array)
        if isinstance(value, self._ndarray):
            return None if value.dtype.hasobject else self._place("numpy", value)
        if isinstance(value, _core.Tensor):
            brain = value.dtype is _core.bfloat16
            return self._place("gt-bfloat16" if brain else "gt", (value.float() if brain else value).detach().numpy())
        if is_torch_tensor(value):
            brain = str(value.dtype) == "torch.bfloat16"
            return self._place("torch-bfloat16" if brain else "torch", array_of_torch(value))
        return None

    def _place(self, kind: str, array: Any) -> tuple[Any, ...]:
        dtype = array.dtype.str if array.dtype.fields is None else array.dtype
        return kind, self._maker.offset_of(array), array.shape, dtype


class BatchUnpickler(pickle.Unpickler):
    """Reads what `BatchPickler` wrote. What it gives is copied: the block may be written again at once."""

    def __init__(self, file: Any, block: Block | None) -> None:
        super().__init__(file)
        self._block = block
        self.array_bytes = 0

    def persistent_load(self, place: Any) -> Any:
        """The array or tensor of a place."""
        kind, offset, shape, dtype = place
        assert self._block is not None
        array = self._block.array(offset, shape, dtype)
        self.array_bytes += array.nbytes
        if kind == "numpy":
            return array.copy()
        if kind.startswith("torch"):
            import torch

            made = torch.from_numpy(array.copy())
            return made.bfloat16() if kind == "torch-bfloat16" else made
        tensor = _core.from_numpy(array)
        return tensor.bfloat16() if kind == "gt-bfloat16" else tensor


def dump_batch(batch: Any, maker: BlockMaker) -> bytes:
    """The batch as bytes, its arrays in the maker's block."""
    file = io.BytesIO()
    BatchPickler(file, maker).dump(batch)
    return file.getvalue()


def load_batch(pickled: bytes, block: Block | None) -> tuple[Any, int]:
    """The batch, and how many bytes its arrays have."""
    reader = BatchUnpickler(io.BytesIO(pickled), block)
    batch = reader.load()
    return batch, reader.array_bytes
