"""Switches of PyTorch's back ends, accepted and not needed: `gt.backends.cudnn.benchmark = True` does nothing.

>>> gt.backends.cudnn.benchmark = True
>>> gt.backends.cuda.matmul.allow_tf32 = True
"""

from __future__ import annotations


class _Switches:
    """Any attribute may be set and read back."""

    enabled = False
    benchmark = False
    deterministic = True
    allow_tf32 = False

    def is_available(self) -> bool:
        return False


class _Cuda(_Switches):
    matmul = _Switches()


cudnn = _Switches()
cuda = _Cuda()
mps = _Switches()
