"""What is said of names that GT does not have."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

PAGE = "docs/pytorch-compatibility.md"

# Public attributes of PyTorch's tensors. A `__getattr__` would slow every other attribute down.
TENSOR_ATTRIBUTES = tuple(
    """
    angle as_strided_ as_strided_scatter as_subclass cholesky_inverse cholesky_solve coalesce col_indices
    const_data_ptr crow_indices dense_dim dim_order frexp geqrf grad_dtype hardshrink histogram i0 i0_ igamma
    igamma_ igammac igammac_ imag index index_reduce_ indices is_coalesced is_set_to istft lu lu_solve map_
    module_load mvlgamma mvlgamma_ new_empty_strided nextafter nextafter_ nonzero_static orgqr ormqr pinverse
    polygamma polygamma_ record_stream short sspaddmm stft storage storage_type svd to_dense to_padded_tensor
    triangular_solve unsafe_chunk unsafe_split untyped_storage values xpu
    """.split()
)


def _said(name: str) -> str:
    return f"{name} is not in GT yet; {PAGE} lists what GT supports"


def missing(module: str, name: str) -> AttributeError:
    """The error for a name that `module` does not have.

    >>> gt.linalg.svd
    Traceback (most recent call last):
    AttributeError: gt.linalg.svd is not in GT yet; docs/pytorch-compatibility.md lists what GT supports
    """
    # What Python and its tools look for, and do not mind not to find.
    if name.startswith("__"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return AttributeError(_said(f"{module}.{name}"), name=name, obj=importlib.import_module(module))


def names_missing_in(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module all of whose names are in it.

    One that is a file sets `__path__` to nothing: then `from gt.linalg import svd` asks for a module of that name, and hears that it is
    not in GT.
    """

    def __getattr__(name: str) -> Any:
        raise missing(module, name)

    return __getattr__


class _MissingModules:
    """Comes last when modules are looked for: a module of `gt` that nobody has found is not in GT.

    `from gt import fft` asks for a module `gt.fft` too, where `gt` has no `fft` itself.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        parent, _, last = name.rpartition(".")
        if (parent == "gt" or parent.startswith("gt.")) and not last.startswith("_"):
            # With the module's name in it, `from gt import fft` would go on, and forget what is said here.
            raise ModuleNotFoundError(_said(name))


class _MissingAttribute:
    """Stands where PyTorch's tensors have an attribute that GT's do not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise AttributeError(_said(f"gt.Tensor.{self._name}"), name=self._name, obj=instance)


def install(tensor: type) -> None:
    """Has imports and attributes of tensors say that a name is not in GT."""
    if _MissingModules not in sys.meta_path:
        sys.meta_path.append(_MissingModules)  # type: ignore[arg-type]
    for name in TENSOR_ATTRIBUTES:
        setattr(tensor, name, _MissingAttribute(name))
    missing_names = frozenset(TENSOR_ATTRIBUTES)
    tensor.__dir__ = lambda self: [n for n in object.__dir__(self) if n not in missing_names]  # type: ignore[method-assign]
