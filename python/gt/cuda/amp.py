"""Mixed precision under the names that older code uses; `gt.amp` has it for every device.

>>> scaler = gt.cuda.amp.GradScaler(enabled=False)
>>> with gt.cuda.amp.autocast(enabled=False):
...     (gt.ones(2, 2) @ gt.ones(2, 2)).dtype
gt.float32
"""

from __future__ import annotations

from typing import Any

from gt import _core, amp, cuda
from gt.amp import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`gt.amp.autocast("cuda")`; without a GPU it changes nothing, as in PyTorch.

    >>> with gt.cuda.amp.autocast():
    ...     gt.is_autocast_enabled() == gt.cuda.is_available()
    True
    """

    def __init__(self, enabled: bool = True, dtype: Any = _core.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled and cuda.is_available(), cache_enabled)


class GradScaler(amp.GradScaler):
    """`gt.amp.GradScaler("cuda")`.

    >>> gt.cuda.amp.GradScaler(enabled=False).get_scale()
    1.0
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
