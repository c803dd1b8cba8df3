"""The run whose losses are recorded from PyTorch and followed by GT: tiny Qwen3, 50 steps of AdamW.

Weights and tokens come from integer arithmetic, so they need not be stored and are the same everywhere.
"""

import numpy as np

STEPS = 50
LEARNING_RATE = 1e-3
# So many batches, again and again: the loss falls, and an error in the updates shows.
BATCHES = 4
CONFIG = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
    "max_position_embeddings": 256,
}


def scrambled(count: int, salt: int) -> np.ndarray:
    """`count` numbers of 64 random bits (splitmix64)."""
    with np.errstate(over="ignore"):
        z = (np.arange(count, dtype=np.uint64) + np.uint64(salt << 32)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def weight(number: int, shape: tuple[int, ...]) -> np.ndarray:
    """The start of the parameter with this number: evenly spread matrices, norms of one."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    share = scrambled(int(np.prod(shape)), number + 1).astype(np.float64) / 2.0**64
    return ((share - 0.5) * 0.08).astype(np.float32).reshape(shape)


def tokens(step: int) -> np.ndarray:
    """The batch [2, 65] of a step."""
    return (scrambled(2 * 65, 1000 + step % BATCHES) % np.uint64(CONFIG["vocab_size"])).astype(np.int64).reshape(2, 65)
