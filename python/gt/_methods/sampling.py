"""Filling tensors with random numbers in place, and drawing around given means.

SAMPLING-1: every function draws once from the generator, or from the thread's stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Generator, Tensor
from gt._methods._registry import function, method_only


def _uniform(like: Tensor, generator: Generator | None) -> Tensor:
    if not like.dtype.is_floating_point:
        raise RuntimeError(f"random floats cannot fill a tensor of {like.dtype}")
    return _core.rand(like.shape, dtype=like.dtype, generator=generator)


def _open_uniform(like: Tensor, generator: Generator | None) -> Tensor:
    """Uniform on (0, 1]: its logarithm is finite."""
    return 1 - _uniform(like, generator)


@method_only
def uniform_(
    self: Tensor, from_: float = 0, to: float = 1, *, generator: Generator | None = None, **old: Any
) -> Tensor:
    """Fills the tensor with uniform numbers from [from, to).

    >>> bool((gt.empty(100).uniform_(2, 3) >= 2).all())
    True
    """
    # `from` is a keyword of Python, but PyTorch code passes it in a dict.
    start = old.pop("from", from_)
    if old:
        raise TypeError(f"uniform_() got an unexpected keyword argument {next(iter(old))!r}")
    if start > to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={start} > to={to}")
    return self.copy_(_uniform(self, generator) * (to - start) + start)


@method_only
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with normal numbers.

    >>> gt.empty(2, 3).normal_().shape
    gt.Size([2, 3])
    """
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if not self.dtype.is_floating_point:
        raise RuntimeError(f"random floats cannot fill a tensor of {self.dtype}")
    return self.copy_(_core.randn(self.shape, dtype=self.dtype, generator=generator) * std + mean)


@method_only
def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with numbers whose logarithm is normal.

    >>> bool((gt.empty(9).log_normal_() > 0).all())
    True
    """
    return self.copy_((_core.randn(self.shape, dtype=self.dtype, generator=generator) * std + mean).exp())


@method_only
def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with exponentially distributed numbers.

    >>> bool((gt.empty(9).exponential_() >= 0).all())
    True
    """
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return self.copy_(_open_uniform(self, generator).log() / -lambd)


@method_only
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with the number of trials up to the first success.

    >>> bool((gt.empty(9).geometric_(0.5) >= 1).all())
    True
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    draws = 1 - _core.rand(self.shape, generator=generator)
    return self.copy_((draws.log() / math.log1p(-p)).ceil().clamp(min=1))


@method_only
def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with Cauchy distributed numbers.

    >>> gt.empty(3).cauchy_().shape
    gt.Size([3])
    """
    return self.copy_((math.pi * (_uniform(self, generator) - 0.5)).tan() * sigma + median)


# The integers from 0 on that each dtype holds exactly, as PyTorch fills them.
_EXACT = {"float64": 2**53, "float32": 2**24, "float16": 2**11, "bfloat16": 2**8, "bool": 1}


@method_only
def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Fills the tensor with integers from [from, to), or [0, to); without bounds, with any that the dtype holds.

    >>> bool((gt.empty(9).random_(5, 7) >= 5).all())
    True
    """
    if from_ is not None and to is None:
        from_, to = 0, from_
    name = str(self.dtype).rpartition(".")[2]
    exact = _EXACT.get(name, 2 ** (8 * self.dtype.itemsize - (1 if self.dtype.is_signed else 0)) - 1)
    low, high = from_ or 0, exact + 1 if to is None else to
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return self.copy_(_core.randint(low, min(high, 2**63 - 1), self.shape, generator=generator))


@method_only
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with ones that come with probability `p`, and zeros.

    >>> gt.empty(3).bernoulli_(1.0)
    tensor([1., 1., 1.])
    """
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    chance = _core.as_tensor(p)
    chance = (chance if chance.dtype.is_floating_point else chance.float()).expand(self.shape)
    return self.copy_(chance.bernoulli(generator=generator))


@function
def normal(
    mean: Any,
    std: Any = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers around each mean, spread by each standard deviation; numbers for both need a `size`.

    >>> gt.normal(0.0, 1.0, (2, 3)).shape
    gt.Size([2, 3])
    """
    if size is None:
        given = [t for t in (mean, std) if isinstance(t, Tensor)]
        if not given:
            raise TypeError("normal() needs a size when mean and std are numbers")
        with_both = given[0] if len(given) == 1 else given[0] + given[1]
        size, dtype = with_both.shape, dtype or with_both.dtype
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    made: Tensor = _core.randn(tuple(size), dtype=dtype, generator=generator) * std + mean
    if isinstance(std, Tensor):
        made = _core.checked(made, std < 0, "deviation")
    made = _core.with_zero_gradient(made.detach(), "Normal", [t for t in (mean, std) if isinstance(t, Tensor)])
    return made.requires_grad_() if requires_grad else made


@function
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Powers of `base` with evenly spaced exponents.

    >>> gt.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    if dtype is not None and not dtype.is_floating_point:
        # As in PyTorch the ends are numbers of the dtype.
        start, end = int(start), int(end)
    exponents = _core.linspace(start, end, steps, dtype=_core.float64)
    made = _core.tensor(base, dtype=_core.float64) ** exponents
    made = made.to(_core.get_default_dtype() if dtype is None else dtype)
    return made.requires_grad_() if requires_grad else made


@function
def scalar_tensor(value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of the default dtype.

    >>> gt.scalar_tensor(2)
    tensor(2.)
    """
    return _core.tensor(value, dtype=_core.get_default_dtype() if dtype is None else dtype, requires_grad=requires_grad)
