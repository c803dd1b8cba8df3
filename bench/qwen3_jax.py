"""The mathematics of bench/qwen3.py for JAX: one compiled step that gives its buffers back to itself."""

import jax
import jax.numpy as jnp

from qwen3 import LEARNING_RATE, NORM_EPSILON, fresh_tokens, initial_weights, rotary_tables

# AdamW as PyTorch has it by default.
BETA1, BETA2, EPSILON, WEIGHT_DECAY = 0.9, 0.999, 1e-8, 0.01


def norm(x, weight):
    return weight * (x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + NORM_EPSILON))


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + jnp.concatenate((-x[..., half:], x[..., :half]), axis=-1) * sin


def attention(weights, prefix, x, size, cos, sin, mask):
    batch, tokens, _ = x.shape
    groups = size.heads // size.kv_heads

    def heads(name):
        return (x @ weights[f"{prefix}.{name}.weight"].T).reshape(batch, tokens, -1, size.head_dim)

    q = rotate(norm(heads("q_proj"), weights[f"{prefix}.q_norm.weight"]).transpose(0, 2, 1, 3), cos, sin)
    k = rotate(norm(heads("k_proj"), weights[f"{prefix}.k_norm.weight"]).transpose(0, 2, 1, 3), cos, sin)
    v = heads("v_proj").transpose(0, 2, 1, 3)
    q = q.reshape(batch, size.kv_heads, groups, tokens, size.head_dim)
    scores = jnp.einsum("bkgqd,bktd->bkgqt", q, k) * size.head_dim**-0.5
    shares = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    y = jnp.einsum("bkgqt,bktd->bkgqd", shares, v).reshape(batch, size.heads, tokens, size.head_dim)
    return y.transpose(0, 2, 1, 3).reshape(batch, tokens, -1) @ weights[f"{prefix}.o_proj.weight"].T


def loss_of(weights, tokens, targets, size, cos, sin):
    """The mean cross-entropy of the next token."""
    mask = jnp.tril(jnp.ones((size.tokens, size.tokens), bool))
    x = weights["embed_tokens.weight"][tokens]
    for layer in range(size.layers):
        prefix = f"layers.{layer}"
        h = norm(x, weights[f"{prefix}.input_layernorm.weight"])
        x = x + attention(weights, f"{prefix}.self_attn", h, size, cos, sin, mask)
        h = norm(x, weights[f"{prefix}.post_attention_layernorm.weight"])
        gate = jax.nn.silu(h @ weights[f"{prefix}.mlp.gate_proj.weight"].T)
        x = x + (gate * (h @ weights[f"{prefix}.mlp.up_proj.weight"].T)) @ weights[f"{prefix}.mlp.down_proj.weight"].T
    logits = norm(x, weights["norm.weight"]) @ weights["embed_tokens.weight"].T
    log_shares = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.take_along_axis(log_shares, targets[..., None], axis=-1).mean()


class Training:
    """As bench/qwen3.py's: a model with its optimizer and data."""

    def __init__(self, size):
        cos, sin = (jnp.asarray(table) for table in rotary_tables(size))
        self.weights = {name: jnp.asarray(value) for name, value in initial_weights(size).items()}
        zeros = {name: jnp.zeros_like(value) for name, value in self.weights.items()}
        self.state = (zeros, {name: jnp.zeros_like(value) for name, value in self.weights.items()}, jnp.zeros(()))
        self.batches = fresh_tokens(size)

        def update(weights, state, batch):
            loss, gradients = jax.value_and_grad(loss_of)(weights, batch[:, :-1], batch[:, 1:], size, cos, sin)
            means, squares, count = state
            count = count + 1
            step_size = LEARNING_RATE / (1 - BETA1**count)
            correction = jnp.sqrt(1 - BETA2**count)

            def moved(weight, mean, square):
                decayed = weight * (1 - LEARNING_RATE * WEIGHT_DECAY)
                return decayed - step_size * mean / (jnp.sqrt(square) / correction + EPSILON)

            means = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, means, gradients)
            squares = jax.tree.map(lambda s, g: BETA2 * s + (1 - BETA2) * g * g, squares, gradients)
            return jax.tree.map(moved, weights, means, squares), (means, squares, count), loss

        self.update = jax.jit(update, donate_argnums=(0, 1))

    def step(self):
        """Fresh tokens, forward, backward, update; one read, the loss."""
        tokens = jnp.asarray(next(self.batches), dtype=jnp.int32)
        self.weights, self.state, loss = self.update(self.weights, self.state, tokens)
        return float(loss)

    def synchronize(self):
        """Returns when the last update has run."""
        jax.block_until_ready(self.weights)
