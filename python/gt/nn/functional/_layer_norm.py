"""Layer normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from gt import _core
from gt._core import Tensor

_HALVES = (_core.float16, _core.bfloat16)


def normalized_dims(name: str, input: Tensor, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    """The last dimensions, after a check that they are those the layer was made for."""
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(f"Expected normalized_shape to be at least 1-dimensional, got {list(shape)}")
    if tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"{name}: given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{list(input.shape)}"
        )
    return tuple(range(-len(shape), 0))


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions, then scaled and shifted. Halves are computed in float32.

    >>> gt.nn.functional.layer_norm(gt.tensor([1.0, 3.0]), [2])
    tensor([-1.0000,  1.0000])
    """
    dims = normalized_dims("layer_norm", input, normalized_shape)
    dtype = input.dtype
    x = input.float() if dtype in _HALVES else input
    centered = x - x.mean(dims, keepdim=True)
    variance = (centered * centered).mean(dims, keepdim=True)
    out = centered * (variance + eps).rsqrt()
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    return out.to(dtype) if dtype in _HALVES else out
