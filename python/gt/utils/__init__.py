"""What training code needs beside tensors.

`gt.utils.checkpoint` trades time for memory, `gt.utils.safetensors` reads and writes weights, `gt.utils.tensorboard` draws
curves, `gt.utils.data` is `gt.data` under PyTorch's name.
"""

from typing import Any

from gt._missing import missing
from gt.utils import checkpoint

__all__ = ["checkpoint", "data", "safetensors", "tensorboard"]


def __getattr__(name: str) -> Any:
    if name in ("data", "safetensors", "tensorboard"):
        import importlib

        return importlib.import_module(f"gt.utils.{name}")
    raise missing("gt.utils", name)
