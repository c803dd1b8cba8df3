"""The layers, one family a file."""

from typing import Any


def __getattr__(name: str) -> Any:
    # `nn.modules.Linear`, as PyTorch has it beside `nn.Linear`.
    from gt import nn

    if name in nn.__all__ and isinstance(getattr(nn, name), type):
        return getattr(nn, name)
    raise AttributeError(f"module 'gt.nn.modules' has no attribute {name!r}")
