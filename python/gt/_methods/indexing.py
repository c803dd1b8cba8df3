"""Writing to chosen places of a copy, and picking by flat index."""

from __future__ import annotations

from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods._dimension import check_dim
from gt._methods._registry import in_place, method, method_only, of_tensors
from gt._methods.elementwise import truth
from gt._methods.reduction import Shared


def _at(dim: int, index: Any, rank: int) -> tuple[Any, ...]:
    return (*(slice(None) for _ in range(dim % rank)), index) if rank else (index,)


@method
@of_tensors("input", "index")
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements by their place in the flattened tensor.

    >>> gt.take(gt.tensor([[1, 2], [3, 4]]), gt.tensor([0, 3]))
    tensor([1, 4])
    """
    if index.dtype != _core.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype}")
    return input.reshape(-1)[index]


@method_only
@of_tensors("self", "index", "source")
def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy in which the elements at flat places are replaced, or added to.

    >>> gt.zeros(3).put(gt.tensor([1]), gt.tensor([5.0]))
    tensor([0., 5., 0.])
    """
    flat = self.reshape(-1)
    made = flat.index_put((index.reshape(-1).long(),), source.reshape(-1), accumulate)
    return made.reshape(self.shape)


@method
@of_tensors("input", "mask", "source")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy whose elements under the mask are replaced by those of `source`, in order.

    >>> gt.masked_scatter(gt.zeros(3), gt.tensor([True, False, True]), gt.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if mask.dtype != _core.bool:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}"
        )
    shape = _core.zeros((), dtype=_core.bool).expand(input.shape) | mask
    input = input.expand(shape.shape)
    order = shape.reshape(-1).long().cumsum(0) - 1
    taken = source.reshape(-1)[order.clamp(0, source.numel() - 1)] if source.numel() else input.reshape(-1)
    made = _core.where(shape, taken.reshape(shape.shape), input)
    if source.numel() >= shape.numel():
        return made
    return _core.checked(made, shape.sum() > source.numel(), "rows")


@method
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with the slices at `index` along `dim` filled with `value`.

    >>> gt.index_fill(gt.zeros(3), 0, gt.tensor([0, 2]), 1.0)
    tensor([1., 0., 1.])
    """
    made = input.clone()
    check_dim(dim, input.dim())
    if index.dtype != _core.int64:
        raise IndexError(f"index_fill_(): Expected dtype int64 for index, got {index.dtype}")
    if index.dim() > 1:
        raise RuntimeError(f"Index has to be a vector/scalar, got shape {tuple(index.shape)}")
    if made.dim() == 0:
        return made.fill_(value)
    if isinstance(value, Tensor) and value.dim() > 0:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s)."
        )
    if isinstance(value, Tensor) and value.requires_grad:
        # A place that is named twice is filled once, and counts once in the gradient.
        filled = _core.zeros(made.shape[dim], dtype=_core.bool)
        filled[index] = True
        return _core.where(filled.reshape([-1 if d == dim % made.dim() else 1 for d in range(made.dim())]), value, made)
    made[_at(dim, index, made.dim())] = value
    return made


@method
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with the slice at `index` along `dim` replaced.

    >>> gt.select_scatter(gt.zeros(2, 2), gt.ones(2), 0, 0)
    tensor([[1., 1.],
            [0., 0.]])
    """
    made = input.clone()
    made[_at(dim, index, made.dim())] = src
    return made


