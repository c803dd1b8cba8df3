"""Comparing tensors in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gt import _core
from gt._core import Tensor

__all__ = ["assert_close"]

# What is forgiven when nothing is asked for: relative, absolute.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}


def _tolerances(*dtypes: Any) -> tuple[float, float]:
    found = [_TOLERANCES.get(str(d).rpartition(".")[2], (0.0, 0.0)) for d in dtypes]
    return max(r for r, _ in found), max(a for _, a in found)


def _where(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    place = []
    for n in reversed(shape):
        index, at = divmod(index, n)
        place.append(at)
    return tuple(reversed(place))


def _mismatch(actual: Tensor, expected: Tensor, close: Tensor, rtol: float, atol: float) -> str:
    bad = (~close).reshape(-1)
    total, count = bad.shape[0], int(bad.sum().item())
    gap = (actual - expected).abs().reshape(-1)
    gap = _core.where(bad, gap.nan_to_num(float("inf")), -1.0)
    relative = _core.where(bad, gap / expected.abs().reshape(-1), -1.0).nan_to_num(float("inf"))
    lines = [f"Mismatched elements: {count} / {total} ({count / total:.1%})"]
    for name, values, allowed in (("absolute", gap, atol), ("relative", relative, rtol)):
        place = int(values.argmax().item())
        worst = float(values.amax().item())
        at = _where(place, tuple(actual.shape))
        lines.append(f"Greatest {name} difference: {worst} at index {at} (up to {allowed} allowed)")
    return "\n".join(lines)


def _compare(actual: Any, expected: Any, path: str, options: dict[str, Any]) -> None:
    def fail(text: str) -> None:
        place = f"\n\nThe failure occurred for item {path}" if path else ""
        message = options["msg"]
        text = "Tensor-likes are not close!\n\n" + text + place if "Mismatched" in text else text + place
        if callable(message):
            text = message(text)
        elif message is not None:
            text = message
        raise AssertionError(text)

    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        if set(actual) != set(expected):
            fail(f"The keys of the mappings do not match: {sorted(actual)} and {sorted(expected)}")
        for name in expected:
            _compare(actual[name], expected[name], f"{path}[{name!r}]", options)
        return
    both = (actual, expected)
    if all(isinstance(x, Sequence) and not isinstance(x, str) for x in both):
        if len(actual) != len(expected):
            fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for i, (one, other) in enumerate(zip(actual, expected)):
            _compare(one, other, f"{path}[{i}]", options)
        return
    if actual is None or expected is None:
        if actual is not expected:
            fail(f"{actual!r} is not {expected!r}")
        return
    one, other = _core.as_tensor(actual).detach(), _core.as_tensor(expected).detach()
    if tuple(one.shape) != tuple(other.shape):
        fail(f"The values for attribute 'shape' do not match: {one.shape} != {other.shape}.")
    typed = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    if options["check_dtype"] and typed and one.dtype != other.dtype:
        fail(f"The values for attribute 'dtype' do not match: {one.dtype} != {other.dtype}.")
    if options["check_device"] and typed and actual.device != expected.device:
        fail(f"The values for attribute 'device' do not match: {actual.device} != {expected.device}.")
    rtol, atol = options["rtol"], options["atol"]
    if rtol is None:
        rtol, atol = _tolerances(one.dtype, other.dtype)
    if one.dtype == _core.bool or other.dtype == _core.bool:
        one, other = one.to(_core.int64), other.to(_core.int64)
    wide = _core.promote_types(one.dtype, other.dtype)
    one, other = one.to(wide), other.to(wide)
    close = _core.Tensor.isclose(one, other, rtol=rtol, atol=atol, equal_nan=options["equal_nan"])
    if one.numel() and not bool(close.all().item()):
        fail(_mismatch(one.to(_core.float64), other.to(_core.float64), close, rtol, atol))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises an `AssertionError` that names the worst element, unless tensors (numbers, nests of them) are close.

    >>> gt.testing.assert_close(gt.ones(2), gt.ones(2) + 1e-7)
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"rtol and atol must both be specified or both be unspecified, got rtol={rtol}, atol={atol}")
    options = {
        "rtol": rtol,
        "atol": atol,
        "equal_nan": equal_nan,
        "check_device": check_device,
        "check_dtype": check_dtype,
        "msg": msg,
    }
    _compare(actual, expected, "", options)
