"""Writing on from a prompt, token after token.

GENERATE-1: without an end token nothing is read: all tokens are recorded one after the other and run behind the script.
With one, the loop asks now and then whether every row has ended (once in `ASK_EVERY` tokens).
GENERATE-2: a window ends with each token. Otherwise windows, which are cut by count, would begin at another place of the
loop each time and rarely meet a plan that is there.
GENERATE-3: a row that has ended is filled with the padding token; the result is as long as its longest row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Generator, Tensor
from gt._grad_mode import no_grad
from gt.models.cache import KeyValueCache
from gt.models.sampling import next_token

__all__ = ["generate"]

ASK_EVERY = 16


def _as_batch(input_ids: Any) -> Tensor:
    tokens = input_ids if isinstance(input_ids, Tensor) else _core.tensor(input_ids)
    if tokens.dtype.is_floating_point or tokens.dtype == _core.bool:
        raise TypeError(f"input_ids must be integers, not {tokens.dtype}")
    if tokens.dim() != 2 or 0 in tokens.shape:
        raise ValueError(
            f"input_ids must be [batch, tokens] with at least one token each; the shape is {tuple(tokens.shape)}"
        )
    return tokens.to(_core.int64)


def _check(max_new_tokens: int, do_sample: bool, temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not isinstance(max_new_tokens, int) or max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be a whole number, 0 or larger, not {max_new_tokens!r}")
    if do_sample and not temperature > 0:
        raise ValueError(
            f"temperature must be positive, not {temperature!r}; use do_sample=False for the most likely token"
        )
    if top_k is not None and (not isinstance(top_k, int) or top_k < 0):
        raise ValueError(f"top_k must be a whole number (0 or None for no limit), not {top_k!r}")
    if top_p is not None and not 0.0 < top_p <= 1.0:
        raise ValueError(f"top_p must be in (0, 1], not {top_p!r}")


class _Ends:
    """Which rows have met an end token."""

    def __init__(self, batch: int, end_tokens: Sequence[int], pad_token: int) -> None:
        self.tokens = _core.tensor(list(end_tokens), dtype=_core.int64)
        self.pad_token = pad_token
        self.ended = _core.zeros(batch, dtype=_core.bool)
        self.lengths = _core.zeros(batch, dtype=_core.int64)

    def take(self, token: Tensor) -> Tensor:
        """The token each row gets: this one, or padding if the row has ended before."""
        token = token.masked_fill(self.ended, self.pad_token)
        self.lengths = self.lengths + (~self.ended).to(_core.int64)
        self.ended = self.ended | (token.unsqueeze(-1) == self.tokens).any(-1) & ~self.ended
        return token


def generate(
    model: Any,
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
    """The prompt and what `model` writes on, [batch, prompt + new]; `Qwen3ForCausalLM.generate` describes the arguments."""
    prompt = _as_batch(input_ids)
    _check(max_new_tokens, do_sample, temperature, top_k, top_p)
    if seed is not None:
        if generator is not None:
            raise ValueError("give a generator or a seed, not both")
        generator = Generator()
        generator.manual_seed(seed)
    if eos_token_id is None:
        eos_token_id = model.config.eos_token_id
    end_tokens = [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id or [])
    if pad_token_id is None:
        pad_token_id = model.config.pad_token_id
    if pad_token_id is None:
        pad_token_id = end_tokens[0] if end_tokens else 0
    was_training = model.training
    model.eval()
    try:
        with no_grad():
            step = (
                _Cached(model, prompt, max_new_tokens, attention_mask)
                if use_cache
                else _Whole(model, prompt, attention_mask)
            )
            ends = _Ends(prompt.shape[0], end_tokens, pad_token_id) if end_tokens else None
            written: list[Tensor] = []
            for count in range(1, max_new_tokens + 1):
                token = next_token(step.logits(), do_sample, temperature, top_k, top_p, generator)
                written.append(token if ends is None else ends.take(token))
                if ends is not None and count % ASK_EVERY == 0 and bool(ends.ended.all()):
                    break
                if count < max_new_tokens:
                    step.append(written[-1])
                _core.cut()
            if ends is not None and written:
                written = written[: int(ends.lengths.max())]
            return _core.cat([prompt, _core.stack(written, dim=1)], dim=1) if written else prompt.clone()
    finally:
        model.train(was_training)


def _real_tokens(attention_mask: Tensor, prompt: Tensor, total: int) -> Tensor:
    """The mask of the prompt, and ones for what is written after it: [batch, total]."""
    if tuple(attention_mask.shape) != tuple(prompt.shape):
        raise ValueError(
            f"attention_mask has shape {tuple(attention_mask.shape)}, but input_ids has shape {tuple(prompt.shape)}"
        )
    real = _core.ones(prompt.shape[0], total, dtype=_core.bool)
    real[:, : prompt.shape[1]] = attention_mask.to(_core.bool)
    return real


class _Cached:
    """Feeds the prompt once, then each token once."""

    def __init__(self, model: Any, prompt: Tensor, new: int, attention_mask: Tensor | None) -> None:
        total = prompt.shape[1] + new
        self.model, self.tokens = model, prompt
        self.cache = KeyValueCache(capacity=total)
        self.real = None if attention_mask is None else _real_tokens(attention_mask, prompt, self.cache.capacity)
        self.positions: Tensor | None = None
        if attention_mask is not None:
            self.positions = (attention_mask.to(_core.int64).cumsum(1) - 1).clamp(min=0)

    def logits(self) -> Tensor:
        out = self.model(
            self.tokens,
            attention_mask=self.real,
            position_ids=self.positions,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1]

    def append(self, token: Tensor) -> None:
        self.tokens = token.unsqueeze(1)
        if self.positions is not None:
            self.positions = self.positions[:, -1:] + 1


class _Whole:
    """Feeds all tokens every time."""

    def __init__(self, model: Any, prompt: Tensor, attention_mask: Tensor | None) -> None:
        self.model, self.tokens = model, prompt
        self.real = None if attention_mask is None else _real_tokens(attention_mask, prompt, prompt.shape[1])

    def logits(self) -> Tensor:
        positions = None if self.real is None else (self.real.to(_core.int64).cumsum(1) - 1).clamp(min=0)
        out = self.model(
            self.tokens, attention_mask=self.real, position_ids=positions, use_cache=False, logits_to_keep=1
        )
        return out.logits[:, -1]

    def append(self, token: Tensor) -> None:
        self.tokens = _core.cat([self.tokens, token.unsqueeze(1)], dim=1)
        if self.real is not None:
            one = _core.ones(self.real.shape[0], 1, dtype=_core.bool)
            self.real = _core.cat([self.real, one], dim=1)
