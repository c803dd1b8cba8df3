"""Qwen3 as a PyTorch user writes it, for GT and for PyTorch alike: `T` is the module `gt` or `torch`.

Names of modules and parameters are those of Hugging Face's checkpoints, so what is trained here loads into
`gt.models.Qwen3ForCausalLM` and into `transformers`.
"""

from dataclasses import asdict, dataclass

ROPE_BASE = 1e6
NORM_EPSILON = 1e-6
WEIGHT_SCALE = 0.02


@dataclass(frozen=True)
class Size:
    """The extents of a model."""

    vocab: int
    hidden: int
    mlp: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int

    def config(self, positions):
        """The fields of a `config.json` for this model."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "intermediate_size": self.mlp,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": NORM_EPSILON,
            "rope_theta": ROPE_BASE,
            "tie_word_embeddings": True,
            "max_position_embeddings": positions,
        }

    def fields(self):
        return asdict(self)


def define_model(T):
    """The model's class, made of the layers of `T`."""
    nn, F = T.nn, T.nn.functional
    from importlib import import_module

    checkpoint = import_module(f"{T.__name__}.utils.checkpoint").checkpoint

    class RMSNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(T.ones(width))

        def forward(self, x):
            variance = x.float().pow(2).mean(-1, keepdim=True)
            return self.weight * (x * T.rsqrt(variance + NORM_EPSILON)).to(x.dtype)

    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + T.cat((-x[..., half:], x[..., :half]), dim=-1) * sin

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
            heads = (batch, tokens, -1, self.head_dim)
            q = rotate(self.q_norm(self.q_proj(x).view(heads)).transpose(1, 2), cos, sin)
            k = rotate(self.k_norm(self.k_proj(x).view(heads)).transpose(1, 2), cos, sin)
            v = self.v_proj(x).view(heads).transpose(1, 2)
            y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True, enable_gqa=True)
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

    class Transformer(nn.Module):
        def __init__(self, size, positions):
            super().__init__()
            self.embed_tokens = nn.Embedding(size.vocab, size.hidden)
            self.layers = nn.ModuleList([Layer(size) for _ in range(size.layers)])
            self.norm = RMSNorm(size.hidden)
            frequencies = ROPE_BASE ** -(T.arange(0, size.head_dim, 2).float() / size.head_dim)
            angles = T.arange(positions).float().unsqueeze(1) * frequencies
            angles = T.cat([angles, angles], dim=1)
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)
            self.recompute = False

        def forward(self, tokens):
            x = self.embed_tokens(tokens)
            cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
            for layer in self.layers:
                if self.recompute and self.training:
                    x = checkpoint(layer, x, cos, sin, use_reentrant=False)
                else:
                    x = layer(x, cos, sin)
            return self.norm(x)

    class Qwen3(nn.Module):
        """The language model: logits from tokens; with targets, their mean cross-entropy."""

        def __init__(self, size, positions):
            super().__init__()
            self.size, self.positions = size, positions
            self.model = Transformer(size, positions)
            self.lm_head = nn.Linear(size.hidden, size.vocab, bias=False)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=WEIGHT_SCALE)
            self.lm_head.weight = self.model.embed_tokens.weight

        def forward(self, tokens, targets=None):
            logits = self.lm_head(self.model(tokens))
            if targets is None:
                return logits
            return F.cross_entropy(logits.float().view(-1, self.size.vocab), targets.reshape(-1))

    return Qwen3


def write_on(T, model, tokens, count, temperature=0.8, top_k=40, device=None):
    """`count` tokens that the model writes after `tokens`, a list.

    The model is always shown as many positions as it was trained on, the rest filled up behind: what is behind does not
    count (attention is causal), and one shape for all steps is planned once.
    """
    window = model.positions
    model.eval()
    with T.no_grad():
        shown = list(tokens[-window:])
        end = len(shown)
        text = T.tensor([shown + [0] * (window - end)], device=device)
        written = []
        for _ in range(count):
            if end == window:  # Full: half of it is forgotten.
                keep = window // 2
                text = T.cat([text[:, window - keep :], T.zeros_like(text[:, keep:])], dim=1)
                end = keep
            logits = model(text)[:, end - 1].float() / temperature
            likeliest = T.topk(logits, min(top_k, logits.shape[-1]), dim=-1)
            choice = T.multinomial(T.softmax(likeliest.values, dim=-1), 1)
            token = T.gather(likeliest.indices, 1, choice)
            text[:, end : end + 1] = token
            end += 1
            written.append(token)
        model.train()
        return T.cat(written, dim=1)[0].tolist()
