"""What a language model gives back."""

from __future__ import annotations

from typing import Any

from gt._core import Tensor
from gt.models.cache import KeyValueCache

__all__ = ["CausalLMOutput", "ModelOutput"]


class ModelOutput:
    """Fields by name, by key, or by number among those that are there.

    >>> out = gt.models.CausalLMOutput(logits=gt.zeros(1, 2, 3))
    >>> out.loss is None, out["logits"].shape == out[0].shape
    (True, True)
    """

    fields: tuple[str, ...] = ()

    def keys(self) -> list[str]:
        """The names of the fields that are there."""
        return [name for name in self.fields if getattr(self, name) is not None]

    def to_tuple(self) -> tuple[Any, ...]:
        """The fields that are there."""
        return tuple(getattr(self, name) for name in self.keys())

    def __getitem__(self, key: str | int | slice) -> Any:
        if not isinstance(key, str):
            return self.to_tuple()[key]
        if key not in self.keys():
            raise KeyError(key)
        return getattr(self, key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.keys())})"


class HiddenOutput(ModelOutput):
    """The result of a model without a head."""

    fields = ("last_hidden_state", "past_key_values")

    def __init__(self, last_hidden_state: Tensor, past_key_values: KeyValueCache | None = None) -> None:
        self.last_hidden_state = last_hidden_state
        self.past_key_values = past_key_values


class CausalLMOutput(ModelOutput):
    """The result of a language model: the loss if there were labels, logits, and the cache if one was asked for.

    >>> gt.models.CausalLMOutput(loss=gt.tensor(1.0), logits=gt.zeros(1, 2, 3)).keys()
    ['loss', 'logits']
    """

    fields = ("loss", "logits", "past_key_values")

    def __init__(
        self,
        loss: Tensor | None = None,
        logits: Tensor | None = None,
        past_key_values: KeyValueCache | None = None,
    ) -> None:
        self.loss = loss
        self.logits = logits
        self.past_key_values = past_key_values
