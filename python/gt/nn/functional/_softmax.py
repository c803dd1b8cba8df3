"""Softmax and what is made of it."""

from __future__ import annotations

from typing import Any

from gt import _core
from gt._core import Tensor


def _dimension(input: Tensor, dim: int | None) -> int:
    """The dimension PyTorch takes when none is named."""
    if dim is not None:
        return dim
    return 0 if input.dim() in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(input), scaled so that it sums to 1 along `dim`.

    >>> gt.nn.functional.softmax(gt.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    return input.softmax(_dimension(input, dim), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, computed without loss.

    >>> gt.nn.functional.log_softmax(gt.zeros(2), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return input.log_softmax(_dimension(input, dim), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax of the negated input.

    >>> gt.nn.functional.softmin(gt.tensor([1.0, 1.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample from the Gumbel-softmax distribution; `hard` gives one-hot values with the soft sample's gradient.

    >>> gt.nn.functional.gumbel_softmax(gt.zeros(3), hard=True).sum().item()
    1.0
    """
    # rand gives [0, 1): 1 - u is never zero, so neither logarithm is taken of zero.
    exponential = -(1 - _core.rand(logits.shape, dtype=logits.dtype)).log()
    smallest = 1e-7 if logits.dtype in (_core.float16, _core.bfloat16) else 1e-30
    soft = ((logits - exponential.clamp(min=smallest).log()) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.detach().argmax(dim, keepdim=True)
    one_hot = _core.zeros_like(soft).scatter(dim, index, 1.0)
    return one_hot - soft.detach() + soft
