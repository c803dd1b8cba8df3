"""The rows about the stream between processes: what a server costs beside an embedded session, uploads, the dispatcher.

STREAM-ROWS-1: contenders are processes of their own, since a process has one session; they take turns.
STREAM-ROWS-2: a ratio that has a target is a ratio of times within one round (MEASURE-2), whatever unit is shown.
"""

import itertools
import json
import shutil
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import report
from measure import ratio, spread
from rows import Row
from stream_contender import Contender
from stream_server import Server

STEPS_PER_TURN = {"tiny": 100, "nano": 3}
TRIP_STEPS = 50
UPLOAD_BYTES = 1 << 30
# Runs of the dispatcher's own benchmark; what it measures does not drift.
RATE_RUNS = 3


@dataclass(frozen=True)
class StreamRow(Row):
    """A row of this file: a time, and perhaps another one that it is compared with."""

    # How a figure is shown.
    shown: Callable[[float], str] = report.in_words
    # The target in words, where it is not a plain multiple.
    aim: str = ""


def server_of(cx):
    """The server of this run, started when it is first needed."""
    if cx.server is None:
        cx.server = Server()
        cx.closing.callback(cx.server.close)
    return cx.server.address


def contender(cx, *arguments, address=""):
    """A process that lives as long as the run, and what it said first."""
    process = Contender(*arguments, address=address)
    cx.closing.callback(process.close)
    return process, process.started()


def train(size):
    """Training steps of a session with a server, and of one without."""

    def turns(cx):
        embedded, alone = contender(cx, "train", size)
        connected, through = contender(cx, "train", size, address=server_of(cx))
        # The same arithmetic in the same order: not a bit may differ.
        if alone["losses"] != through["losses"]:
            raise RuntimeError(f"server_{size}: the losses differ: {through['losses']}, not {alone['losses']}")
        trips = connected.ask("trips", count=TRIP_STEPS)["trips"]
        cx.notes.append(f"server_{size}: {trips:g} round trips per step (reads written: 1)")
        steps = STEPS_PER_TURN[size]
        return {
            "gt": lambda: connected.seconds("steps", count=steps),
            "embedded": lambda: embedded.seconds("steps", count=steps),
        }

    return turns


def upload(cx):
    """An array on its way to the worker, and a copy of it."""
    process, _ = contender(cx, "upload", str(UPLOAD_BYTES), address=server_of(cx))
    return {"gt": lambda: process.seconds("upload"), "memcpy": lambda: process.seconds("memcpy")}


def dispatcher(key):
    """A figure of the dispatcher alone. The rows share the runs of its benchmark."""

    def turns(cx):
        runs, taken = cx.processes.setdefault("dispatcher", []), itertools.count()

        def sample():
            place = next(taken) % RATE_RUNS
            while place >= len(runs):
                runs.append(run_rate())
            return runs[place][key]

        return {"gt": sample}

    return turns


def run_rate():
    """Runs crates/dispatcher/examples/rate.rs, which is built if need be."""
    if shutil.which("cargo") is None:
        raise RuntimeError("the dispatcher's benchmark is built with cargo, which is not on PATH")
    command = ["cargo", "run", "--release", "--quiet", "-p", "gt-dispatcher", "--example", "rate", "--", "--json"]
    done = subprocess.run(command, cwd=report.ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    return json.loads(done.stdout)


def gib_per_s(seconds):
    """The speed of an upload."""
    return f"{UPLOAD_BYTES / (1 << 30) / seconds:.2f} GiB/s"


def per_second(seconds):
    """A rate, where a time was taken."""
    return f"{1e-6 / seconds:.3g} M/s"


def percent(part):
    """A part of a whole."""
    return f"{part:.1%}"


STREAM_ROWS = [
    StreamRow(
        "server_tiny", "train step through a server, tiny", train("tiny"), target=1.15, against="embedded", rounds=3
    ),
    StreamRow(
        "server_nano", "train step through a server, nano", train("nano"), target=1.05, against="embedded", rounds=2
    ),
    StreamRow(
        "upload",
        "1 GiB from NumPy to the worker",
        upload,
        target=1 / 0.6,
        against="memcpy",
        shown=gib_per_s,
        aim="≥ 60 % of memcpy",
    ),
    StreamRow(
        "dispatcher_rate",
        "dispatcher: instructions, unsharded",
        dispatcher("instruction_s"),
        limit_s=1e-6,
        gated=False,
        shown=per_second,
        aim="≥ 1 M/s",
    ),
    StreamRow(
        "dispatcher_replay",
        "dispatcher: a replayed step of 3,000",
        dispatcher("replayed_step_s"),
        limit_s=20e-6,
        gated=False,
    ),
    StreamRow(
        "dispatcher_memory",
        "dispatcher: growth, 1,000 workers, 100 clients",
        dispatcher("growth"),
        limit_s=0.02,
        gated=False,
        shown=percent,
        aim="< 2 %",
    ),
]


def figures(row, repeats):
    """Medians and ratios of one row over all repeats, as they go into the JSON."""
    result = {"title": row.title, "samples_s": {n: [s for r in repeats for s in r[n]] for n in repeats[0]}}
    result["median_s"] = {n: statistics.median(samples) for n, samples in result["samples_s"].items()}
    result["ratio"], result["spread"] = {}, {}
    for name in repeats[0]:
        if name != "gt":
            by_repeat = [ratio(r["gt"], r[name]) for r in repeats]
            result["ratio"][name], result["spread"][name] = statistics.median(by_repeat), spread(by_repeat)
    return result


def table(rows, results):
    """The rows of this file as a Markdown table."""
    lines = [["stream", "GT", "compared with", "time ÷", "target", "holds"]]
    for row in rows:
        if row.name not in results:
            continue
        result = results[row.name]
        other = result["median_s"].get(row.against)
        text, holds = report.verdict(row, result)
        lines.append(
            [
                row.title,
                row.shown(result["median_s"]["gt"]),
                "" if other is None else f"{row.against} {row.shown(other)}",
                "" if other is None else f"{result['ratio'][row.against]:.2f}",
                row.aim or text,
                {None: "", True: "yes", False: "no"}[holds],
            ]
        )
    return report.aligned(lines)
