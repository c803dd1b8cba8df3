"""Models with the names and files of Hugging Face.

>>> gt.models.Qwen3Config(vocab_size=300).vocab_size
300
"""

from __future__ import annotations

from gt.models.cache import KeyValueCache
from gt.models.configuration import Qwen3Config
from gt.models.outputs import CausalLMOutput
from gt.models.qwen3 import Qwen3ForCausalLM, Qwen3Model

__all__ = ["CausalLMOutput", "KeyValueCache", "Qwen3Config", "Qwen3ForCausalLM", "Qwen3Model"]
