"""Other ways to look at a tensor's elements, and questions about the tensor itself."""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._accepted import strided
from gt._core import Tensor
from gt._methods._registry import function, method, method_only


@method
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Turned by 90 degrees, `k` times, from the first of `dims` towards the second.

    >>> gt.rot90(gt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.dim() < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.dim()}")
    first, second = dims
    if first % input.dim() == second % input.dim() and abs(first) <= input.dim():
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {first} and dim1 = {second}")
    turns = k % 4
    if turns == 0:
        return input.clone()
    if turns == 1:
        return input.flip(second).transpose(first, second)
    if turns == 2:
        return input.flip(first, second)
    return input.flip(first).transpose(first, second)


@method
def fliplr(input: Tensor) -> Tensor:
    """Mirrored left to right: along the second dimension.

    >>> gt.fliplr(gt.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"Input must be >= 2-d, got shape {tuple(input.shape)}")
    return input.flip(1)


@method
def flipud(input: Tensor) -> Tensor:
    """Mirrored top to bottom: along the first dimension.

    >>> gt.flipud(gt.tensor([1, 2]))
    tensor([2, 1])
    """
    if input.dim() < 1:
        raise RuntimeError(f"Input must be >= 1-d, got shape {tuple(input.shape)}")
    return input.flip(0)


@method_only
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements along a dimension, `step` apart, in a new last dimension. A copy, unlike PyTorch's view.

    >>> gt.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    if self.dim() == 0:
        return self.reshape(1).narrow(0, 0, size)
    length = self.shape[dimension]
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {dimension} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    count = (length - size) // step + 1
    places = (_core.arange(count) * step).unsqueeze(1) + _core.arange(size).unsqueeze(0)
    windows = self.index_select(dimension, places.reshape(-1))
    return windows.unflatten(dimension, (count, size)).movedim(dimension % self.dim() + 1, -1)


@method_only
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the dimensions that broadcasting from `size` would have made.

    >>> gt.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    lead = self.dim() - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, self.shape[lead:])):
        raise RuntimeError(f"size {list(shape)} is not expandable to size {list(self.shape)}.")
    dims = [*range(lead), *(lead + i for i, n in enumerate(shape) if n != self.shape[lead + i])]
    if not shape:
        # As in PyTorch this is a plain sum, which widens integers; other sums keep the dtype's own kind of result.
        return self.sum()
    return self.sum(dims, keepdim=True).reshape(shape) if dims else self


@method
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged.

    >>> gt.adjoint(gt.ones(2, 3)).shape
    gt.Size([3, 2])
    """
    return input.transpose(-2, -1)


@method
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero. Waits for it.

    >>> gt.is_nonzero(gt.tensor([0.0]))
    False
    """
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous" if input.numel() == 0 else
                           "Boolean value of Tensor with more than one value is ambiguous")  # fmt: skip
    return bool(input)


@method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape.

    >>> gt.is_same_size(gt.ones(2), gt.zeros(2))
    True
    """
    return tuple(input.shape) == tuple(other.shape)


@function
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Places in a flattened tensor as one index per dimension.

    >>> gt.unravel_index(gt.tensor([3]), (2, 2))
    (tensor([1]), tensor([1]))
    """
    found = []
    indices = indices.long()
    for size in reversed([shape] if isinstance(shape, int) else list(shape)):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))


@function
def real(input: Tensor) -> Tensor:
    """The real part: the tensor itself.

    >>> gt.real(gt.tensor([1.0]))
    tensor([1.])
    """
    return input


@method
def conj(input: Tensor) -> Tensor:
    """The complex conjugate: the tensor itself.

    >>> gt.conj(gt.tensor([1.0]))
    tensor([1.])
    """
    return input


@method
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """As `narrow`, but a copy.

    >>> gt.narrow_copy(gt.arange(4), 0, 1, 2)
    tensor([1, 2])
    """
    return input.narrow(dim, start, length).clone()


@method
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes along `dim`.

    >>> gt.split_with_sizes(gt.arange(3), (1, 2))
    (tensor([0]), tensor([1, 2]))
    """
    return input.split(list(split_sizes), dim)


@method_only
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Writes a number to the diagonal; with `wrap`, a tall matrix has several.

    >>> gt.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if self.dim() < 2:
        raise RuntimeError(f"dimensions must larger than 1, got shape {tuple(self.shape)}")
    if self.dim() > 2 and len(set(self.shape)) != 1:
        raise RuntimeError(f"all dimensions of input must be of equal length, got shape {tuple(self.shape)}")
    stride = sum(math.prod(self.shape[d + 1 :]) for d in range(self.dim()))
    count = self.numel() if wrap and self.dim() == 2 else min(self.shape) * stride
    place = _core.arange(self.numel()).reshape(self.shape)
    return self.masked_fill_((place % stride == 0) & (place < count), fill_value)


