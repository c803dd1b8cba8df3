"""Layers that learn the size of their input from the first one they see.

LAZY-1: until then a lazy layer has parameters without elements; with the first input they are made and initialised, and
the layer becomes one of the ordinary class. Optimizers, dtypes and devices are chosen after that first call or before any.
"""

from __future__ import annotations

from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.modules.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from gt.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from gt.nn.modules.linear import Linear
from gt.nn.modules.module import Module
from gt.nn.parameter import UninitializedBuffer, UninitializedParameter


class _Lazy(Module):
    """What lazy layers share. A subclass says which class it becomes and where an input has its size."""

    _becomes: type[Any]
    _sized: str
    _options: dict[str, Any]

    def _size_of(self, input: Tensor) -> int:
        return int(input.shape[-1])

    def _wait(self, options: dict[str, Any], uninitialized: tuple[str, ...], absent: tuple[str, ...] = ()) -> None:
        """Keeps the arguments until the size is known."""
        self._options = options
        for name in uninitialized:
            self.register_parameter(name, UninitializedParameter(dtype=options.get("dtype")))
        for name in absent:
            self.register_parameter(name, None)

    def has_uninitialized_params(self) -> bool:
        """Whether the first input is still to come."""
        return True

    def _become(self, size: int) -> None:
        made = self._becomes(**{**self._options, self._sized: size})
        made.train(self.training)
        with_dtype = next((p.dtype for p in self.parameters()), None)
        if with_dtype is not None and with_dtype != next(made.parameters()).dtype:
            made.to(with_dtype)
        hooks = self._hook_tables
        self.__dict__.clear()
        self.__dict__.update(made.__dict__)
        self._hook_tables = hooks
        self.__class__ = self._becomes

    def __call__(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        self._become(self._size_of(input))
        return self(input, *args, **kwargs)

    def reset_parameters(self) -> None:
        """Nothing to initialise yet."""

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        size = self._size_in(state_dict, prefix)
        if size is None:
            return
        self._become(size)
        self._load_from_state_dict(state_dict, prefix, *rest)

    def _size_in(self, state_dict: Any, prefix: str) -> int | None:
        """The size that a checkpoint's weight shows; None if it was not initialised either."""
        weight = state_dict.get(prefix + "weight")
        if weight is None or isinstance(weight, UninitializedParameter) or weight.numel() == 0:
            return None
        return self._size_of_weight(weight)

    def _size_of_weight(self, weight: Tensor) -> int:
        return int(weight.shape[1])

    def extra_repr(self) -> str:
        shown = {self._sized: 0, **{k: v for k, v in self._options.items() if k not in ("device", "dtype")}}
        return ", ".join(f"{name}={value}" for name, value in shown.items())


class LazyLinear(_Lazy):
    """A `Linear` whose `in_features` is the last dimension of the first input.

    >>> layer = gt.nn.LazyLinear(2)
    >>> layer(gt.ones(1, 3)).shape, layer
    (gt.Size([1, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    _becomes = Linear
    _sized = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.in_features = 0
        self.out_features = out_features
        options = {"out_features": out_features, "bias": bias, "device": device, "dtype": dtype}
        self._wait(options, ("weight", "bias") if bias else ("weight",), () if bias else ("bias",))


class _LazyConv(_Lazy):
    _sized = "in_channels"

    def __init__(self, out_channels: int, kernel_size: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        # The ordinary class names and checks the arguments.
        ordinary = self._becomes(out_channels, out_channels, kernel_size, *args, **kwargs)
        names = ("stride", "padding", "dilation", "groups", "padding_mode")
        options = {name: getattr(ordinary, name) for name in ("out_channels", "kernel_size", *names)}
        if ordinary.transposed:
            options["output_padding"] = ordinary.output_padding
        bias = ordinary.bias is not None
        options |= {"bias": bias, "dtype": kwargs.get("dtype"), "device": kwargs.get("device")}
        for name in options:
            if name not in ("bias", "dtype", "device"):
                setattr(self, name, options[name])
        self.in_channels = 0
        # As the ordinary layer shows itself, but for the size that is not known.
        self._text = "0" + ordinary.extra_repr().removeprefix(str(out_channels))
        self._wait(options, ("weight", "bias") if bias else ("weight",), () if bias else ("bias",))

    def _size_of(self, input: Tensor) -> int:
        rank = self._becomes._rank
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {list(input.shape)}"
            )
        return int(input.shape[-rank - 1])

    def extra_repr(self) -> str:
        return self._text

    def _size_of_weight(self, weight: Tensor) -> int:
        if self._becomes._transposed:
            return int(weight.shape[0])
        return int(weight.shape[1]) * int(self._options["groups"])


class _LazyNorm(_Lazy):
    _sized = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {
            "eps": eps,
            "momentum": momentum,
            "affine": affine,
            "track_running_stats": track_running_stats,
            "device": device,
            "dtype": dtype,
        }
        self._wait(options, ("weight", "bias") if affine else (), () if affine else ("weight", "bias"))
        if track_running_stats:
            self.register_buffer("running_mean", UninitializedBuffer(dtype=dtype))
            self.register_buffer("running_var", UninitializedBuffer(dtype=dtype))
            self.register_buffer("num_batches_tracked", _core.tensor(0, dtype=_core.int64))

    def _size_of(self, input: Tensor) -> int:
        return int(input.shape[0 if input.dim() == self._becomes._ranks[0] and self._unbatched() else 1])

    def _unbatched(self) -> bool:
        return self._becomes.__name__.startswith("Instance")

    def _size_of_weight(self, weight: Tensor) -> int:
        return int(weight.shape[0])


def _lazy(base: type[Any], ordinary: type[Any], arguments: str, shape: str) -> Any:
    """The lazy form of an ordinary class."""
    name = f"Lazy{ordinary.__name__}"
    document = f"""A `{ordinary.__name__}` that counts the channels of its first input.

    >>> gt.nn.{name}({arguments})(gt.ones({shape})).shape[1]
    {2 if arguments else 3}
    """
    return type(name, (base,), {"_becomes": ordinary, "__doc__": document, "__module__": __name__})


LazyConv1d = _lazy(_LazyConv, Conv1d, "2, 1", "1, 3, 4")
LazyConv2d = _lazy(_LazyConv, Conv2d, "2, 1", "1, 3, 4, 4")
LazyConv3d = _lazy(_LazyConv, Conv3d, "2, 1", "1, 3, 4, 4, 4")
LazyConvTranspose1d = _lazy(_LazyConv, ConvTranspose1d, "2, 1", "1, 3, 4")
LazyConvTranspose2d = _lazy(_LazyConv, ConvTranspose2d, "2, 1", "1, 3, 4, 4")
LazyConvTranspose3d = _lazy(_LazyConv, ConvTranspose3d, "2, 1", "1, 3, 4, 4, 4")
LazyBatchNorm1d = _lazy(_LazyNorm, BatchNorm1d, "", "2, 3")
LazyBatchNorm2d = _lazy(_LazyNorm, BatchNorm2d, "", "2, 3, 4, 4")
LazyBatchNorm3d = _lazy(_LazyNorm, BatchNorm3d, "", "2, 3, 4, 4, 4")
LazyInstanceNorm1d = _lazy(_LazyNorm, InstanceNorm1d, "", "2, 3, 4")
LazyInstanceNorm2d = _lazy(_LazyNorm, InstanceNorm2d, "", "2, 3, 4, 4")
LazyInstanceNorm3d = _lazy(_LazyNorm, InstanceNorm3d, "", "2, 3, 4, 4, 4")
