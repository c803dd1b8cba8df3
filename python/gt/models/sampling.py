"""From logits to the next token.

TOKEN-SAMPLING-1: logits are [batch, vocabulary]; a token that is ruled out gets minus infinity. At least one stays.
"""

from __future__ import annotations

import math

from gt import _core
from gt._core import Generator, Tensor

__all__ = ["keep_top_k", "keep_top_p", "next_token"]


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Rules out all tokens but the `k` likeliest (more when some are tied with the last of them).

    >>> from gt.models.sampling import keep_top_k
    >>> keep_top_k(gt.tensor([[1.0, 3.0, 2.0]]), 2)
    tensor([[-inf, 3., 2.]])
    """
    if k >= logits.shape[-1]:
        return logits
    lowest = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < lowest, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Keeps the smallest set of likeliest tokens whose probabilities add up to `p` or more.

    >>> from gt.models.sampling import keep_top_p
    >>> keep_top_p(gt.tensor([[0.0, 5.0, 4.0]]), 0.9)
    tensor([[-inf, 5., 4.]])
    """
    if p >= 1.0:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True)
    shares = ordered.softmax(dim=-1)
    # What is likelier than a token already adds up to p: the token is not needed.
    surplus = shares.cumsum(dim=-1) - shares >= p
    ruled_out = _core.zeros_like(surplus).scatter(-1, order, surplus)
    return logits.masked_fill(ruled_out, -math.inf)


def next_token(
    logits: Tensor,
    do_sample: bool,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    generator: Generator | None,
) -> Tensor:
    """The token [batch] that follows: the likeliest, or one drawn from what temperature, `top_k` and `top_p` leave."""
    if not do_sample:
        return logits.argmax(dim=-1)
    logits = logits.to(_core.float32) / temperature
    if top_k:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_top_p(logits, top_p)
    return logits.softmax(dim=-1).multinomial(1, generator=generator).squeeze(-1)
