"""Which positions each token may look at, as masks that are True where it may.

MASK-1: masks depend on shapes, on the number of tokens before and on the padding the caller gives, never on data read.
MASK-2: every row has at least one True. A padding token that has nothing but padding before it sees itself: its
result is not used, but softmax over nothing would make it NaN and spread through the gradients.
"""

from __future__ import annotations

from gt import _core
from gt._core import Tensor


def causal_mask(past: int, new: int, visible: int, window: int | None) -> Tensor:
    """[new, visible]: the token itself and those before it, the last `window` of them if there is one."""
    queries = (_core.arange(new) + past).unsqueeze(1)
    keys = _core.arange(visible)
    allowed = keys <= queries
    return allowed if window is None else allowed & (keys > queries - window)


def attention_mask(padding: Tensor | None, past: int, new: int, visible: int, window: int | None) -> Tensor | None:
    """The mask for attention, [batch, 1, new, visible] or [new, visible]; None where causality is all there is.

    `padding` is [batch, past + new] or longer, not zero where a token is real.
    """
    if padding is None and past == 0 and new == visible and (window is None or window >= new):
        return None
    allowed = causal_mask(past, new, visible, window)
    if padding is None:
        return allowed
    real = padding.to(_core.bool)[:, :visible]
    if real.shape[1] < visible:
        rest = _core.zeros(real.shape[0], visible - real.shape[1], dtype=_core.bool)
        real = _core.cat([real, rest], dim=1)
    has_context = real.to(_core.int64).cumsum(1)[:, past : past + new] > 0
    itself = _core.arange(visible) == (_core.arange(new) + past).unsqueeze(1)
    alone = itself & ~has_context.unsqueeze(2)
    return ((allowed & real.unsqueeze(1)) | alone).unsqueeze(1)