@method
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy with a range of slices along `dim` replaced.

    >>> gt.slice_scatter(gt.zeros(4), gt.ones(2), 0, 1, 3)
    tensor([0., 1., 1., 0.])
    """
    made = input.clone()
    made[_at(dim, slice(start, end, step), made.dim())] = src
    return made


@method
@of_tensors("input", "src")
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with a diagonal replaced.

    >>> gt.diagonal_scatter(gt.zeros(2, 2), gt.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    from gt._methods.linear import diag_embed

    rows, columns = input.shape[dim1], input.shape[dim2]
    wide = diag_embed(src, offset, -2, -1)
    square = wide.shape[-1]
    # The diagonal's own square may be smaller or larger than the matrix.
    lead = wide.shape[:-2]
    if square < rows:
        wide = _core.cat([wide, wide.new_zeros(*lead, rows - square, wide.shape[-1])], -2)
    if square < columns:
        wide = _core.cat([wide, wide.new_zeros(*lead, wide.shape[-2], columns - square)], -1)
    wide = wide.narrow(-2, 0, rows).narrow(-1, 0, columns).movedim((-2, -1), (dim1, dim2))
    shape = [1] * input.dim()
    shape[dim1] = rows
    row = _core.arange(rows).reshape(shape)
    shape = [1] * input.dim()
    shape[dim2] = columns
    column = _core.arange(columns).reshape(shape)
    return _core.where(column - row == offset, wide, input)


def _reduced_candidates(kept: Tensor, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    """All along the last dimension: each place reduces what was sent there, and its own element if asked to."""
    places = _core.arange(kept.shape[-1])
    sent = index.unsqueeze(-1) == places
    if reduce == "prod":
        made = _core.where(sent, src.unsqueeze(-1), 1).prod(-2)
        made = made * kept if include_self else made
    else:
        # A place's own element stands in where nothing was sent, so it needs no smallest or largest number.
        first = src.unsqueeze(-1)
        filler = kept.unsqueeze(-2)
        if not include_self:
            # Anything sent there will do: the first of them.
            pick = sent.int().argmax(-2)
            filler = src.detach().gather(-1, pick).unsqueeze(-2)
        candidates = _core.where(sent, first, filler.detach())
        if include_self:
            candidates = _core.cat([filler, candidates], -2)
            valid = _core.cat([_core.ones_like(filler, dtype=_core.bool), sent], -2)
        else:
            valid = sent
        plain = candidates.detach()
        extreme = plain.amax(-2) if reduce == "amax" else plain.amin(-2)
        # Elements that are as large share the gradient.
        same = (plain == extreme.unsqueeze(-2)) | (plain != plain)
        made = Shared.apply(candidates, extreme, same & valid, -2)
    return made if include_self else _core.where(sent.any(-2), made, kept)


@method
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy in which each place joins what `src` sends there: `sum`, `prod`, `mean`, `amax` or `amin`.

    >>> gt.scatter_reduce(gt.zeros(2), 0, gt.tensor([0, 1, 1]), gt.tensor([1.0, 2.0, 3.0]), "amax")
    tensor([1., 3.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    check_dim(dim, input.dim())
    if input.dtype == _core.bool:
        if reduce == "mean":
            raise NotImplementedError("scatter_reduce(): the mean of bools is not defined: convert them, x.float()")
        # A sum of bools is whether one of them holds, a product whether all do.
        reduce = {"sum": "amax", "prod": "amin"}.get(reduce, reduce)
    if index.dtype not in (_core.int64, _core.int32):
        raise RuntimeError(f"scatter(): Expected dtype int32/int64 for index, got {index.dtype}")
    if index.numel() == 0:
        return input.clone()
    if max(index.dim(), 1) != max(input.dim(), 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as self tensor, got shapes {tuple(index.shape)} and "
            f"{tuple(input.shape)}"
        )
    if input.dim() == 0:
        return scatter_reduce(
            input.reshape(1), 0, index.reshape(1), src.reshape(1), reduce, include_self=include_self
        ).reshape(())
    dim = dim % input.dim()
    block = tuple(slice(n) for n in index.shape)
    src = src[block]
    # Along `dim` every element may be a target; elsewhere only where there is an index.
    window = tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))
    kept = input[window]
    if reduce in ("sum", "mean"):
        ones = _core.ones_like(src, dtype=input.dtype)
        counts = _core.zeros_like(kept).scatter_add(dim, index, ones.detach())
        base = kept if include_self else _core.where(counts > 0, 0, kept)
        made = base.scatter_add(dim, index, src)
        if reduce == "mean":
            counts = (counts + 1 if include_self else counts).clamp(min=1)
            made = made / counts if input.dtype.is_floating_point else made.div(counts, rounding_mode="floor")
    else:
        index = _core.checked(index, (index < 0) | (index >= input.shape[dim]), "position")
        moved = (kept.movedim(dim, -1), index.movedim(dim, -1), src.movedim(dim, -1))
        made = _reduced_candidates(*moved, reduce, include_self).movedim(-1, dim)
    made = made.to(input.dtype)
    if tuple(made.shape) == tuple(input.shape):
        return made
    out = input.clone()
    out[window] = made
    return out


@method
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is one of `test_elements`.

    >>> gt.isin(gt.tensor([1, 2, 3]), gt.tensor([2, 3]))
    tensor([False,  True,  True])
    """
    elements = _core.as_tensor(elements)
    found: Tensor = (elements.unsqueeze(-1) == _core.as_tensor(test_elements).reshape(-1)).any(-1)
    return ~found if invert else found


@method
def argwhere(input: Tensor) -> Tensor:
    """The places of what is not zero, as rows. Waits, because its size depends on the data.

    >>> gt.argwhere(gt.tensor([0, 1, 1]))
    tensor([[1],
            [2]])
    """
    return truth(input).nonzero()  # type: ignore[no-any-return]


for _name in ("put", "masked_scatter", "index_fill", "index_copy", "scatter_reduce"):
    in_place(_name)
