"""Small Qwen3 models for the tests beside this file."""

from pathlib import Path

import gt
from gt.models import Qwen3Config, Qwen3ForCausalLM

FIXTURES = Path(__file__).parent / "fixtures"
CASES = ("tied", "untied_biased_sharded", "sliding_yarn")
FIELDS = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 128,
    "initializer_range": 0.5,
}


def tiny_config(**changes):
    return Qwen3Config(**{**FIELDS, **changes})


def tiny_model(**changes):
    gt.manual_seed(0)
    return Qwen3ForCausalLM(tiny_config(**changes))


def some_tokens(batch=2, count=7, seed=1):
    return gt.randint(1, 40, (batch, count), generator=gt.Generator().manual_seed(seed))
