"""Tensor types of old: `gt.FloatTensor` makes float32 tensors, and `isinstance` knows them by dtype."""

from __future__ import annotations

from typing import Any

from gt import _core
from gt._core import Tensor

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
]


class _OfOneDtype(type):
    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if len(args) == 1 and not isinstance(args[0], int):
            return _core.tensor(args[0], dtype=cls.dtype, device=device)
        return _core.zeros(*(args or (0,)), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'gt.{cls.__name__}'>"


def _of(name: str, dtype: Any) -> Any:
    example = {"BoolTensor": "tensor([True])", "HalfTensor": "tensor([1.], dtype=gt.float16)"}
    floats = "tensor([1.])" if dtype == _core.float32 else f"tensor([1.], dtype={dtype})"
    whole = "tensor([1])" if dtype == _core.int64 else f"tensor([1], dtype={dtype})"
    shown = example.get(name, floats if dtype.is_floating_point else whole)
    doc = f"""Tensors of {dtype}: of data, or of the given sizes.

    >>> gt.{name}([1])
    {shown}
    """
    return _OfOneDtype(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "gt"})


FloatTensor = _of("FloatTensor", _core.float32)
DoubleTensor = _of("DoubleTensor", _core.float64)
HalfTensor = _of("HalfTensor", _core.float16)
BFloat16Tensor = _of("BFloat16Tensor", _core.bfloat16)
LongTensor = _of("LongTensor", _core.int64)
IntTensor = _of("IntTensor", _core.int32)
CharTensor = _of("CharTensor", _core.int8)
ByteTensor = _of("ByteTensor", _core.uint8)
BoolTensor = _of("BoolTensor", _core.bool)
