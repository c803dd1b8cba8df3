"""`SummaryWriter`: what a run wants to show, in files that TensorBoard reads.

WRITER-1: there is no thread. Events are kept until `flush_secs` have passed, `max_queue` of them wait, or the writer is
          flushed or closed, or the program ends.
WRITER-2: a scalar that is a tensor is not read when it is added but when events are written, all of them at once, so
          that logging a loss does not wait for it.
"""

from __future__ import annotations

import atexit
import os
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._output_files import make_folder, may_write, new_file
from gt.utils.tensorboard import messages
from gt.utils.tensorboard.distribution import distribution
from gt.utils.tensorboard.pictures import encoded, grid, in_order
from gt.utils.tensorboard.records import framed

_made = 0


def _default_log_dir(comment: str) -> str:
    now = time.strftime("%b%d_%H-%M-%S")
    return os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")


class _PendingScalar:
    """A scalar whose value is still on the device."""

    def __init__(self, wall_time: float, step: int | None, tag: str, value: Tensor) -> None:
        self.wall_time, self.step, self.tag = wall_time, step, tag
        # The value as it is now, whatever is written to the tensor later.
        self.value = value.detach().double().reshape(()).clone()

    def record(self, value: float) -> bytes:
        return messages.event(self.wall_time, self.step, messages.summary([messages.scalar(self.tag, value)]))


