"""The named tuples that operations with several results give.

>>> gt.sort(gt.tensor([2, 1])).indices
tensor([1, 0])
"""

from __future__ import annotations

from typing import NamedTuple

from gt._core import Tensor


def _shown(self: tuple[Tensor, ...]) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self))  # type: ignore[attr-defined]
    return f"gt.return_types.{type(self).__name__}(\n{fields})"


class values_and_indices(NamedTuple):
    """Values that were picked along a dimension, and where they were."""

    values: Tensor
    indices: Tensor


class min_and_max(NamedTuple):
    """The smallest and the largest values."""

    min: Tensor
    max: Tensor


def _named(name: str) -> type[values_and_indices]:
    said = {
        "__slots__": (),
        "__repr__": _shown,
        "__module__": __name__,
        "__doc__": f"What `gt.{name}` gives along a dimension.",
    }
    return type(name, (values_and_indices,), said)


cummax = _named("cummax")
cummin = _named("cummin")
kthvalue = _named("kthvalue")
max = _named("max")
median = _named("median")
min = _named("min")
mode = _named("mode")
nanmedian = _named("nanmedian")
sort = _named("sort")
topk = _named("topk")


class aminmax(min_and_max):
    """What `gt.aminmax` gives."""

    __slots__ = ()
    __repr__ = _shown
