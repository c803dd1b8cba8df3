"""The text of a tensor, as PyTorch prints it.

PRINT-1: what is shown is read once, in one round trip: a large tensor is first cut down to its edges on the worker.
PRINT-2: the layout (widths, scientific notation) follows from the values that are shown, and from no other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from gt import _core

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

_options: dict[str, Any] = {**_PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed; what is not given stays as it is (but `sci_mode`, which returns to automatic).

    >>> gt.set_printoptions(precision=2)
    >>> gt.tensor([1.12345])
    tensor([1.12])
    >>> gt.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile.lower() not in _PROFILES:
            raise ValueError(f"profile must be one of {', '.join(map(repr, _PROFILES))}, not {profile!r}")
        _options.update(_PROFILES[profile.lower()])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The present options, as `set_printoptions` takes them.

    >>> gt.get_printoptions()["edgeitems"]
    3
    """
    return dict(_options)


class _NumberFormat:
    """How the elements of one tensor are written: all with the same number of digits and, as far as it goes, width."""

    def __init__(self, numbers: list[Any], floating: bool) -> None:
        self.width = 1
        self.pattern = "{}"
        self.point = False
        if not floating:
            self.width = max((len(str(n)) for n in numbers), default=1)
            return
        # Zeros and what is not finite never widen a column, nor decide how numbers are written.
        telling = [n for n in numbers if n != 0 and math.isfinite(n)]
        if not telling:
            self.pattern, self.point = "{:.0f}", True
            return
        precision = _options["precision"]
        whole = all(n == math.ceil(n) for n in telling)
        largest, smallest = max(map(abs, telling)), min(map(abs, telling))
        scientific = _options["sci_mode"]
        if scientific is None:
            scientific = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
        if scientific:
            self.pattern = f"{{:.{precision}e}}"
        elif whole:
            self.pattern, self.point = "{:.0f}", True
        else:
            self.pattern = f"{{:.{precision}f}}"
        self.width = max(map(len, map(self._bare, telling)))

    def _bare(self, number: Any) -> str:
        text = self.pattern.format(number)
        return text + "." if self.point and math.isfinite(number) else text

    def text(self, number: Any) -> str:
        return self._bare(number).rjust(self.width)


def _flat(nested: Any) -> Iterator[Any]:
    if isinstance(nested, list):
        for inner in nested:
            yield from _flat(inner)
    else:
        yield nested


def _edges(tensor: Any, items: int) -> Any:
    """The part of `tensor` that a summary shows. The longest dimension is cut first, so that little is copied."""
    long = sorted((d for d, n in enumerate(tensor.shape) if n > 2 * items), key=lambda d: -tensor.shape[d])
    for dim in long:
        end = tensor.shape[dim] - items
        tensor = _core.cat([tensor.narrow(dim, 0, items), tensor.narrow(dim, end, items)], dim)
    return tensor


def _layout(nested: Any, shape: tuple[int, ...], cut: int | None, indent: int, form: _NumberFormat) -> str:
    """The brackets around `nested`, whose full tensor has `shape`; dimensions longer than 2 · cut show dots in the middle."""
    if not shape:
        return form.text(nested)
    dotted = cut is not None and shape[0] > 2 * cut
    if len(shape) == 1:
        words = [form.text(n) for n in nested]
        if dotted:
            words.insert(cut or 0, " ...")
        per_line = max(1, (_options["linewidth"] - indent) // (form.width + 2))
        lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = [_layout(row, shape[1:], cut, indent + 1, form) for row in nested]
    if dotted:
        rows.insert(cut or 0, "...")
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(rows) + "]"


def _contents(tensor: Any, indent: int) -> str:
    if tensor.numel() == 0:
        return "[]"
    items = _options["edgeitems"]
    summary = tensor.numel() > _options["threshold"] and len(tensor.shape) > 0
    if summary and items == 0:
        return "[...]"
    shown = (_edges(tensor, items) if summary else tensor).tolist()
    form = _NumberFormat(list(_flat(shown)), tensor.dtype.is_floating_point)
    return _layout(shown, tuple(tensor.shape), items if summary else None, indent, form)


def _suffixes(tensor: Any) -> Iterator[str]:
    device = str(tensor.device)
    if device != "cpu":
        yield f"device='{device}'"
    default = _core.get_default_dtype()
    if tensor.numel() == 0:
        # No element tells the dtype or the shape.
        if tensor.dim() != 1:
            yield f"size={tuple(tensor.shape)}"
        if tensor.dtype != default:
            yield f"dtype={tensor.dtype}"
    else:
        if not _options["edgeitems"]:
            yield f"size={tuple(tensor.shape)}"
        if tensor.dtype not in (default, _core.int64, _core.bool):
            yield f"dtype={tensor.dtype}"
    if tensor.grad_fn is not None:
        yield f"grad_fn=<{tensor.grad_fn.name()}>"
    elif tensor.requires_grad:
        yield "requires_grad=True"


def format_tensor(tensor: Any) -> str:
    """The text that `repr` and `print` give for a tensor.

    >>> gt.tensor([[1.0, 2.5], [3.0, 4.0]])
    tensor([[1.0000, 2.5000],
            [3.0000, 4.0000]])
    """
    kind = type(tensor)
    # A parameter is named by what prints it; its numbers look like any tensor's.
    plain = kind is _core.Tensor or getattr(kind, "_prints_as_tensor", False)
    prefix = "tensor(" if plain else f"{kind.__name__}("
    indent = len(prefix)
    text = prefix + _contents(tensor.detach(), indent)
    last_line = len(text) - text.rfind("\n") + 1
    for suffix in _suffixes(tensor):
        if last_line + len(suffix) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + suffix
            last_line = indent + len(suffix)
        else:
            text += ", " + suffix
            last_line += len(suffix) + 2
    return text + ")"
