"""The parts of a Qwen3 layer: grouped-query attention with normed queries and keys, and a gated MLP."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gt import nn
from gt._core import Tensor
from gt._grad_mode import no_grad
from gt.models.cache import KeyValueCache
from gt.models.configuration import Qwen3Config
from gt.models.rotary import rotate
from gt.nn import functional as F


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The function behind a configuration's `hidden_act`."""
    smooth = partial(F.gelu, approximate="tanh")
    known: dict[str, Any] = {"swish": F.silu, "gelu_new": smooth, "gelu_pytorch_tanh": smooth}
    return known.get(name) or getattr(F, name)  # type: ignore[no-any-return]


class Linear(nn.Linear):
    """A linear layer whose weights the model draws, or a checkpoint gives: making it costs nothing."""

    def reset_parameters(self) -> None:
        pass


class Embedding(nn.Embedding):
    """A table of vectors whose weights the model draws, or a checkpoint gives."""

    def reset_parameters(self) -> None:
        pass


def draw_weights(model: nn.Module, deviation: float) -> None:
    """Normal weights, biases and the vector of the padding token zero; norms stay at one."""
    for module in model.modules():
        if isinstance(module, (Linear, Embedding)):
            nn.init.normal_(module.weight, 0.0, deviation)
        if isinstance(module, Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, Embedding) and module.padding_idx is not None:
            with no_grad():
                module.weight[module.padding_idx] = 0.0


class Qwen3Attention(nn.Module):
    """Causal attention in which several query heads share a key/value head."""

    def __init__(self, config: Qwen3Config, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        self.dropout = config.attention_dropout
        queries, pairs = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        self.q_proj = Linear(config.hidden_size, queries, bias=config.attention_bias)
        self.k_proj = Linear(config.hidden_size, pairs, bias=config.attention_bias)
        self.v_proj = Linear(config.hidden_size, pairs, bias=config.attention_bias)
        self.o_proj = Linear(queries, config.hidden_size, bias=config.attention_bias)
        self.q_norm = nn.RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.k_norm = nn.RMSNorm(config.head_dim, eps=config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: KeyValueCache | None) -> Tensor:
        batch, tokens, _ = x.shape
        heads = (batch, tokens, -1, self.head_dim)
        q = rotate(self.q_norm(self.q_proj(x).view(heads)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(heads)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(heads).transpose(1, 2)
        if cache is not None:
            stored = cache.append(self.layer, k, v)
            if cache.length > 0:  # On the first tokens, what was just made is all there is.
                k, v = stored
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=mask is None, enable_gqa=True
        )
        return self.o_proj(y.transpose(1, 2).reshape(batch, tokens, -1))


class Qwen3MLP(nn.Module):
    """Two projections, one of which gates the other, and a third back."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Qwen3DecoderLayer(nn.Module):
    """Attention and MLP, each behind a norm and beside a way past it."""

    def __init__(self, config: Qwen3Config, layer: int) -> None:
        super().__init__()
        self.self_attn = Qwen3Attention(config, layer)
        self.mlp = Qwen3MLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: KeyValueCache | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask, cache)
        return x + self.mlp(self.post_attention_layernorm(x))
