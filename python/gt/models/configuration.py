"""The extents and settings of a Qwen3 model, in the form of Hugging Face's `config.json`.

MODEL-CONFIG-1: a field that GT does not know is kept and written back, so that a configuration survives a round trip.
MODEL-CONFIG-2: rotary settings are read in both spellings there are (`rope_theta` with `rope_scaling`, or `rope_parameters`)
and written in the older one, which every version reads.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gt._output_files import make_folder
from gt.models.checkpoint_files import write_json
from gt.models.rotary import check_scaling

__all__ = ["Qwen3Config"]

LAYER_TYPES = ("full_attention", "sliding_attention")
ACTIVATIONS = ("silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "tanh")


class Qwen3Config:
    """What a Qwen3 model is made of; the fields and defaults of Hugging Face's class of that name.

    >>> config = gt.models.Qwen3Config(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
    >>> config.head_dim, config.model_type, config.tie_word_embeddings
    (16, 'qwen3', False)
    """

    model_type = "qwen3"

    def __init__(
        self,
        vocab_size: int = 151_936,
        hidden_size: int = 4096,
        intermediate_size: int = 22_016,
        num_hidden_layers: int = 32,
        num_attention_heads: int = 32,
        num_key_value_heads: int | None = 32,
        head_dim: int | None = 128,
        hidden_act: str = "silu",
        max_position_embeddings: int = 32_768,
        initializer_range: float = 0.02,
        rms_norm_eps: float = 1e-6,
        use_cache: bool = True,
        tie_word_embeddings: bool = False,
        rope_theta: float = 10_000.0,
        rope_scaling: dict[str, Any] | None = None,
        attention_bias: bool = False,
        use_sliding_window: bool = False,
        sliding_window: int | None = 4096,
        max_window_layers: int = 28,
        layer_types: list[str] | None = None,
        attention_dropout: float = 0.0,
        pad_token_id: int | None = None,
        bos_token_id: int | None = None,
        eos_token_id: int | list[int] | None = None,
        rope_parameters: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        model_type = others.pop("model_type", self.model_type)
        if model_type != self.model_type:
            raise ValueError(
                f"expected the configuration of a {self.model_type!r} model, got that of a {model_type!r} model"
            )
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_attention_heads if num_key_value_heads is None else num_key_value_heads
        self.head_dim = hidden_size // max(num_attention_heads, 1) if head_dim is None else head_dim
        self.hidden_act = hidden_act
        self.max_position_embeddings = max_position_embeddings
        self.initializer_range = initializer_range
        self.rms_norm_eps = rms_norm_eps
        self.use_cache = use_cache
        self.tie_word_embeddings = tie_word_embeddings
        if rope_parameters is not None:
            rope_scaling = {name: value for name, value in rope_parameters.items() if name != "rope_theta"}
            rope_theta = rope_parameters.get("rope_theta", rope_theta)
        self.rope_theta = rope_theta
        self.rope_scaling = None if _is_plain(rope_scaling) else rope_scaling
        self.attention_bias = attention_bias
        self.use_sliding_window = use_sliding_window
        self.sliding_window = sliding_window if use_sliding_window else None
        self.max_window_layers = max_window_layers
        self.layer_types = self._default_layer_types() if layer_types is None else list(layer_types)
        self.attention_dropout = attention_dropout
        self.pad_token_id = pad_token_id
        self.bos_token_id = bos_token_id
        self.eos_token_id = eos_token_id
        for name, value in others.items():
            setattr(self, name, value)
        self._check()

    def _default_layer_types(self) -> list[str]:
        window = self.sliding_window is not None
        return [
            "sliding_attention" if window and layer >= self.max_window_layers else "full_attention"
            for layer in range(self.num_hidden_layers)
        ]

    def _check(self) -> None:
        for name in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "max_position_embeddings",
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a positive integer, not {value!r}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads ({self.num_attention_heads}) must be a multiple of num_key_value_heads "
                f"({self.num_key_value_heads}): each key/value head serves a group of query heads"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even because rotary positions rotate pairs, got {self.head_dim}")
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(f"hidden_act {self.hidden_act!r} is not known; there are {', '.join(ACTIVATIONS)}")
        if not 0.0 <= self.attention_dropout < 1.0:
            raise ValueError(f"attention_dropout must be in [0, 1), not {self.attention_dropout!r}")
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} entries for {self.num_hidden_layers} layers (num_hidden_layers)"
            )
        if unknown := sorted(set(self.layer_types) - set(LAYER_TYPES)):
            raise ValueError(f"layer_types: unknown {', '.join(unknown)}; there are {', '.join(LAYER_TYPES)}")
        if "sliding_attention" in self.layer_types and not (self.sliding_window and self.sliding_window > 0):
            raise ValueError(
                "layer_types has sliding_attention; set use_sliding_window=True and a positive sliding_window"
            )
        check_scaling(self.rope_scaling)

    def to_dict(self) -> dict[str, Any]:
        """All fields, unknown ones too, as `config.json` has them.

        >>> gt.models.Qwen3Config(my_own_field=3).to_dict()["my_own_field"]
        3
        """
        return {"model_type": self.model_type, **vars(self)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any], **changes: Any) -> Qwen3Config:
        """The configuration with these fields, some of them changed.

        >>> gt.models.Qwen3Config.from_dict({"vocab_size": 300}, num_hidden_layers=2).vocab_size
        300
        """
        return cls(**{**fields, **changes})

    @classmethod
    def from_pretrained(cls, directory: str | os.PathLike[str], **changes: Any) -> Qwen3Config:
        """Reads `config.json` from a folder (or a path to the file itself)."""
        path = Path(directory)
        if path.is_dir():
            path = path / "config.json"
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist: a model folder must contain config.json and the weights")
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError(f"{path} must contain a JSON object, but contains a {type(fields).__name__}")
        return cls.from_dict(fields, **changes)

    def save_pretrained(self, directory: str | os.PathLike[str]) -> None:
        """Writes `config.json` into a folder, which is made if need be."""
        make_folder(directory)
        write_json(Path(directory) / "config.json", self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Qwen3Config) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Qwen3Config({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def _is_plain(scaling: dict[str, Any] | None) -> bool:
    return not scaling or scaling.get("rope_type", scaling.get("type", "default")) in (None, "default")
