"""The layers, one family a file."""

from typing import Any

from gt._missing import missing


def __getattr__(name: str) -> Any:
    # `nn.modules.Linear`, as PyTorch has it beside `nn.Linear`.
    from gt import nn

    if name in nn.__all__ and isinstance(getattr(nn, name), type):
        return getattr(nn, name)
    raise missing("gt.nn.modules", name)
