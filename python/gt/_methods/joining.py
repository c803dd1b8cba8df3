"""Putting tensors together and taking them apart: stacks, blocks, products of sets, common shapes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods._registry import function, method
from gt._size import Size

# Parts beyond the end of a dimension are empty: no more of them than `chunk` makes of an empty dimension.
MOST_EMPTY_PARTS = 1 << 20


def _listed(tensors: tuple[Any, ...]) -> tuple[list[Tensor], bool]:
    """The tensors given one by one or as one sequence, and whether it was a single one."""
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        return list(tensors[0]), False
    return list(tensors), len(tensors) == 1


def _each(tensors: tuple[Any, ...], change: Any) -> Any:
    listed, single = _listed(tensors)
    changed = tuple(change(t) for t in listed)
    return changed[0] if single else changed


def _with_1d(t: Tensor) -> Tensor:
    return t.reshape(1) if t.dim() == 0 else t


def _with_2d(t: Tensor) -> Tensor:
    return _with_1d(t).unsqueeze(0) if t.dim() < 2 else t


def _with_3d(t: Tensor) -> Tensor:
    return _with_2d(t).unsqueeze(-1) if t.dim() < 3 else t


@function
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension.

    >>> gt.atleast_1d(gt.tensor(1.0))
    tensor([1.])
    """
    return _each(tensors, _with_1d)


@function
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; new ones come first.

    >>> gt.atleast_2d(gt.tensor([1.0, 2.0]))
    tensor([[1., 2.]])
    """
    return _each(tensors, _with_2d)


@function
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions.

    >>> gt.atleast_3d(gt.ones(2, 3)).shape
    gt.Size([2, 3, 1])
    """
    return _each(tensors, _with_3d)


def _some(name: str, tensors: Sequence[Tensor]) -> None:
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")


