"""Nested Python values as JSON beside their tensors, and back.

STRUCTURE-1: values that are JSON's own are written as they are, lists as lists; everything else is an object with one
             tag from the table below. Nothing is ever looked up or called by a name that comes from a file.
STRUCTURE-2: a tensor is written once, whichever places refer to it. Places that held the same object get the same object
             again; handles that shared elements share them again.
"""

from __future__ import annotations

import base64
import collections
import json
import math
from collections.abc import Callable
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._size import Size

VERSION = 1
_SEQUENCES: tuple[tuple[str, type], ...] = (("size", Size), ("tuple", tuple), ("set", set), ("frozenset", frozenset))
_MAPPINGS: tuple[tuple[str, type], ...] = (
    ("counter", collections.Counter),
    ("ordered_dict", collections.OrderedDict),
    ("dict", dict),
)


class Writer:
    """Collects the tensors of a value under names made of the places they were found at."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[Any, str] = {}
        self._handles: dict[str, dict[int, int]] = {}
        self._open: set[int] = set()

    def text(self, value: Any) -> str:
        """The structure of a value; its tensors are in `tensors` afterwards."""
        try:
            tree = self._encode(value, ())
        except RecursionError:
            raise ValueError("cannot save a value that is nested too deeply") from None
        return json.dumps({"version": VERSION, "value": tree}, separators=(",", ":"), allow_nan=False)

    def _encode(self, value: Any, place: tuple[Any, ...]) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, Tensor):
            return self._tensor(value, place)
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            return self._container(value, place)
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": base64.b64encode(value).decode("ascii")}
        if isinstance(value, complex):
            return {"complex": [self._encode(part, place) for part in (value.real, value.imag)]}
        if isinstance(value, _core.dtype):
            return {"dtype": str(value).removeprefix("gt.")}
        if isinstance(value, _core.device):
            return {"device": str(value)}
        if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
            return self._encode(value.item(), place)
        raise TypeError(_cannot(value, place))

    def _container(self, value: Any, place: tuple[Any, ...]) -> Any:
        if id(value) in self._open:
            raise ValueError(f"cannot save a value that contains itself: {_written(place)} is one of its own parents")
        self._open.add(id(value))
        try:
            if isinstance(value, dict):
                tag = next(tag for tag, kind in _MAPPINGS if isinstance(value, kind))
                # A key is a value as any other, but no place for tensors.
                return {
                    tag: [[self._key(k, place), self._encode(v, (*place, k))] for k, v in value.items()],
                }
            if isinstance(value, tuple) and hasattr(value, "_fields"):
                raise TypeError(_cannot(value, place))
            items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
            parts = [self._encode(inner, (*place, i)) for i, inner in enumerate(items)]
            return parts if isinstance(value, list) else {_tag(value): parts}
        finally:
            self._open.discard(id(value))

    def _key(self, key: Any, place: tuple[Any, ...]) -> Any:
        if isinstance(key, Tensor):
            raise TypeError(f"cannot save {_written(place)}: a tensor cannot be a dict key")
        return self._encode(key, (*place, key))

    def _tensor(self, tensor: Tensor, place: tuple[Any, ...]) -> Any:
        offset = tensor.storage_offset()
        cell = tensor.data_ptr() - offset * tensor.element_size()
        view = (cell, offset, tuple(tensor.shape), tensor.stride(), tensor.dtype)
        name = self._names.get(view)
        if name is None:
            name = self._names[view] = self._new_name(place)
            self.tensors[name] = tensor.detach()
        handles = self._handles.setdefault(name, {})
        handle = handles.setdefault(id(tensor), len(handles))
        out: dict[str, Any] = {"tensor": name}
        if handle:
            out["handle"] = handle
        if tensor.requires_grad:
            out["requires_grad"] = True
        if type(tensor) is not Tensor and _is_parameter(tensor):
            out["parameter"] = True
        return out

    def _new_name(self, place: tuple[Any, ...]) -> str:
        parts = [part if isinstance(part, str) else repr(part) for part in place]
        # A name is UTF-8 in the file; half a surrogate pair is not.
        plain = ".".join(parts).encode("utf-8", "backslashreplace").decode("utf-8") or "tensor"
        name, n = plain, 1
        while name in self.tensors or name == "__metadata__":
            n += 1
            name = f"{plain}~{n}"
        return name


def _is_parameter(tensor: Tensor) -> bool:
    # Imported here: who has a parameter has loaded gt.nn.
    from gt.nn import Parameter

    return isinstance(tensor, Parameter)


def _tag(value: Any) -> str:
    return next(tag for tag, kind in _SEQUENCES if isinstance(value, kind))


def _written(place: tuple[Any, ...]) -> str:
    return "the value" + "".join(f"[{part!r}]" for part in place)


def _cannot(value: Any, place: tuple[Any, ...]) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    hint = "save plain values and tensors: numbers, str, bytes, None, lists, tuples, sets and dicts of them"
    if kind == "numpy.ndarray":
        hint = "save it as a tensor: gt.from_numpy(array)"
    elif hasattr(value, "state_dict"):
        hint = "save its state_dict()"
    return f"cannot save {_written(place)}, a {kind}; {hint}"


class Reader:
    """Builds a value again, taking tensors from a function of their names."""

    def __init__(self, tensor: Callable[[str], Tensor]) -> None:
        self._read = tensor
        self._handles: dict[tuple[str, int], Tensor] = {}

    def value(self, text: str) -> Any:
        """The value whose structure was written; whatever is wrong with the text is a ValueError."""
        try:
            tree = json.loads(text)
            if tree["version"] != VERSION:
                raise ValueError(
                    f"the file has format version {tree['version']!r}, but this GT reads version {VERSION}"
                )
            return self._decode(tree["value"])
        except (KeyError, TypeError, AttributeError, RecursionError, IndexError, OverflowError, ValueError) as error:
            raise ValueError(f"the stored structure cannot be read: {error or type(error).__name__}") from None

    def _decode(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self._decode(inner) for inner in tree]
        if not isinstance(tree, dict):
            return tree
        if "tensor" in tree:
            return self._tensor(tree)
        ((tag, content),) = tree.items()
        for known, kind in _SEQUENCES:
            if tag == known:
                if kind is Size and not all(isinstance(extent, int) for extent in content):
                    raise ValueError("a stored shape contains a value that is not an integer")
                return kind([self._decode(inner) for inner in content])
        for known, kind in _MAPPINGS:
            if tag == known:
                made = kind()
                for key, inner in content:
                    made[self._decode(key)] = self._decode(inner)
                return made
        return _scalar(tag, content)

    def _tensor(self, tree: dict[str, Any]) -> Any:
        name, handle = tree["tensor"], tree.get("handle", 0)
        if not isinstance(name, str) or not isinstance(handle, int):
            raise ValueError("a reference to a tensor is malformed")
        known = self._handles.get((name, handle))
        if known is not None:
            return known
        if (name, -1) not in self._handles:
            self._handles[name, -1] = self._read(name)
        made = self._handles[name, -1].detach()
        wants_gradient = bool(tree.get("requires_grad"))
        if tree.get("parameter"):
            from gt.nn import Parameter

            made = Parameter(made, requires_grad=wants_gradient)
        elif wants_gradient:
            made.requires_grad_(True)
        self._handles[name, handle] = made
        return made


def _scalar(tag: str, content: Any) -> Any:
    if tag == "float":
        return float(content)
    if tag == "bytes":
        return base64.b64decode(content, validate=True)
    if tag == "complex":
        return complex(*(part if isinstance(part, (int, float)) else float(part["float"]) for part in content))
    if tag == "dtype":
        found = getattr(_core, content, None)
        if isinstance(found, _core.dtype):
            return found
    if tag == "device":
        return _core.device(content)
    raise ValueError(f"{tag!r} of {content!r} is not known")