@method
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Elements of the tensor's storage, which are `stride` apart along each dimension. A copy, unlike PyTorch's view.

    >>> gt.as_strided(gt.arange(6), (2, 2), (3, 1))
    tensor([[0, 1],
            [3, 4]])
    """
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(stride)} and {list(size)}")
    whole = input if input._base is None else input._base
    start = input.storage_offset() if storage_offset is None else storage_offset
    place = _core.full((), start)
    for dim, (count, step) in enumerate(zip(size, stride)):
        place = place + (_core.arange(count) * step).reshape(-1, *([1] * (len(size) - dim - 1)))
    last = start + sum((count - 1) * step for count, step in zip(size, stride))
    if 0 not in size and last >= whole.numel():
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)} and offset {start} reach past {whole.numel()} elements"
        )
    return whole.reshape(-1)[place.expand(tuple(size))]


@method_only
def new(self: Tensor, *args: Any) -> Tensor:
    """A tensor of this dtype: of the given data, or unwritten of the given sizes.

    >>> gt.ones(1).new([1, 2])
    tensor([1., 2.])
    """
    if len(args) == 1 and not isinstance(args[0], int):
        return _core.tensor(args[0], dtype=self.dtype)
    return _core.zeros(*(args or (0,)), dtype=self.dtype)


@method_only
def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replaces each element by what `callable` makes of it. Waits for the elements; slow.

    >>> gt.arange(3).apply_(lambda v: v * 2)
    tensor([0, 2, 4])
    """
    made = [callable(value) for value in self.reshape(-1).tolist()]
    return self.copy_(_core.tensor(made, dtype=self.dtype).reshape(self.shape))


@method_only
def share_memory_(self: Tensor) -> Tensor:
    """The tensor itself: processes share tensors through a server, not through memory.

    >>> gt.ones(1).share_memory_()
    tensor([1.])
    """
    return self


@method_only
def is_shared(self: Tensor) -> bool:
    """Whether other processes see the tensor's memory: they do not.

    >>> gt.ones(1).is_shared()
    False
    """
    return False


@method_only
def is_inference(self: Tensor) -> bool:
    """Whether the tensor can never be tracked: it always can.

    >>> gt.ones(1).is_inference()
    False
    """
    return False


@method_only
def __reversed__(self: Tensor) -> Tensor:
    """Reversed along the first dimension.

    >>> reversed(gt.tensor([1, 2]))
    tensor([2, 1])
    """
    return self.flip(0) if self.dim() else self


@method_only
def get_device(self: Tensor) -> int:
    """The index of the tensor's device, -1 for none.

    >>> gt.ones(1).get_device()
    -1
    """
    index = self.device.index
    return -1 if index is None else index


def _in_place_shape(name: str) -> None:
    """Gives tensors `name_`: the tensor becomes the view of itself that the method `name` makes."""
    look = getattr(Tensor, name)

    def change(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._become_view(lambda seen: look(seen, *args, **kwargs))

    change.__name__ = name + "_"
    change.__qualname__ = f"Tensor.{name}_"
    change.__doc__ = f"As `{name}`, and the tensor itself is the result; aliases made before keep their shape."
    method_only(change)


for _name in ("unsqueeze", "squeeze", "t", "transpose", "swapaxes", "swapdims"):
    _in_place_shape(_name)


@method_only
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Changes the shape in place. What is cut off is gone; elements that are added are zero.

    >>> gt.arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    shape = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    missing = math.prod(shape) - self.numel()
    if missing <= 0:
        return self._become_view(lambda seen: seen.reshape(-1)[: math.prod(shape)].reshape(shape))
    self.data = _core.cat([self.detach().reshape(-1), _core.zeros(missing, dtype=self.dtype)]).reshape(shape)
    return self


@method_only
def resize_as_(self: Tensor, other: Tensor, memory_format: Any = None) -> Tensor:
    """As `resize_`, to the shape of another tensor.

    >>> gt.arange(4).resize_as_(gt.ones(1, 2))
    tensor([[0, 1]])
    """
    return self.resize_(tuple(other.shape))


@method_only
def set_(self: Tensor, source: Tensor | None = None) -> Tensor:
    """Becomes an alias of `source`; without one, a tensor of no elements.

    >>> gt.arange(3).set_()
    tensor([], dtype=gt.int64)
    """
    if self.grad_fn is not None and _core.is_grad_enabled():
        raise RuntimeError("derivative for set_ is not implemented: detach() the tensor first")
    if source is not None and source.dtype != self.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
    self.data = _core.empty(0, dtype=self.dtype) if source is None else source
    return self


for _property, _get in {
    "mH": lambda self: self.transpose(-2, -1),
    "layout": lambda self: strided,
    "real": lambda self: self,
    "is_cpu": lambda self: self.device.type == "cpu",
    "is_sparse": lambda self: False,
    "is_quantized": lambda self: False,
    "is_meta": lambda self: False,
}.items():
    setattr(Tensor, _property, property(_get))


@method_only
def __array_wrap__(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """What a function of NumPy gives for a tensor: a tensor; truths as uint8.

    >>> import numpy
    >>> numpy.square(gt.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """
    return _core.from_numpy(array.astype("uint8") if array.dtype == bool else array)


# An array on the left of an operator leaves it to the tensor on the right.
Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]
