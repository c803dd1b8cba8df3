"""How attention is computed. GT chooses the kernel itself, so choices are accepted and change nothing.

>>> with gt.nn.attention.sdpa_kernel(gt.nn.attention.SDPBackend.MATH):
...     gt.nn.functional.scaled_dot_product_attention(gt.ones(1, 1, 2), gt.ones(1, 1, 2), gt.ones(1, 1, 2))
tensor([[[1., 1.]]])
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """PyTorch's ways to compute attention.

    >>> gt.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """A block in which PyTorch would use these kernels only.

    >>> with gt.nn.attention.sdpa_kernel([gt.nn.attention.SDPBackend.FLASH_ATTENTION]):
    ...     pass
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(one, SDPBackend) for one in chosen):
        raise TypeError(f"sdpa_kernel takes SDPBackend values, got {backends!r}")
    yield
