"""Times, taken in turns so that a drifting machine drifts for everyone.

MEASURE-1: in each round every contender takes its turn once; the order is reversed from round to round.
MEASURE-2: a ratio is the median over rounds of the ratio *within* a round, never a quotient of distant times.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping

clock = time.perf_counter
# Long enough for thread pools that spin after work to park before the next contender starts: OpenMP runtimes take up to
# 200 ms, and a contender whose cores a peer still holds is not measured at all.
SETTLE_S = 0.3


def timed(work: Callable[[], object], count: int, finish: Callable[[], None]) -> float:
    """Seconds for one `work()`, out of `count` in a row up to the end of `finish()`."""
    start = clock()
    for _ in range(count):
        work()
    finish()
    return (clock() - start) / count


def interleave(turns: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each turn measured, round by round."""
    measured: dict[str, list[float]] = {name: [] for name in turns}
    order = list(turns)
    for name in order:  # Compiles, fills caches, starts threads.
        turns[name]()
    for _ in range(rounds):
        for name in order:
            gc.collect()
            gc.disable()
            try:
                time.sleep(SETTLE_S)
                turns[name]()  # The pause let clocks and caches go cold.
                measured[name].append(turns[name]())
            finally:
                gc.enable()
        order.reverse()
    return measured


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Our time as a multiple of theirs (MEASURE-2)."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def spread(values: list[float]) -> float:
    """The range of repeats, relative to their median."""
    return (max(values) - min(values)) / statistics.median(values)
