"""The wrappers of data-parallel PyTorch. In GT a batch is one tensor, wherever its parts lie: they only pass calls on.

>>> model = gt.nn.DataParallel(gt.nn.Linear(1, 1))
>>> list(model.state_dict())
['module.weight', 'module.bias']
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gt.nn.modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DataParallel(Module):
    """Passes calls on to `module`; sharding is the session's business (`gt.signal`).

    >>> gt.nn.DataParallel(gt.nn.Identity())(gt.ones(1))
    tensor([1.])
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids = device_ids or []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """Passes calls on to `module`: gradients are those of the whole batch already.

    >>> gt.nn.parallel.DistributedDataParallel(gt.nn.Identity())(gt.ones(1))
    tensor([1.])
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, **options: Any) -> None:
        super().__init__()
        self.module = module
        self.device_ids = device_ids

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block without exchange of gradients: there is none to leave out."""
        yield
