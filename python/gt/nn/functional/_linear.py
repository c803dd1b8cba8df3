"""Linear maps."""

from __future__ import annotations

from gt import _core
from gt._core import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input · weightᵀ + bias, over the last dimension.

    >>> gt.nn.functional.linear(gt.ones(1, 2), gt.tensor([[1.0, 2.0]]), gt.tensor([0.5]))
    tensor([[3.5000]])
    """
    return _core.linear(input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 · weight[o] · input2 for every output o, plus bias.

    >>> gt.nn.functional.bilinear(gt.ones(1, 2), gt.ones(1, 3), gt.ones(1, 2, 3))
    tensor([[6.]])
    """
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {tuple(input1.shape)} and {tuple(input2.shape)}"
        )
    if (input1.shape[-1], input2.shape[-1]) != tuple(weight.shape[1:]):
        raise RuntimeError(
            f"bilinear(): inputs of shapes {tuple(input1.shape)} and {tuple(input2.shape)} do not fit "
            f"a weight of shape {tuple(weight.shape)}"
        )
    outputs, inner, last = weight.shape
    half = input1.matmul(weight.permute(1, 0, 2).reshape(inner, outputs * last)).unflatten(-1, (outputs, last))
    out = (half * input2.unsqueeze(-2)).sum(-1, dtype=half.dtype)
    return out if bias is None else out + bias
