"""Root-mean-square normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from gt import _core
from gt._core import Tensor
from gt._limits import finfo
from gt.nn.functional._layer_norm import normalized_dims

_HALVES = (_core.float16, _core.bfloat16)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divided by the root of the mean square over the last dimensions, then scaled. Halves are computed in float32.

    >>> gt.nn.functional.rms_norm(gt.tensor([3.0, 4.0]), [2])
    tensor([0.8485, 1.1314])
    """
    dims = normalized_dims("rms_norm", input, normalized_shape)
    dtype = input.dtype
    x = input.float() if dtype in _HALVES else input
    if eps is None:
        eps = finfo(x.dtype).eps
    out = x * ((x * x).mean(dims, keepdim=True) + eps).rsqrt()
    if weight is not None:
        out = out * weight
    return out.to(dtype) if dtype in _HALVES else out