@function
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins tensors side by side: along the second dimension, vectors along their only one.

    >>> gt.hstack([gt.tensor([1, 2]), gt.tensor([3])])
    tensor([1, 2, 3])
    """
    _some("hstack", tensors)
    parts = [_with_1d(t) for t in tensors]
    return _core.cat(parts, 0 if parts and parts[0].dim() == 1 else 1)


@function
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins tensors on top of each other; a vector is a row.

    >>> gt.vstack([gt.tensor([1, 2]), gt.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    _some("vstack", tensors)
    return _core.cat([_with_2d(t) for t in tensors], 0)


@function
def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """As `vstack`.

    >>> gt.row_stack([gt.tensor([1, 2]), gt.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return vstack(tensors)


@function
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins tensors along the third dimension.

    >>> gt.dstack([gt.tensor([1, 2]), gt.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    _some("dstack", tensors)
    return _core.cat([_with_3d(t) for t in tensors], 2)


@function
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins tensors side by side; a vector is a column.

    >>> gt.column_stack([gt.tensor([1, 2]), gt.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return hstack([t.reshape(-1, 1) if t.dim() < 2 else t for t in tensors])


@function
def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """As `cat`.

    >>> gt.concat([gt.tensor([1]), gt.tensor([2])])
    tensor([1, 2])
    """
    return _core.cat(tensors, dim)


@function
def concatenate(tensors: Sequence[Tensor], dim: int = 0, axis: int | None = None) -> Tensor:
    """As `cat`.

    >>> gt.concatenate([gt.tensor([1]), gt.tensor([2])])
    tensor([1, 2])
    """
    return _core.cat(tensors, dim if axis is None else axis)


@function
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given ones along its diagonal, zero elsewhere.

    >>> gt.block_diag(gt.tensor([[1, 2]]), gt.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    listed, _ = _listed(tensors)
    blocks = [_with_2d(t) for t in listed]
    width = sum(b.shape[1] for b in blocks)
    rows, left = [], 0
    for block in blocks:
        height, own = block.shape
        parts = [block.new_zeros(height, left), block, block.new_zeros(height, width - left - own)]
        rows.append(_core.cat(parts, 1))
        left += own
    return _core.cat(rows, 0)


@function
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every combination of one element from each vector, as rows.

    >>> gt.cartesian_prod(gt.tensor([1, 2]), gt.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    if len(tensors) == 1:
        return tensors[0]
    grids = _core.meshgrid(*tensors, indexing="ij")
    return _core.stack([g.reshape(-1) for g in grids], 1)


@method
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of `r` elements of a vector, as rows.

    >>> gt.combinations(gt.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.dim() != 1:
        raise RuntimeError(f"combinations expects a vector, got shape {tuple(input.shape)}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.shape[0]), r))
    if r == 0:
        return input.new_empty(0)
    return input[_core.tensor(rows, dtype=_core.int64).reshape(-1, r)]


@function
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that tensors of the given shapes broadcast to.

    >>> gt.broadcast_shapes((2, 1), (3,))
    gt.Size([2, 3])
    """
    listed = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in listed), default=0)
    out = [1] * rank
    for shape in listed:
        for i, n in enumerate(shape, rank - len(shape)):
            if n != 1:
                if out[i] not in (1, n):
                    named = " and ".join(str(list(s)) for s in listed)
                    raise RuntimeError(f"Shape mismatch: objects cannot be broadcast to a single shape: {named}")
                out[i] = n
    return Size(out)


@function
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors expanded to their common shape.

    >>> a, b = gt.broadcast_tensors(gt.ones(2, 1), gt.ones(3))
    >>> a.shape, b.shape
    (gt.Size([2, 3]), gt.Size([2, 3]))
    """
    listed, _ = _listed(tensors)
    shape = broadcast_shapes(*(t.shape for t in listed))
    return tuple(t.expand(shape) for t in listed)


@method
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Splits into `n` nearly equal parts, or before the given indices.

    >>> [t.tolist() for t in gt.tensor_split(gt.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    if input.dim() == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    size = input.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        if sections > size + MOST_EMPTY_PARTS:
            raise RuntimeError(
                f"tensor_split: a dimension of size {size} can be split into at most {size + MOST_EMPTY_PARTS} "
                f"parts, got {sections}"
            )
        cuts = [i * (size // sections) + min(i, size % sections) for i in range(sections + 1)]
        bounds = list(itertools.pairwise(cuts))
    else:
        cuts = [0, *indices_or_sections, size]
        bounds = [slice(a, b).indices(size)[:2] for a, b in itertools.pairwise(cuts)]
    return tuple(input.narrow(dim, min(a, size), max(b - a, 0)) for a, b in bounds)


def _splits(name: str, input: Tensor, parts: Any, rank: int, dim: int) -> None:
    if input.dim() < rank:
        raise RuntimeError(
            f"{name} requires a tensor with at least {rank} dimension, but got a tensor with {input.dim()} dimensions!"
        )
    if isinstance(parts, int) and (parts <= 0 or input.shape[dim] % parts):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{input.shape[dim]} is not divisible by the split_size {parts}!"
        )


@method
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Splits side by side: along the second dimension, a vector along its only one.

    >>> [t.tolist() for t in gt.hsplit(gt.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    _splits("hsplit", input, indices_or_sections, 1, 0 if input.dim() == 1 else 1)
    return tensor_split(input, indices_or_sections, 0 if input.dim() == 1 else 1)


@method
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Splits along the first dimension.

    >>> [t.tolist() for t in gt.vsplit(gt.eye(2), 2)]
    [[[1.0, 0.0]], [[0.0, 1.0]]]
    """
    _splits("vsplit", input, indices_or_sections, 2, 0)
    return tensor_split(input, indices_or_sections, 0)


@method
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Splits along the third dimension.

    >>> [t.shape for t in gt.dsplit(gt.ones(1, 2, 4), 2)]
    [gt.Size([1, 2, 2]), gt.Size([1, 2, 2])]
    """
    _splits("dsplit", input, indices_or_sections, 3, 2)
    return tensor_split(input, indices_or_sections, 2)
