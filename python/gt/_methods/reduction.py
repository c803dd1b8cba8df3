"""Reductions: moments, order statistics, counts, distances.

REDUCTION-1: what is picked out of a tensor (median, quantile, …) is gathered from it by index, so that gradients reach
exactly the elements that were picked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

from gt import _core, return_types
from gt._core import Tensor
from gt._limits import iinfo
from gt._methods._dimension import is_single
from gt._methods._registry import in_place, method, of_tensors
from gt._methods.elementwise import as_float, as_operand, truth
from gt.autograd.function import Function

Dims = int | Sequence[int] | None


def _correction(dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Any, float]:
    """`var_mean(x, False)` means unbiased=False, as in PyTorch."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


@method
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The variance and the mean.

    >>> gt.var_mean(gt.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = _correction(dim, unbiased, correction)
    return input.var(dim, correction=correction, keepdim=keepdim), input.mean(dim, keepdim=keepdim)


@method
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean.

    >>> gt.std_mean(gt.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = _correction(dim, unbiased, correction)
    return input.std(dim, correction=correction, keepdim=keepdim), input.mean(dim, keepdim=keepdim)


@method
def nansum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum of what is not NaN.

    >>> gt.nansum(gt.tensor([1.0, gt.nan, 2.0]))
    tensor(3.)
    """
    return _core.where(input.isnan(), 0, input).sum(dim, keepdim=keepdim, dtype=dtype)


@method
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of what is not NaN.

    >>> gt.nanmean(gt.tensor([1.0, gt.nan, 2.0]))
    tensor(1.5000)
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype}")
    total = nansum(input, dim, keepdim, dtype=dtype)
    return total / (~input.isnan()).sum(dim, keepdim=keepdim).to(total.dtype)


@method
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements are not zero.

    >>> gt.count_nonzero(gt.tensor([[1, 0], [2, 3]]), dim=1)
    tensor([1, 2])
    """
    return truth(input).sum(dim)  # type: ignore[no-any-return]


@method
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> return_types.aminmax:
    """The smallest and the largest elements.

    >>> low, high = gt.aminmax(gt.tensor([3, 1, 2]))
    >>> low, high
    (tensor(1), tensor(3))
    """
    return return_types.aminmax(input.amin(dim, keepdim=keepdim), input.amax(dim, keepdim=keepdim))


def _picked(input: Tensor, index: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Elements of `input` by an index that kept `dim`, and that index."""
    if input.dim() == 0:
        return input.clone(), index.reshape(())
    values = input.gather(dim, index)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _sorted_index(input: Tensor, dim: int) -> Tensor:
    return input.detach().sort(dim=dim, stable=True).indices


@method
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> return_types.values_and_indices:
    """The `k`-th smallest element along a dimension, and where it is.

    >>> gt.kthvalue(gt.tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    size = input.shape[dim] if input.dim() else 1
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: {k} of {size}")
    if input.dim() == 0:
        return return_types.kthvalue(input.clone(), _core.zeros((), dtype=_core.int64))
    index = _sorted_index(input, dim).narrow(dim, k - 1, 1)
    return return_types.kthvalue(*_picked(input, index, dim, keepdim))


class Shared(Function):
    """What was found along a dimension, of the elements it was found among; those that are marked share its gradient."""

    @staticmethod
    def forward(ctx: Any, among: Tensor, found: Tensor, same: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(same)
        ctx.dim = dim
        return found.detach()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (same,) = ctx.saved_tensors
        (grad,) = grad_outputs
        share = grad / same.sum(ctx.dim).clamp(min=1)
        return _core.where(same, share.unsqueeze(ctx.dim), 0.0), None, None, None


def _median_index(input: Tensor, dim: int, skip_nan: bool) -> Tensor:
    size = input.shape[dim]
    order = _sorted_index(input, dim)
    if not input.dtype.is_floating_point:
        return order.narrow(dim, (size - 1) // 2, 1)
    nan = input.detach().isnan()
    if skip_nan:
        valid = (~nan).sum(dim, keepdim=True)
        return order.gather(dim, ((valid - 1) // 2).clamp(min=0))
    return _core.where(
        nan.any(dim, keepdim=True), nan.int().argmax(dim, keepdim=True), order.narrow(dim, (size - 1) // 2, 1)
    )


def _median(input: Tensor, dim: int | None, keepdim: bool, skip_nan: bool) -> tuple[Tensor, Tensor]:
    if dim is None:
        flat = input.reshape(-1)
        if flat.shape[0] == 0:
            floating = input.dtype.is_floating_point
            if input.dtype == _core.bool:
                value: Any = True
            else:
                value = math.nan if floating else iinfo(input.dtype).min
            empty = _core.with_zero_gradient(_core.full((), value, dtype=input.dtype), "Median", [input])
            return empty, empty
        value, index = _picked(flat.detach(), _median_index(flat, 0, skip_nan), 0, False)
        if not flat.requires_grad:
            return value, index
        same = (flat.detach() == value) | (flat.isnan() & value.isnan())
        return Shared.apply(flat, value, same, 0), index
    if is_single(input, dim):
        return input.clone(), _core.zeros((), dtype=_core.int64)
    return _picked(input, _median_index(input, dim, skip_nan), dim, keepdim)


@overload
def median(input: Tensor) -> Tensor: ...
@overload
def median(input: Tensor, dim: int, keepdim: bool = False) -> return_types.values_and_indices: ...
@method
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, the lower one of two; along a dimension also where it is. NaN if there is one.

    >>> gt.median(gt.tensor([3.0, 1.0, 2.0]))
    tensor(2.)
    """
    made = _median(input, dim, keepdim, skip_nan=False)
    return made[0] if dim is None else return_types.median(*made)


@overload
def nanmedian(input: Tensor) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: int, keepdim: bool = False) -> return_types.values_and_indices: ...
@method
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element of what is not NaN.

    >>> gt.nanmedian(gt.tensor([3.0, gt.nan, 2.0]))
    tensor(2.)
    """
    made = _median(input, dim, keepdim, skip_nan=True)
    return made[0] if dim is None else return_types.nanmedian(*made)


@method
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> return_types.values_and_indices:
    """The most frequent element along a dimension (the smallest of several), and where it was last.

    >>> gt.mode(gt.tensor([1, 2, 2, 3])).values
    tensor(2)
    """
    if is_single(input, dim):
        return return_types.mode(input.clone(), _core.zeros((), dtype=_core.int64))
    order = _sorted_index(input, dim)
    ranked = input.detach().gather(dim, order)
    last = ranked.dim() - 1
    ranked = ranked.movedim(dim, -1)
    counts = (ranked.unsqueeze(-1) == ranked.unsqueeze(-2)).sum(-1)
    # argmax gives the first of the most frequent ones in sorted order; its run ends `count` places on.
    first = counts.argmax(-1, keepdim=True)
    end = first + counts.gather(last, first) - 1
    index = order.movedim(dim, -1).gather(last, end).movedim(-1, dim)
    if input.dtype.is_floating_point:
        # A NaN equals nothing, so it is the most frequent one only where nothing occurs twice, and PyTorch takes the first.
        nan = input.detach().narrow(dim, 0, 1).isnan() & (counts.amax(-1, keepdim=True).movedim(-1, dim) <= 1)
        index = _core.where(nan, 0, index)
    return return_types.mode(*_picked(input, index, dim, keepdim))


def _quantile(input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip_nan: bool) -> Tensor:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"quantile() input tensor must be either float or double dtype, got {input.dtype}")
    wanted = as_operand(q, input)
    if wanted.dim() > 1:
        raise RuntimeError(f"quantile() q must be a scalar or 1D tensor, got shape {tuple(wanted.shape)}")
    rank = input.dim()
    source = input.reshape(-1) if dim is None or rank == 0 else input.movedim(dim, -1)
    last = source.dim() - 1
    order = _sorted_index(source, -1)
    nan = source.detach().isnan()
    valid = (~nan).sum(-1, keepdim=True) if skip_nan else _core.tensor(source.shape[-1])
    place = wanted.reshape(-1).to(source.dtype) * (valid - 1).clamp(min=0).to(source.dtype)
    place = place.expand(*source.shape[:-1], place.shape[-1])
    if not skip_nan:
        # Where there is a NaN the result is one: the last in order.
        place = _core.where(nan.any(-1, keepdim=True), source.shape[-1] - 1, place)
    if interpolation == "nearest":
        place = place.round()
    low, high = place.floor(), place.ceil()
    if interpolation in ("lower", "nearest"):
        high = low
    elif interpolation == "higher":
        low = high
    elif interpolation not in ("linear", "midpoint"):
        raise RuntimeError(f"quantile(): unknown interpolation {interpolation!r}")
    below = source.gather(last, order.gather(last, low.long()))
    above = source.gather(last, order.gather(last, high.long()))
    weight: Any = 0.5 if interpolation == "midpoint" else place - low
    made = below if low is high else below.lerp(above, weight)
    made = made.squeeze(-1) if wanted.dim() == 0 else made.movedim(-1, 0)
    if keepdim and rank:
        lead = 0 if wanted.dim() == 0 else 1
        if dim is None:
            made = made.reshape(*made.shape[:lead], *(1 for _ in range(rank)))
        else:
            made = made.unsqueeze(dim % rank + lead)
    return made


@method
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The value below which the share `q` of the elements lies.

    >>> gt.quantile(gt.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
    tensor(1.5000)
    """
    return _quantile(input, q, dim, keepdim, interpolation, skip_nan=False)


@method
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """`quantile` of what is not NaN.

    >>> gt.nanquantile(gt.tensor([0.0, gt.nan, 2.0]), 0.5)
    tensor(1.)
    """
    return _quantile(input, q, dim, keepdim, interpolation, skip_nan=True)


@method
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of `bins` equal parts of [min, max]; of the tensor's own range if both are 0.

    >>> gt.histc(gt.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"histc is not defined on {input.dtype}")
    if min > max:
        raise RuntimeError(f"histc: max must be larger than min, got min={min} and max={max}")
    flat = input.detach().reshape(-1)
    low: Any = min
    high: Any = max
    if min == max:
        if flat.shape[0] and min == 0:
            low, high = flat.amin(), flat.amax()
        widen = _core.as_tensor(low == high).to(input.dtype)
        low, high = low - widen, high + widen
    inside = (flat >= low) & (flat <= high)
    unbounded = ~_core.as_tensor(high - low).isfinite()
    place = ((flat - low) * (bins / (high - low))).floor().clamp(0, bins - 1)
    place = _core.where(inside, place, 0).long()
    counts = _core.zeros(bins, dtype=input.dtype).scatter_add(0, place, inside.to(input.dtype))
    return _core.checked(counts, unbounded, "range")


@method
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance of variables in rows over observations in columns.

    >>> gt.cov(gt.tensor([[0.0, 2.0], [2.0, 0.0]]))
    tensor([[ 2., -2.],
            [-2.,  2.]])
    """
    if input.dim() > 2:
        raise RuntimeError(f"cov() expects at most two dimensions, got shape {tuple(input.shape)}")
    data = as_float(input).reshape(1, -1) if input.dim() < 2 else as_float(input)
    weights = None
    if fweights is not None and fweights.dtype.is_floating_point:
        raise RuntimeError(f"cov(): expected fweights to have integral dtype but got fweights with {fweights.dtype}")
    if aweights is not None and not aweights.dtype.is_floating_point:
        raise RuntimeError(f"cov(): expected aweights to have floating point dtype but got {aweights.dtype}")
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        if given.dim() > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {given.dim()}")
        if given.numel() != data.shape[1]:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{given.numel()} != {data.shape[1]}"
            )
        if given.numel() and bool((given.detach() < 0).any()):
            raise RuntimeError(f"cov(): {name} cannot be negative")
    if fweights is not None:
        weights = fweights.to(data.dtype)
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        total: Any = data.shape[1]
        centred = data - data.mean(1, keepdim=True)
        weighted = centred
    else:
        total = weights.sum()
        centred = data - (data * weights).sum(1, keepdim=True) / total
        weighted = centred * weights
    norm = total - correction
    if aweights is not None and weights is not None and correction:
        norm = total - correction * (weights * aweights).sum() / total
    made: Tensor = (weighted @ centred.mT.to(weighted.dtype)) / norm
    return made.reshape(()) if data.shape[0] == 1 else made


@method
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of variables in rows over observations in columns.

    >>> gt.corrcoef(gt.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    covariance = cov(input)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = covariance.diagonal().sqrt()
    return (covariance / deviation.unsqueeze(1) / deviation.unsqueeze(0)).clamp(-1, 1)


@method
@of_tensors("x1", "x2")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distance of every row of `x1` to every row of `x2`.

    >>> gt.cdist(gt.tensor([[0.0, 0.0]]), gt.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if x.dim() < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.dim()}D")
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, dim=-1)


@method
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Scales down each slice along `dim` whose p-norm is larger than `maxnorm`.

    >>> gt.renorm(gt.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.dim()} dimensions")
    rest = [d for d in range(input.dim()) if d != dim % input.dim()]
    size = input.norm(p, dim=rest, keepdim=True)
    return input * _core.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)


in_place("renorm")