class EventFile:
    """One file of events in a folder, and those that are not written yet."""

    def __init__(self, log_dir: str, suffix: str = "") -> None:
        global _made
        _made += 1
        make_folder(log_dir)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{_made}{suffix}"
        self.path = os.path.join(log_dir, name)
        # Under `gt plan` events are dropped, and their scalars are not read.
        self._is_kept = may_write(self.path)
        self._file: Any = new_file(self.path)
        self._waiting: list[bytes | _PendingScalar] = [messages.event(time.time(), None, messages.file_version())]
        self.flush()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, event: bytes | _PendingScalar) -> None:
        """Keeps an event for the next flush."""
        if self._file is None:
            raise RuntimeError(f"the writer of {self.path} is closed")
        self._waiting.append(event)

    def flush(self) -> None:
        """Writes what waits, after one read for all scalars in it."""
        events, self._waiting = self._waiting, []
        if not self._is_kept:
            return
        pending = [event for event in events if isinstance(event, _PendingScalar)]
        failure = None
        try:
            numbers = _core.stack([event.value for event in pending]).tolist() if pending else []
        except Exception as error:
            # What could be computed is written all the same.
            failure = error
            numbers = [_number_or_nan(event.value) for event in pending]
        values = iter(numbers)
        for event in events:
            self._file.write(framed(event.record(next(values)) if isinstance(event, _PendingScalar) else event))
        self._file.flush()
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Writes what waits and ends the file."""
        if self._file is not None:
            try:
                self.flush()
            finally:
                self._file.close()
                self._file = None


def _number_or_nan(value: Tensor) -> float:
    try:
        return float(value)
    except Exception:
        return float("nan")


_open: weakref.WeakSet[SummaryWriter] = weakref.WeakSet()


def _close_all() -> None:
    _each(SummaryWriter.close, list(_open))


def _each(action: Callable[[Any], None], targets: Iterable[Any]) -> None:
    """Calls it for each, also after one has failed; then raises the first failure."""
    failures = []
    for target in targets:
        try:
            action(target)
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]


class SummaryWriter:
    """Writes events to `log_dir`, by default `runs/<date>_<host>`.

    >>> import tempfile
    >>> from gt.utils.tensorboard import SummaryWriter
    >>> with SummaryWriter(tempfile.mkdtemp()) as writer:
    ...     writer.add_scalar("loss", gt.tensor(0.5), 1)
    ...     writer.add_text("note", "*first* run")
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 1000,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self.log_dir = _default_log_dir(comment) if not log_dir else os.fspath(log_dir)
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self._files: dict[str, EventFile] = {}
        self._flushed_at = time.monotonic()
        self._closed = False
        self._file(self.log_dir)
        if purge_step is not None:
            self._add(messages.session_start(), purge_step, None)
        if not _open:
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        _open.add(self)

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get_logdir(self) -> str:
        """The folder that events are written to."""
        return self.log_dir

    def _file(self, folder: str) -> EventFile:
        if self._closed:
            raise RuntimeError(f"the writer of {self.log_dir} is closed")
        file = self._files.get(folder)
        if file is None:
            file = self._files[folder] = EventFile(folder, self.filename_suffix)
        return file

    def _add(self, content: bytes, step: Any, walltime: float | None) -> None:
        now = time.time() if walltime is None else walltime
        self._file(self.log_dir).add(messages.event(now, _step(step), content))
        self._flush_when_due()

    def _flush_when_due(self) -> None:
        waiting = sum(map(len, self._files.values()))
        if waiting >= self.max_queue or time.monotonic() - self._flushed_at >= self.flush_secs:
            self.flush()

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number at a step. A tensor is read when events are written (WRITER-2)."""
        self._scalar(self.log_dir, tag, scalar_value, global_step, walltime)
        self._flush_when_due()

    def _scalar(self, folder: str, tag: str, value: Any, step: Any, walltime: float | None) -> None:
        now = time.time() if walltime is None else walltime
        if isinstance(value, Tensor):
            if value.numel() != 1:
                raise ValueError(f"scalar {tag!r} must have one element, but has shape {tuple(value.shape)}")
            self._file(folder).add(_PendingScalar(now, _step(step), tag, value))
            return
        content = messages.summary([messages.scalar(tag, float(value))])
        self._file(folder).add(messages.event(now, _step(step), content))

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Several numbers that TensorBoard draws into one chart, each as a run of its own below this one."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag.replace('/', '_')}")
            self._scalar(folder, main_tag, value, global_step, walltime)
        self._flush_when_due()

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """The distribution of a tensor's elements. Reads their counts."""
        self._add(
            messages.summary([messages.histogram(tag, *distribution(values, bins, max_bins))]), global_step, walltime
        )

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """A text, shown as Markdown."""
        self._add(messages.summary([messages.words(tag, text_string)]), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: floats from 0 to 1 or integers from 0 to 255, in `CHW`, `HWC` or `HW`. Reads it."""
        picture = messages.image(tag, *encoded(in_order(img_tensor, dataformats, "HWC")))
        self._add(messages.summary([picture]), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several pictures in a grid, eight to a row. Reads them."""
        picture = messages.image(tag, *encoded(grid(in_order(img_tensor, dataformats, "NHWC"))))
        self._add(messages.summary([picture]), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A figure of Matplotlib, as a picture."""
        import io

        file = io.BytesIO()
        figure.savefig(file, format="png")
        content = file.getvalue()
        width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
        self._add(messages.summary([messages.image(tag, height, width, 4, content)]), global_step, walltime)
        if close:
            from matplotlib import pyplot  # type: ignore[import-not-found]

            pyplot.close(figure)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """A row in the table of hyperparameters, with the metrics they led to, as a run of its own below this one."""
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        parameters = {k: v.item() if isinstance(v, Tensor) else v for k, v in hparam_dict.items()}
        for name, value in parameters.items():
            if not isinstance(value, (bool, int, float, str)):
                raise ValueError(
                    f"hparam {name!r} should be one of int, float, str or bool, not {type(value).__name__}"
                )
        now = time.time()
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(now))) as run:
            for value in messages.hparams(parameters, metric_dict, now):
                run._add(messages.summary([value]), None, None)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def flush(self) -> None:
        """Writes everything that was added. Waits for scalars that are tensors."""
        self._flushed_at = time.monotonic()
        _each(EventFile.flush, self._files.values())

    def close(self) -> None:
        """Writes everything and closes the files; a closed writer takes nothing more."""
        try:
            _each(EventFile.close, self._files.values())
        finally:
            self._closed = True
            _open.discard(self)


def _step(step: Any) -> int | None:
    return None if step is None else int(step)
