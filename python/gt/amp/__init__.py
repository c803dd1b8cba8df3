"""Mixed precision: products in bfloat16 or float16, everything that needs it in float32.

>>> with gt.amp.autocast("bfloat16"):
...     (gt.ones(2, 2) @ gt.ones(2, 2)).dtype, gt.ones(2).exp().dtype
(gt.bfloat16, gt.float32)
"""

from gt._missing import names_missing_in
from gt.amp import mode
from gt.amp.custom import custom_bwd, custom_fwd
from gt.amp.grad_scaler import GradScaler
from gt.amp.mode import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
    set_autocast_dtype,
)

__all__ = [
    "GradScaler",
    "autocast",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
    "mode",
    "set_autocast_dtype",
]

__getattr__ = names_missing_in("gt.amp")
