"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._methods.joining import broadcast_shapes
from gt.nn.functional._dropout import dropout


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value, over (…, length, features).

    A boolean mask says what takes part; a float mask is added. A query that may see nothing gives zeros. With
    `enable_gqa` several heads of the query share one of key and value.

    >>> q = gt.ones(1, 2, 3, 4)
    >>> gt.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    gt.Size([1, 2, 3, 4])
    """
    _check(query, key, value, attn_mask, is_causal, enable_gqa)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    if dropout_p > 0.0:
        return _with_dropout(query, key, value, attn_mask, dropout_p, is_causal, scale)
    mask = None if attn_mask is None else _additive(attn_mask, query.dtype)
    if query.dim() == key.dim() == value.dim() == 4 and query.shape[0] == key.shape[0] == value.shape[0]:
        if key.shape[1] == value.shape[1] and (enable_gqa or query.shape[1] == key.shape[1]):
            return _core.attention(query, key, value, mask, is_causal, scale)
    return _any_rank(query, key, value, mask, is_causal, scale, enable_gqa)


def _additive(mask: Tensor, dtype: Any) -> Tensor:
    """A mask as what is added to the scores."""
    if mask.dtype == _core.bool:
        return _core.where(mask, 0.0, -math.inf).to(dtype)
    return mask.to(dtype)


def _any_rank(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float, enable_gqa: bool
) -> Tensor:
    """Attention over any number of leading dimensions, which broadcast: all of them become the batch."""
    kept = 3 if enable_gqa else 2
    lead = broadcast_shapes(query.shape[:-kept], key.shape[:-kept], value.shape[:-kept])

    def folded(x: Tensor) -> Tensor:
        own = x.shape[-kept:]
        x = x.expand(*lead, *own)
        return x.reshape(-1, *(own if enable_gqa else (1, *own)))

    q, k, v = folded(query), folded(key), folded(value)
    if mask is not None:
        heads = (query.shape[-3],) if enable_gqa else ()
        mask = mask.expand(*lead, *heads, query.shape[-2], key.shape[-2]).reshape(*q.shape[:-1], key.shape[-2])
    out = _core.attention(q, k, v, mask, is_causal, scale)
    return out.reshape(*lead, *query.shape[-kept:-1], value.shape[-1])


def _with_dropout(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
) -> Tensor:
    """Spelled out, since the weights themselves are dropped."""
    if query.dim() > 2 and key.dim() > 2 and query.shape[-3] != key.shape[-3] and key.shape[-3] > 1:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scores = (query * scale).matmul(key.transpose(-2, -1))
    if is_causal:
        seen = _core.ones(query.shape[-2], key.shape[-2], dtype=_core.bool).tril()
        scores = _core.where(seen, scores, -math.inf)
    if attn_mask is not None:
        scores = scores + _additive(attn_mask, scores.dtype)
    # A row in which nothing takes part has no weights: zeros, not NaNs.
    blind = (scores == -math.inf).all(-1, keepdim=True)
    weights = _core.where(blind, 0.0, _core.where(blind, 0.0, scores).softmax(-1))
    return dropout(weights, dropout_p).matmul(value)


def _check(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool, enable_gqa: bool
) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if attn_mask is not None and is_causal:
        raise RuntimeError("scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        raise ValueError(f"Expected query, key, and value to all be at least 2 dimensional, but got {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got "
            f"{query.dtype}, {key.dtype} and {value.dtype} instead."
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(f"scaled_dot_product_attention: shapes do not fit: {shapes}")
    if enable_gqa:
        if query.dim() < 3 or key.dim() < 3 or query.shape[-3] % key.shape[-3] or key.shape[-3] != value.shape[-3]:
            raise RuntimeError(
                "scaled_dot_product_attention: with enable_gqa the heads of the query must be a multiple of those of "
                f"key and value: {shapes}"
            )
    if attn_mask is not None:
        if attn_mask.dtype != _core.bool and not attn_mask.dtype.is_floating_point:
            raise RuntimeError(
                f"Expected attn_mask dtype to be bool or float or to match query dtype, but got {attn_mask.dtype}"
            )
