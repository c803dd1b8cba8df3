"""Attention with several heads, projections included."""

from __future__ import annotations

import math

from gt import _core
from gt._core import Tensor
from gt.nn.functional._attention import scaled_dot_product_attention
from gt.nn.functional._dropout import dropout
from gt.nn.functional._linear import linear


def _as_added(mask: Tensor | None, name: str, dtype: object) -> Tensor | None:
    """A mask to add to the scores: boolean ones say what is left out."""
    if mask is None:
        return None
    if mask.dtype == _core.bool:
        return _core.zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)
    if not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
    return mask.to(dtype)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if query.dim() not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {shapes}")
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(f"query, key and value must have the same number of dimensions, got {shapes}")
    if query.shape[-1] != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}: {shapes}")
    if embed_dim % num_heads:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(f"key's sequence and batch dims do not match value's: {shapes}")


def _projections(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    separate: tuple[Tensor | None, Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor, Tensor]:
    biases: tuple[Tensor | None, ...] = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    weights: tuple[Tensor | None, ...] = separate
    if in_proj_weight is not None:
        if query is key and key is value:
            # Self-attention: one product for all three.
            parts = linear(query, in_proj_weight, in_proj_bias).chunk(3, -1)
            return parts[0], parts[1], parts[2]
        weights = in_proj_weight.chunk(3)
    made = [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]  # type: ignore[arg-type]
    return made[0], made[1], made[2]


def _combined_mask(
    attn_mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, length: int, source: int
) -> Tensor | None:
    if attn_mask is not None:
        allowed = ((length, source), (batch * heads, length, source))
        if tuple(attn_mask.shape) not in allowed:
            raise RuntimeError(
                f"The shape of the attn_mask is {tuple(attn_mask.shape)}, but should be {allowed[0]} or {allowed[1]}."
            )
        if attn_mask.dim() == 3:
            attn_mask = attn_mask.reshape(batch, heads, length, source)
    if padding is None:
        return attn_mask
    if tuple(padding.shape) != (batch, source):
        raise AssertionError(f"expecting key_padding_mask shape of {(batch, source)}, but got {tuple(padding.shape)}")
    padding = padding.reshape(batch, 1, 1, source)
    return padding if attn_mask is None else attn_mask + padding


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What `MultiheadAttention` computes, over (length, batch, features) or (length, features).

    >>> x, w = gt.ones(3, 1, 4), gt.ones(12, 4)
    >>> gt.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, w, None, None, None, False, 0.0, gt.eye(4), None
    ... )[0].shape
    gt.Size([3, 1, 4])
    """
    if static_k is not None or static_v is not None:
        raise ValueError("static_k and static_v are not supported: project keys and values outside and use attention")
    _check_shapes(query, key, value, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    single = query.dim() == 2
    if single:
        same = query is key and key is value
        query = query.unsqueeze(1)
        key, value = (query, query) if same else (key.unsqueeze(1), value.unsqueeze(1))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = _projections(
        query, key, value, None if use_separate_proj_weight else in_proj_weight, in_proj_bias, separate
    )
    length, batch, width = q.shape
    mask = _as_added(attn_mask, "attn_mask", q.dtype)
    padding = _as_added(key_padding_mask, "key_padding_mask", q.dtype)
    extra = 0
    if bias_k is not None and bias_v is not None:
        k = _core.cat([k, bias_k.expand(1, batch, width)])
        v = _core.cat([v, bias_v.expand(1, batch, width)])
        extra += 1
    if add_zero_attn:
        zero = k.new_zeros(1, batch, width)
        k, v = _core.cat([k, zero]), _core.cat([v, zero])
        extra += 1
    if extra:
        mask = None if mask is None else _core.cat([mask, mask.new_zeros(*mask.shape[:-1], extra)], -1)
        padding = None if padding is None else _core.cat([padding, padding.new_zeros(padding.shape[0], extra)], -1)
    source = k.shape[0]
    mask = _combined_mask(mask, padding, batch, num_heads, length, source)
    head = width // num_heads
    # (length, batch, features) as (batch, heads, length, features of a head)
    q = q.reshape(length, batch, num_heads, head).permute(1, 2, 0, 3)
    k = k.reshape(source, batch, num_heads, head).permute(1, 2, 0, 3)
    v = v.reshape(source, batch, num_heads, head).permute(1, 2, 0, 3)
    drop = dropout_p if training else 0.0
    weights: Tensor | None = None
    if need_weights:
        scores = (q * (1.0 / math.sqrt(head))).matmul(k.transpose(-2, -1))
        weights = (scores if mask is None else scores + mask).softmax(-1)
        weights = dropout(weights, drop) if drop > 0.0 else weights
        out = weights.matmul(v)
    else:
        out = scaled_dot_product_attention(q, k, v, mask, drop)
    out = linear(out.permute(2, 0, 1, 3).reshape(length, batch, width), out_proj_weight, out_proj_bias)
    if weights is not None:
        weights = weights.mean(1) if average_attn_weights else weights
        weights = weights.squeeze(0) if single else weights
    return (out.squeeze(1) if single else out), weights
