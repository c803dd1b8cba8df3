"""Qwen3: a decoder-only transformer, with the module and parameter names of Hugging Face's checkpoints.

QWEN3-1: with tied embeddings `lm_head.weight` is the same parameter as `model.embed_tokens.weight`.
QWEN3-2: the forward pass reads no value; masks and positions come from shapes and from what the caller gives.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gt import _core, nn
from gt._core import Generator, Tensor
from gt._grad_mode import is_grad_enabled
from gt.models import generation, pretrained
from gt.models.cache import KeyValueCache
from gt.models.configuration import Qwen3Config
from gt.models.layers import Embedding, Linear, Qwen3DecoderLayer, draw_weights
from gt.models.masks import attention_mask as mask_of
from gt.models.outputs import CausalLMOutput, HiddenOutput
from gt.models.rotary import RotaryTables
from gt.nn import functional as F
from gt.utils.checkpoint import checkpoint

__all__ = ["Qwen3ForCausalLM", "Qwen3Model"]


class Qwen3Model(nn.Module):
    """The transformer without the head: tokens to hidden states. `initialize=False` leaves the weights undefined.

    >>> config = gt.models.Qwen3Config(
    ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    ...     num_key_value_heads=1, head_dim=8)
    >>> gt.models.Qwen3Model(config)(gt.tensor([[1, 2, 3]])).last_hidden_state.shape
    gt.Size([1, 3, 16])
    """

    def __init__(self, config: Qwen3Config, *, initialize: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList([Qwen3DecoderLayer(config, layer) for layer in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary = RotaryTables(config)
        self.gradient_checkpointing = False
        if initialize:
            draw_weights(self, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: KeyValueCache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
    ) -> HiddenOutput:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        if input_ids is not None and input_ids.dim() != 2:
            raise ValueError(f"input_ids must be [batch, tokens]; the shape is {tuple(input_ids.shape)}")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        batch, new, _ = x.shape
        cache = self._cache(past_key_values, use_cache)
        past = 0 if cache is None else cache.length
        visible = new if cache is None or past == 0 else cache.visible(new)
        if attention_mask is not None and (
            attention_mask.dim() != 2 or attention_mask.shape[0] != batch or attention_mask.shape[1] < past + new
        ):
            raise ValueError(
                f"attention_mask must be [batch, tokens] = ({batch}, {past + new}), the {past} tokens of the cache "
                f"included; the shape is {tuple(attention_mask.shape)}"
            )
        if position_ids is None:
            cos, sin = self.rotary.following(past, new, x.dtype)
        else:
            cos, sin = self.rotary.at(position_ids, x.dtype)
        masks = {
            kind: mask_of(
                attention_mask, past, new, visible, self.config.sliding_window if kind == "sliding_attention" else None
            )
            for kind in dict.fromkeys(self.config.layer_types)
        }
        recompute = self.gradient_checkpointing and self.training and cache is None
        for layer, kind in zip(self.layers, self.config.layer_types):
            if recompute:
                x = checkpoint(layer, x, cos, sin, masks[kind], None)
            else:
                x = layer(x, cos, sin, masks[kind], cache)
        if cache is not None:
            cache.advance(new)
        return HiddenOutput(self.norm(x), cache)

    def _cache(self, given: KeyValueCache | None, wanted: bool | None) -> KeyValueCache | None:
        """The cache to append to. Unless it is asked for, training (gradients on) has none."""
        if given is not None:
            return given
        if wanted is None:
            wanted = self.config.use_cache and not is_grad_enabled()
        return KeyValueCache() if wanted else None


class Qwen3ForCausalLM(nn.Module):
    """The Qwen3 language model. `initialize=False` leaves the weights undefined, for loading them.

    >>> config = gt.models.Qwen3Config(
    ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    ...     num_key_value_heads=1, head_dim=8, tie_word_embeddings=True)
    >>> model = gt.models.Qwen3ForCausalLM(config)
    >>> tokens = gt.tensor([[1, 2, 3, 4]])
    >>> out = model(tokens, labels=tokens)
    >>> out.logits.shape
    gt.Size([1, 4, 50])
    >>> out.loss.backward()
    >>> model.generate(tokens, max_new_tokens=3).shape
    gt.Size([1, 7])
    """

    def __init__(self, config: Qwen3Config, *, initialize: bool = True) -> None:
        super().__init__()
        self.config = config
        self.model = Qwen3Model(config, initialize=False)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        if initialize:
            draw_weights(self.model if config.tie_word_embeddings else self, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: KeyValueCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
    ) -> CausalLMOutput:
        """Logits, and the loss of predicting each label from what stands before it if `labels` are given.

        `attention_mask` [batch, tokens] is zero at padding. Labels are the tokens themselves (they are shifted here);
        -100 is left out of the mean. `logits_to_keep` asks for the logits of the last tokens only.
        """
        out = self.model(input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache)
        hidden = out.last_hidden_state
        if logits_to_keep:
            hidden = hidden[:, -logits_to_keep:]
        logits = self.lm_head(hidden)
        return CausalLMOutput(None if labels is None else self._loss(logits, labels), logits, out.past_key_values)

    @staticmethod
    def _loss(logits: Tensor, labels: Tensor) -> Tensor:
        if tuple(labels.shape) != tuple(logits.shape[:2]):
            raise ValueError(
                f"labels have shape {tuple(labels.shape)}, but the logits have {tuple(logits.shape[:2])}: "
                "each token needs a label (-100 to ignore it)"
            )
        # The labels move, not the logits: those are large, and a slice of them would be a copy.
        nothing = _core.full((labels.shape[0], 1), -100, dtype=_core.int64)
        following = _core.cat([labels[:, 1:].to(_core.int64), nothing], dim=1)
        return F.cross_entropy(
            logits.to(_core.float32).view(-1, logits.shape[-1]), following.view(-1), ignore_index=-100
        )

    def gradient_checkpointing_enable(self) -> None:
        """Keeps only the input of each layer for the backward pass, which computes the rest again."""
        self.model.gradient_checkpointing = True

    def gradient_checkpointing_disable(self) -> None:
        """Keeps everything the backward pass needs."""
        self.model.gradient_checkpointing = False

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether layers are computed again in the backward pass."""
        return self.model.gradient_checkpointing

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of token vectors."""
        return self.model.embed_tokens  # type: ignore[no-any-return]

    def num_parameters(self) -> int:
        """The number of weights; tied ones count once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def generate(
        self,
        input_ids: Any,
        max_new_tokens: int = 20,
        *,
        attention_mask: Tensor | None = None,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        eos_token_id: int | Sequence[int] | None = None,
        pad_token_id: int | None = None,
        generator: Generator | None = None,
        seed: int | None = None,
        use_cache: bool = True,
    ) -> Tensor:
        """The prompt [batch, tokens] and up to `max_new_tokens` tokens more.

        Takes the likeliest token each time, or with `do_sample` draws one, from the `top_k` likeliest, from those that
        make up `top_p` of the probability, with a `temperature`; `seed` or `generator` make that repeatable. A row ends
        at `eos_token_id` (the configuration's, unless given; several are allowed) and is filled with `pad_token_id`.
        Prompts of different lengths are padded on the left, with an `attention_mask` that is zero there.
        """
        return generation.generate(
            self,
            input_ids,
            max_new_tokens,
            attention_mask=attention_mask,
            do_sample=do_sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            eos_token_id=eos_token_id,
            pad_token_id=pad_token_id,
            generator=generator,
            seed=seed,
            use_cache=use_cache,
        )

    @classmethod
    def from_pretrained(
        cls, directory: str | os.PathLike[str], *, dtype: Any = "auto", config: Qwen3Config | None = None
    ) -> Qwen3ForCausalLM:
        """A model from a folder with `config.json` and `model.safetensors`, or shards with their index.

        `dtype` is that of the weights in memory: "auto" as they are stored, a `gt` dtype or its name to convert. Names
        that are missing or not expected and shapes that differ raise one error that lists them all.
        """
        config = Qwen3Config.from_pretrained(directory) if config is None else config
        model = cls(config, initialize=False)
        pretrained.load_weights(model, directory, dtype, tied_names(config))
        return model.eval()

    def save_pretrained(self, directory: str | os.PathLike[str], max_shard_size: int | str = "5GB") -> None:
        """Writes `config.json` and the weights as Hugging Face reads them, in several files beyond `max_shard_size`.

        A save that is cut short leaves an older checkpoint in the folder as it was.
        """
        pretrained.save_weights(self, directory, max_shard_size, tied_names(self.config))


def tied_names(config: Qwen3Config) -> dict[str, str]:
    """Weights that are another name for another one, and for which."""
    return {"lm_head.weight": "model.embed_tokens.weight"} if config.tie_word_embeddings else {}
