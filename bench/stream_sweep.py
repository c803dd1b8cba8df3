"""Batch sizes of client and worker through processes, with and without compilation: one table. `make bench-stream`.

SWEEP-1: every combination is a process with a session of its own at one server; in each round each has one turn.
SWEEP-2: what is compared are steps per second within a round; the table shows medians over rounds.

Why worker batching slowed the first GT down: there the worker waited until a batch was full, and answered only then, while
the client waited for that answer before it recorded the next op. Here nobody waits for an answer, a batch is never waited
for, and the worker's size is only a limit on how much of a window is planned as one.
"""

import argparse
import contextlib
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

import peers
import report
from stream_contender import Contender
from stream_server import Server

SIZES = ("1", "10", "50", "100", "adaptive")
COMPILE = {"off": "0", "on": "1"}
ROUNDS = 3
# Long enough for a median, short enough for fifty of them.
TURN_S = 0.15
SETTLE_S = 0.02
# Beyond this, "slower" is not noise.
TOLERANCE = 0.05
# What batching was expected to give over size 1 (worker, client, all of it).
EXPECTED = {"worker": "1–2 ×", "client": "5–10 ×", "all": "10–20 ×"}


def variables(client, worker, compiled):
    """The environment of a combination; adaptive is what one gets without saying anything."""
    named = {"GT_CLIENT_BATCH_SIZE": client, "GT_WORKER_BATCH_SIZE": worker}
    return {name: size for name, size in named.items() if size != "adaptive"} | {"GT_COMPILE": COMPILE[compiled]}


def sweep(rounds=ROUNDS, size="tiny"):
    """Steps per second of every combination, round by round."""
    combinations = list(itertools.product(SIZES, SIZES, COMPILE))
    with contextlib.ExitStack() as closing:
        server = Server()
        closing.callback(server.close)
        running, counts = {}, {}
        for combination in combinations:
            process = Contender("train", size, address=server.address, variables=variables(*combination))
            closing.callback(process.close)
            process.started()
            running[combination] = process
            counts[combination] = max(2, round(TURN_S / process.seconds("steps", count=5)))
        measured = {combination: [] for combination in combinations}
        for _ in range(rounds):
            for combination in combinations:
                time.sleep(SETTLE_S)
                running[combination].ask("steps", count=2)  # The pause let clocks and caches go cold.
                seconds = running[combination].seconds("steps", count=counts[combination])
                measured[combination].append(1 / seconds)
            combinations.reverse()
    return measured


def factor(measured, faster, slower):
    """How much faster one combination is than another (SWEEP-2)."""
    return statistics.median(a / b for a, b in zip(measured[faster], measured[slower], strict=True))


def judge(measured):
    """The checks, as lines of text, and whether all of them hold."""
    lines, good = [], True
    for compiled in COMPILE:
        slower = []
        for fixed, size in itertools.product(SIZES, SIZES[1:]):
            for name, ours, one in (
                ("client", (size, fixed, compiled), ("1", fixed, compiled)),
                ("worker", (fixed, size, compiled), (fixed, "1", compiled)),
            ):
                by = factor(measured, ours, one)
                if by < 1 - TOLERANCE:
                    other = "worker" if name == "client" else "client"
                    slower.append(f"{name} {size} ({other} {fixed}): {by:.2f} ×")
        adaptive = ("adaptive", "adaptive", compiled)
        best = max((c for c in measured if c[2] == compiled), key=lambda c: statistics.median(measured[c]))
        by = factor(measured, adaptive, best)
        good &= not slower and by >= 1 - TOLERANCE
        lines.append(f"compile {compiled}: slower than size 1: {', '.join(slower) or 'none'}")
        lines.append(f"compile {compiled}: adaptive is {by:.2f} × the best (client {best[0]}, worker {best[1]})")
    all_on, all_off = ("adaptive", "adaptive", "on"), ("1", "1", "off")
    factors = {
        "worker": factor(measured, all_on, ("adaptive", "1", "on")),
        "client": factor(measured, ("adaptive", "1", "off"), all_off),
        "all": factor(measured, all_on, all_off),
    }
    lines += [f"{name}: {by:.1f} × over size 1 (expected {EXPECTED[name]})" for name, by in factors.items()]
    return lines, good


def table(measured):
    """Steps per second, a row for each client size, a column for each worker size and compilation."""
    columns = [(worker, compiled) for compiled in COMPILE for worker in SIZES]
    lines = [["client \\ worker", *(f"{w}, {c}" for w, c in columns)]]
    for client in SIZES:
        lines.append([client, *(f"{statistics.median(measured[client, w, c]):.0f}" for w, c in columns)])
    return report.aligned(lines)


def show(rounds=ROUNDS):
    """Sweeps, prints the table and the checks; gives what goes into the JSON, and whether the checks hold."""
    measured = sweep(rounds)
    lines, good = judge(measured)
    print("steps/s of tiny by batch sizes of client and worker, and compilation")
    print(table(measured))
    print("\n".join(lines))
    steps = [{"client": c, "worker": w, "compile": k, "steps_per_s": rates} for (c, w, k), rates in measured.items()]
    return {"steps": steps, "checks": lines, "holds": good}, good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each combination (default %(default)s)")
    parser.add_argument("--json", type=Path, help="where the figures go as JSON")
    args = parser.parse_args()
    peers.set_threads(peers.available_cores())
    content, good = show(args.rounds)
    if args.json:
        args.json.write_text(json.dumps(content, indent=1) + "\n")
    sys.exit(not good)


if __name__ == "__main__":
    main()
