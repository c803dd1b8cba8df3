"""Signals: names for stretches of a program, and what they say about the workers that run it.

A scope names what happens inside. A config, from a YAML file (`GT_CONFIG`, `gt.load_config`) or registered by the program,
says what the name means; without one it means nothing, and the same program runs on one worker.

>>> gt.register_config("halves", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
>>> with gt.signal.context("halves"):
...     y = gt.ones(4, 2) * 2  # split along axis 0 over all workers
>>> y.sum()
tensor(16.)
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gt import _core
from gt._core import Tensor

__all__ = ["ShardConfig", "SignalConfig", "Signals", "context", "current_signal", "enter", "exit", "tensor"]

Workers = int | Sequence[int | str] | None


def _kept(workers: Workers) -> Any:
    return workers if workers is None or isinstance(workers, (int, str)) else list(workers)


@dataclass
class ShardConfig:
    """How tensors are cut: along which of their axes, over which workers.

    `workers` are indices or ids, or how many, and all of them if left out. `replicated=True`
    keeps them whole on each worker, as `axis=None` does.

    >>> gt.ShardConfig(axis=0, workers=[0, 1])
    ShardConfig(axis=0, workers=[0, 1])
    >>> gt.ShardConfig(workers=[0, 1]).axis
    0
    >>> gt.ShardConfig(replicated=True).axis is None
    True
    """

    axis: int | None = 0
    workers: Workers = None
    replicated: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        self.workers = _kept(self.workers)
        # The axis is what would be cut if they were not replicated.
        if self.replicated:
            self.axis = None
        self.replicated = self.axis is None


@dataclass
class SignalConfig:
    """What a signal says.

    `shard` is a `ShardConfig`, or a list of them: the axes of a mesh of workers, such as data × tensor. In a mesh `workers` of
    an axis are a number; `workers` here names all of them, row by row. `replicated=True` keeps everything whole on each worker.
    `backward_signal` names the signal that gradients are under; `compile=True` makes the scope a window of its own.

    >>> grid = gt.SignalConfig(shard=[gt.ShardConfig(axis=0, workers=2), gt.ShardConfig(axis=1, workers=2)])
    >>> len(grid.shard), grid.compile
    (2, False)
    """

    shard: ShardConfig | Sequence[ShardConfig] | None = None
    replicated: bool = False
    backward_signal: str | None = None
    compile: bool = False
    workers: Workers = None

    def __post_init__(self) -> None:
        self.workers = _kept(self.workers)
        if self.shard is not None and not isinstance(self.shard, ShardConfig):
            self.shard = list(self.shard)

    def _axes(self) -> list[ShardConfig]:
        if self.shard is None:
            return [ShardConfig(replicated=True)] if self.replicated else []
        if self.replicated:
            raise ValueError("use either shard or replicated, not both")
        return [self.shard] if isinstance(self.shard, ShardConfig) else list(self.shard)


class context:
    """A scope: `with gt.signal.context("stage_1"): ...`, or `@gt.signal.context("stage_1")` around a function.

    What this thread records inside is under the signal; of scopes inside each other the inner one counts. `backward` names the
    signal of the gradients, in place of the one that the config names.

    >>> @gt.signal.context("anything")
    ... def double(x):
    ...     return x * 2
    >>> gt.register_config("anything", gt.SignalConfig(replicated=True))
    >>> double(gt.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, name: str, backward: str | None = None) -> None:
        self.name = name
        self.backward = backward

    def __enter__(self) -> context:
        _core.signal_enter(self.name, self.backward)
        return self

    def __exit__(self, *exception: Any) -> None:
        _core.signal_exit(self.name)

    # contextlib's decorator would be the line that errors and `gt plan` name.
    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with context(self.name, self.backward):
                return function(*args, **kwargs)

        return inside


def enter(name: str, backward: str | None = None) -> None:
    """Enters a scope by hand; `gt.signal.exit` with the same name leaves it.

    >>> gt.register_config("stage_1", gt.SignalConfig(replicated=True))
    >>> gt.signal.enter("stage_1")
    >>> gt.signal.exit("stage_1")
    """
    _core.signal_enter(name, backward)


def exit(name: str) -> None:
    """Leaves the innermost scope, which has to be this one.

    >>> gt.signal.exit("never entered")
    Traceback (most recent call last):
    RuntimeError: cannot exit signal "never entered": no scope was entered
    """
    _core.signal_exit(name)


def current_signal() -> str | None:
    """The name of the innermost scope of the calling thread, `None` outside of any.

    >>> gt.register_config("stage_1", gt.SignalConfig(replicated=True))
    >>> with gt.signal.context("stage_1"):
    ...     gt.signal.current_signal()
    'stage_1'
    """
    return _core.current_signal()


def tensor(x: Tensor, name: str, backward_name: str | None = None) -> Tensor:
    """A copy of `x` that lies as the signal says. Gradients flow through it.

    `backward_name` names the signal of its gradient, in place of the one that the config names.

    >>> gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    >>> gt.signal.tensor(gt.ones(2, 2), name="rows").sum()
    tensor(4.)
    """
    return _core.signal_tensor(x, name, backward_name)


def register_config(name: str, config: SignalConfig) -> None:
    """Gives a signal a meaning; scopes that were entered before keep theirs.

    In a process with workers of its own that never called `gt.gpu_workers`, the group grows to the largest index there is.

    >>> gt.register_config("data_parallel", gt.SignalConfig(shard=gt.ShardConfig(axis=0), compile=True))
    >>> gt.get_signal_config("data_parallel").compile
    True
    """
    axes = [(axis.axis, axis.workers) for axis in config._axes()]
    _core.register_config(name, axes, config.workers, config.backward_signal, config.compile)


def load_config(path: str | os.PathLike[str]) -> None:
    """Takes the signals of a YAML file, in place of those of the file before. Later scopes follow it.

    A malformed file is a `ValueError` with file, line and column; nothing has changed then.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "signals.yaml"
    >>> _ = path.write_text("from_a_file:\\n  shard: {axis: 0, workers: [0]}\\n")
    >>> gt.load_config(path)
    >>> gt.get_signal_config("from_a_file").shard
    ShardConfig(axis=0, workers=[0])
    """
    with open(path, encoding="utf-8") as file:
        _core.load_config(file.read(), os.fspath(path))


class Signals(dict[str, SignalConfig]):
    """Signals by name.

    >>> gt.get_config().get_signal("nothing of the kind") is None
    True
    """

    def get_signal(self, name: str) -> SignalConfig | None:
        """What a signal says; `None` if nothing is known of it."""
        return self.get(name)


def get_config() -> Signals:
    """All signals by name, those of `GT_CONFIG` too.

    >>> gt.register_config("mine", gt.SignalConfig(replicated=True))
    >>> gt.get_config()["mine"].replicated
    True
    """
    found = Signals()
    for name, axes, workers, backward, compiled in _core.signal_configs():
        parts = [ShardConfig(axis, of) for axis, of in axes]
        whole = parts == [ShardConfig(replicated=True)]
        shard = None if whole or not parts else parts[0] if len(parts) == 1 else parts
        found[name] = SignalConfig(shard, whole, backward, compiled, workers)
    return found


def get_signal_config(name: str) -> SignalConfig | None:
    """What a signal says; `None` if nothing is known of it.

    >>> gt.get_signal_config("nothing of the kind") is None
    True
    """
    return get_config().get(name)
