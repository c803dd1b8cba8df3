"""What the examples show while they train: a bar on a terminal, lines elsewhere, and a curve of the losses."""

import math
import sys
import time

# Seconds between two updates of the bar; drawing more often would cost more than it tells.
REFRESH_S = 0.1


class Progress:
    """How far a run is, with what it was last told; on a terminal a bar, elsewhere a line for every tenth of the way.

    `done` counts steps of the whole run; `start` of them were done before (a run that is resumed).
    """

    WIDTH = 30

    def __init__(self, total, start=0, stream=None):
        self.total, self.start = total, start
        self.stream = sys.stderr if stream is None else stream
        self.is_terminal = self.stream.isatty()
        self.tenths = 10 * start // total
        self.began = time.perf_counter()
        self.drawn = 0.0

    def show(self, done, loss, *more):
        """Draws the state after `done` steps; `more` are texts to put behind the loss."""
        now = time.perf_counter()
        parts = [f"loss {loss:.4f}", *more]
        if self.is_terminal:
            if now - self.drawn < REFRESH_S and done < self.total:
                return
            self.drawn = now
            filled = self.WIDTH * done // self.total
            bar = "█" * filled + "░" * (self.WIDTH - filled)
            parts.append(self._time_left(done, now))
            line = f"  {bar} {done:>{len(str(self.total))}}/{self.total}  " + "  ".join(parts)
            self.stream.write(f"\r\033[K{line}" + ("\n" if done == self.total else ""))
        elif 10 * done // self.total > self.tenths:
            self.tenths = 10 * done // self.total
            parts.append(self._time_left(done, now))
            self.stream.write(f"  step {done}/{self.total}  " + "  ".join(parts) + "\n")
        self.stream.flush()

    def _time_left(self, done, now):
        spent, made = now - self.began, done - self.start
        if done == self.total or made < 1:
            return f"{clock(spent)} in all"
        return f"{clock(spent / made * (self.total - done))} left"

    def interrupt(self):
        """Ends the line of an unfinished bar."""
        if self.is_terminal:
            self.stream.write("\n")


def clock(seconds):
    """Seconds as 12 s, 3:07 or 2:05:00."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def rate(count, unit=""):
    """A number with three figures: 950, 12.3k, 4.56M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}{unit}"
    return f"{count:.3g}{unit}"


def loss_curve(losses, width=60, height=8):
    """The losses as text, on a logarithmic scale: one column for some steps, one row for a range of losses."""
    columns = []
    for column in range(min(width, len(losses))):
        start = column * len(losses) // min(width, len(losses))
        stop = (column + 1) * len(losses) // min(width, len(losses))
        columns.append(math.log10(max(sum(losses[start:stop]) / (stop - start), 1e-6)))
    low, high = min(columns), max(columns)
    scale = (height - 1) / (high - low) if high > low else 0.0
    lines = []
    for row in range(height - 1, -1, -1):
        edge = 10 ** (low + row / scale) if scale else 10**low
        marks = "".join("•" if round((c - low) * scale) == row else " " for c in columns)
        lines.append(f"  {edge:8.4f} ┤{marks}".rstrip())
    lines.append("  " + " " * 9 + "└" + "─" * len(columns))
    return "\n".join(lines)
