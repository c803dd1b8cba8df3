"""The training workload: a real Qwen3, written once for every peer. `T` is `gt` or `torch`.

QWEN-1: the model is what a PyTorch user writes: norms and rotary positions spelled out from elementary calls, none of
the framework's ready-made layers for them. What makes it fast has to find them.
QWEN-2: weights and tokens come from NumPy, so every peer computes the same numbers.
"""

from dataclasses import dataclass

import numpy as np

SEED = 7
LEARNING_RATE = 3e-4
ROPE_BASE = 1e6
NORM_EPSILON = 1e-6
# Of the initial weights: small enough that the first loss is log(vocabulary).
WEIGHT_SCALE = 0.02


@dataclass(frozen=True)
class Size:
    """The extents of a model and of the batches it is trained on."""

    vocab: int
    hidden: int
    mlp: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    batch: int
    tokens: int


SIZES = {
    "tiny": Size(1000, 64, 128, 2, 4, 2, 16, batch=2, tokens=64),
    "nano": Size(4096, 256, 768, 4, 8, 4, 32, batch=4, tokens=128),
    "small": Size(8192, 512, 1536, 8, 8, 4, 64, batch=4, tokens=256),
    "0.6b": Size(151_936, 1024, 3072, 28, 16, 8, 128, batch=4, tokens=1024),
}


def rotary_tables(size):
    """Cosines and sines [tokens, head_dim] of the angles by which positions turn a head."""
    frequency = ROPE_BASE ** -(np.arange(0, size.head_dim, 2) / size.head_dim)
    angle = np.arange(size.tokens)[:, None] * frequency
    angle = np.concatenate([angle, angle], axis=-1)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def weight_shapes(size):
    """The name and shape of every weight; names are those of Hugging Face's checkpoints."""
    shapes = {"embed_tokens.weight": (size.vocab, size.hidden)}
    queries, pairs = size.heads * size.head_dim, size.kv_heads * size.head_dim
    for layer in range(size.layers):
        shapes |= {
            f"layers.{layer}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (size.hidden,),
                "self_attn.q_proj": (queries, size.hidden),
                "self_attn.k_proj": (pairs, size.hidden),
                "self_attn.v_proj": (pairs, size.hidden),
                "self_attn.o_proj": (size.hidden, queries),
                "self_attn.q_norm": (size.head_dim,),
                "self_attn.k_norm": (size.head_dim,),
                "post_attention_layernorm": (size.hidden,),
                "mlp.gate_proj": (size.mlp, size.hidden),
                "mlp.up_proj": (size.mlp, size.hidden),
                "mlp.down_proj": (size.hidden, size.mlp),
            }.items()
        }
    return shapes | {"norm.weight": (size.hidden,)}


def initial_weights(size):
    """Normal matrices, norms of one."""
    rng = np.random.default_rng(SEED)
    return {
        name: np.ones(shape, np.float32)
        if len(shape) == 1
        else (rng.standard_normal(shape, dtype=np.float32) * WEIGHT_SCALE)
        for name, shape in weight_shapes(size).items()
    }


def define_model(T):
    """The model's class, made of the layers of `T`."""
    nn, F = T.nn, T.nn.functional

    class RMSNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(T.ones(width))

        def forward(self, x):
            variance = x.pow(2).mean(-1, keepdim=True)
            return self.weight * (x * T.rsqrt(variance + NORM_EPSILON))

    def rotate_half(x):
        half = x.shape[-1] // 2
        return T.cat((-x[..., half:], x[..., :half]), dim=-1)

    class Attention(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.head_dim = size.head_dim
            self.q_proj = nn.Linear(size.hidden, size.heads * size.head_dim, bias=False)
            self.k_proj = nn.Linear(size.hidden, size.kv_heads * size.head_dim, bias=False)
            self.v_proj = nn.Linear(size.hidden, size.kv_heads * size.head_dim, bias=False)
            self.o_proj = nn.Linear(size.heads * size.head_dim, size.hidden, bias=False)
            self.q_norm = RMSNorm(size.head_dim)
            self.k_norm = RMSNorm(size.head_dim)

        def forward(self, x, cos, sin):
            batch, tokens, _ = x.shape
            q = self.q_norm(self.q_proj(x).view(batch, tokens, -1, self.head_dim)).transpose(1, 2)
            k = self.k_norm(self.k_proj(x).view(batch, tokens, -1, self.head_dim)).transpose(1, 2)
            v = self.v_proj(x).view(batch, tokens, -1, self.head_dim).transpose(1, 2)
            q = q * cos + rotate_half(q) * sin
            k = k * cos + rotate_half(k) * sin
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return self.o_proj(y.transpose(1, 2).reshape(batch, tokens, -1))

    class MLP(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.gate_proj = nn.Linear(size.hidden, size.mlp, bias=False)
            self.up_proj = nn.Linear(size.hidden, size.mlp, bias=False)
            self.down_proj = nn.Linear(size.mlp, size.hidden, bias=False)

        def forward(self, x):
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

    class Layer(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.input_layernorm = RMSNorm(size.hidden)
            self.self_attn = Attention(size)
            self.post_attention_layernorm = RMSNorm(size.hidden)
            self.mlp = MLP(size)

        def forward(self, x, cos, sin):
            x = x + self.self_attn(self.input_layernorm(x), cos, sin)
            return x + self.mlp(self.post_attention_layernorm(x))

    class Qwen3(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.embed_tokens = nn.Embedding(size.vocab, size.hidden)
            self.layers = nn.ModuleList([Layer(size) for _ in range(size.layers)])
            self.norm = RMSNorm(size.hidden)
            cos, sin = rotary_tables(size)
            self.register_buffer("cos", T.from_numpy(cos), persistent=False)
            self.register_buffer("sin", T.from_numpy(sin), persistent=False)

        def forward(self, tokens, targets):
            x = self.embed_tokens(tokens)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            logits = F.linear(self.norm(x), self.embed_tokens.weight)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))

    return Qwen3


def fresh_tokens(size):
    """Batches without end: random tokens [batch, tokens + 1], for every peer the same."""
    rng = np.random.default_rng(SEED)
    while True:
        yield rng.integers(0, size.vocab, (size.batch, size.tokens + 1))


class Training:
    """A model with its optimizer and data; `step()` is what is timed."""

    def __init__(self, T, size, compiled=False):
        self.T = T
        self.model = define_model(T)(size)
        with T.no_grad():
            weights = initial_weights(size)
            for name, parameter in self.model.named_parameters():
                parameter.copy_(T.from_numpy(weights.pop(name)))
        assert not weights, f"the model has no {', '.join(weights)}"
        self.optimizer = T.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE, fused=True)
        self.forward = T.compile(self.model) if compiled else self.model
        self.batches = fresh_tokens(size)

    def step(self):
        """Fresh tokens, forward, backward, update; one read, the loss."""
        tokens = self.T.from_numpy(next(self.batches))
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        self.optimizer.step()
        return loss.item()
