"""The limits of number types."""

from __future__ import annotations

import math
from typing import Any

from gt import _core

# Mantissa bits that are stored, largest exponent.
_FLOATS = {"float64": (52, 1023), "float32": (23, 127), "float16": (10, 15), "bfloat16": (7, 127)}


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


class finfo:
    """The limits of a float dtype, by default of the default one.

    >>> gt.finfo(gt.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Any = None) -> None:
        dtype = _core.get_default_dtype() if type is None else type
        self.dtype = _name(dtype)
        if self.dtype not in _FLOATS:
            raise TypeError(f"gt.finfo() requires a floating point input type. Use gt.iinfo to handle '{dtype}'")
        stored, exponent = _FLOATS[self.dtype]
        self.bits: int = 8 * dtype.itemsize
        self.eps = 2.0**-stored
        self.max = (2 - self.eps) * 2.0**exponent
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - exponent)
        self.resolution = 10.0 ** -math.floor(stored * math.log10(2))

    def __repr__(self) -> str:
        shown = {n: getattr(self, n) for n in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")}
        return f"finfo({', '.join(f'{n}={v:g}' for n, v in shown.items())}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype.

    >>> gt.iinfo(gt.int8).max
    127
    """

    def __init__(self, type: Any) -> None:
        self.dtype = _name(type)
        if type.is_floating_point or self.dtype == "bool":
            raise TypeError(f"gt.iinfo() requires an integer input type. Use gt.finfo to handle '{type}'")
        self.bits: int = 8 * type.itemsize
        signed = 1 if type.is_signed else 0
        self.max: int = 2 ** (self.bits - signed) - 1
        self.min: int = -(2 ** (self.bits - 1)) if signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
