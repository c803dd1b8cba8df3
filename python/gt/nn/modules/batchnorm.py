"""Normalisation over batches and over single samples, with running statistics.

NORM-1: running statistics are updated in place and never read: evaluation right after training waits for nothing.
"""

from __future__ import annotations

import warnings
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad
from gt.nn import functional as F
from gt.nn import init
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter


class _NormBase(Module):
    """Scale, shift and running statistics of every channel."""

    _version = 2
    # Tensors if running statistics are tracked, else None.
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any
    _ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = Parameter(_core.empty(num_features, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(_core.empty(num_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        if track_running_stats:
            self.register_buffer("running_mean", _core.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", _core.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", _core.tensor(0, dtype=_core.int64))
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            self.register_buffer("num_batches_tracked", None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and no running statistics yet."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._ranks:
            wanted = " or ".join(f"{rank}D" for rank in self._ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input of shape {tuple(input.shape)})")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any) -> None:
        # Checkpoints of the first version, and those that name none, need not count batches.
        if local_metadata.get("version", 1) < 2 and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        self._check_input_dim(input)
        momentum: float | Tensor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.add_(1)
                if self.momentum is None:
                    momentum = 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        moving = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if moving else None,
            self.running_var if moving else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalises every channel of (N, C) or (N, C, L) over the batch.

    >>> gt.nn.BatchNorm1d(3)(gt.randn(4, 3)).shape
    gt.Size([4, 3])
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises every channel of (N, C, H, W) over the batch.

    >>> norm = gt.nn.BatchNorm2d(3)
    >>> norm(gt.ones(2, 3, 4, 4)).shape, norm.running_mean
    (gt.Size([2, 3, 4, 4]), tensor([0.1000, 0.1000, 0.1000]))
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises every channel of (N, C, D, H, W) over the batch.

    >>> gt.nn.BatchNorm3d(3)(gt.randn(2, 3, 2, 2, 2)).shape
    gt.Size([2, 3, 2, 2, 2])
    """

    _ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over all workers: in GT every batch norm is, since a batch is one tensor wherever it lies.

    >>> gt.nn.SyncBatchNorm(3)(gt.randn(4, 3)).shape
    gt.Size([4, 3])
    """

    _ranks = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module itself: nothing has to change."""
        return module


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        self._check_input_dim(input)
        single = input.dim() == self._ranks[0]
        x = input.unsqueeze(0) if single else input
        if x.shape[1] != self.num_features:
            mismatch = (
                f"expected input's size at dim={0 if single else 1} to match num_features ({self.num_features}), "
                f"but got: {x.shape[1]} in {tuple(input.shape)}."
            )
            if self.affine:
                raise ValueError(mismatch)
            # Without numbers of its own for every channel, the layer works for any count of them.
            warnings.warn(f"{mismatch} num_features is not used when affine=False.", stacklevel=2)
        out = F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if single else out


class InstanceNorm1d(_InstanceNorm):
    """Normalises every channel of every sample of (N, C, L) or (C, L).

    >>> gt.nn.InstanceNorm1d(3)(gt.randn(2, 3, 4)).shape
    gt.Size([2, 3, 4])
    """

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises every channel of every sample of (N, C, H, W) or (C, H, W).

    >>> gt.nn.InstanceNorm2d(3)(gt.randn(2, 3, 4, 4)).shape
    gt.Size([2, 3, 4, 4])
    """

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises every channel of every sample of (N, C, D, H, W) or (C, D, H, W).

    >>> gt.nn.InstanceNorm3d(3)(gt.randn(2, 3, 2, 2, 2)).shape
    gt.Size([2, 3, 2, 2, 2])
    """

    _ranks = (4, 5)
