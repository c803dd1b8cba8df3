"""What training code needs beside tensors.

`gt.utils.checkpoint` trades time for memory, `gt.utils.safetensors` reads and writes weights, `gt.utils.tensorboard` draws
curves.
"""

from typing import Any

from gt.utils import checkpoint

__all__ = ["checkpoint", "safetensors", "tensorboard"]


def __getattr__(name: str) -> Any:
    if name in ("safetensors", "tensorboard"):
        import importlib

        return importlib.import_module(f"gt.utils.{name}")
    raise AttributeError(f"module 'gt.utils' has no attribute '{name}'")
