"""Batch sizes of client and worker through processes, with and without compilation: one table. `make bench-stream`.

SWEEP-1: every combination is a process with a session of its own at one server; in each round each has one turn.
SWEEP-2: what is compared are steps per second within a round; the table shows medians over rounds.
SWEEP-3: a combination is slower than another, or falls short of a factor, when the median says so by more than 5 % and every single
         round does.
SWEEP-4: a criterion that does not hold is a line that begins with FAILED and says why, and the exit code is 1: no size is slower than
         size 1, adaptive sizes are within 5 % of the best, batching gives at least what was expected of it.

What was expected of batching was guessed for the first GT, whose size 1 was a round trip for each op. Here size 1 is a message for each
op, written at once, that nobody waits for: `GT_CLIENT_BATCH_SIZE=1` is slow, but not that slow. So two factors are shown: over size 1 as
one gets it, and over size 1 as it was, which `GT_BLOCKING=1` gives: each op is waited for. Both are run, in the same rounds as the rest.
The second is what the guesses were about, and is held to them.
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
# On is what one gets without saying anything: what repeats is compiled, and all has repeated when it is measured.
COMPILE = {"off": {"GT_COMPILE": "0"}, "on": {}}
ROUNDS = 5
# Long enough for a median, short enough for fifty of them.
TURN_S = 0.15
SETTLE_S = 0.02
# Beyond this, "slower" is not noise.
TOLERANCE = 0.05
# The client's size 1 where each op is waited for, as it was in the first GT: without compilation, and with the worker's size 1 or without.
WAITING = "1, waiting"
BASE, WORKER_ALONE = (WAITING, "1", "off"), (WAITING, "adaptive", "off")
# What batching was expected to give over size 1, where each op is waited for: from, to.
EXPECTED = {"worker": (1, 2), "client": (5, 10), "all": (10, 20)}
WHY_BATCHING_HURT = (
    "why worker batching slowed the first GT down: its worker waited for a full batch before it ran or answered anything, and "
    "its client waited for the answer before it sent the next op, so a batch only added delay. Here no batch is waited for: "
    "GT_WORKER_BATCH_SIZE limits how much of a window that is there already is planned as one."
)


def variables(client, worker, compiled):
    """The environment of a combination; adaptive is what one gets without saying anything."""
    waiting = {"GT_BLOCKING": "1"} if client == WAITING else {}
    named = {"GT_CLIENT_BATCH_SIZE": "1" if waiting else client, "GT_WORKER_BATCH_SIZE": worker}
    return {name: size for name, size in named.items() if size != "adaptive"} | waiting | COMPILE[compiled]


def sweep(rounds=ROUNDS, size="tiny"):
    """Steps per second of every combination, round by round; those that wait for each op are among them."""
    combinations = [*itertools.product(SIZES, SIZES, COMPILE), BASE, WORKER_ALONE]
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


def factors(measured, faster, slower):
    """How much faster one combination is than another, round by round (SWEEP-2)."""
    return [a / b for a, b in zip(measured[faster], measured[slower], strict=True)]


def factor(measured, faster, slower):
    """The median of it."""
    return statistics.median(factors(measured, faster, slower))


def falls_short(measured, one, other, least):
    """SWEEP-3."""
    each = factors(measured, one, other)
    return statistics.median(each) < least * (1 - TOLERANCE) and max(each) < least


def is_slower(measured, one, other):
    """SWEEP-3."""
    return falls_short(measured, one, other, 1)


def judge(measured):
    """What was seen, as lines of text, and the criteria that do not hold, each with the reason (SWEEP-4)."""
    lines, failed = [], []
    for compiled in COMPILE:
        slower = []
        for fixed, size in itertools.product(SIZES, SIZES[1:]):
            for name, ours, one in (
                ("client", (size, fixed, compiled), ("1", fixed, compiled)),
                ("worker", (fixed, size, compiled), (fixed, "1", compiled)),
            ):
                if is_slower(measured, ours, one):
                    other = "worker" if name == "client" else "client"
                    slower.append(f"{name} {size} ({other} {fixed}): {factor(measured, ours, one):.2f} ×")
        adaptive = ("adaptive", "adaptive", compiled)
        best = max((c for c in measured if c[2] == compiled), key=lambda c: statistics.median(measured[c]))
        by = factor(measured, adaptive, best)
        lines.append(f"compile {compiled}: slower than size 1: {', '.join(slower) or 'none'}")
        lines.append(f"compile {compiled}: adaptive is {by:.2f} × the best (client {best[0]}, worker {best[1]})")
        failed += [f"compile {compiled}: slower than size 1: {which}" for which in slower]
        if is_slower(measured, adaptive, best):
            failed.append(
                f"compile {compiled}: adaptive is {by:.2f} × the best (client {best[0]}, worker {best[1]}), "
                f"below {1 - TOLERANCE:.2f} × in every round"
            )
    all_on, all_off = ("adaptive", "adaptive", "on"), ("1", "1", "off")
    # What is gained over size 1 as one gets it, and over size 1 that waits.
    gained = {
        "worker": ((all_on, ("adaptive", "1", "on")), (WORKER_ALONE, BASE)),
        "client": ((("adaptive", "1", "off"), all_off), (("adaptive", "1", "off"), BASE)),
        "all": ((all_on, all_off), (all_on, BASE)),
    }
    for name, (today, waiting) in gained.items():
        least, most = EXPECTED[name]
        seen = (
            f"{name}: {factor(measured, *today):.1f} × over size 1, "
            f"{factor(measured, *waiting):.1f} × over size 1 that waits for each op"
        )
        lines.append(f"{seen} (expected {least}–{most} ×)")
        if falls_short(measured, *waiting, least):
            failed.append(f"{seen}, expected {least} × at least")
    return [*lines, WHY_BATCHING_HURT], failed


def table(measured):
    """Steps per second, a row for each client size, a column for each worker size and compilation."""
    columns = [(worker, compiled) for compiled in COMPILE for worker in SIZES]
    lines = [["client \\ worker", *(f"{w}, {c}" for w, c in columns)]]
    for client in (WAITING, *SIZES):
        rates = (measured.get((client, *column)) for column in columns)
        lines.append([client, *(f"{statistics.median(rate):.0f}" if rate else "" for rate in rates)])
    return report.aligned(lines)


def show(rounds=ROUNDS):
    """Sweeps, prints the table, what was seen and what does not hold; gives what goes into the JSON, and whether all holds."""
    measured = sweep(rounds)
    lines, failed = judge(measured)
    print("steps/s of tiny by batch sizes of client and worker, and compilation")
    print(table(measured))
    print("\n".join([*lines, *(f"FAILED {why}" for why in failed)]))
    steps = [{"client": c, "worker": w, "compile": k, "steps_per_s": rates} for (c, w, k), rates in measured.items()]
    return {
        "steps": steps,
        "checks": lines,
        "failed": failed,
        "holds": not failed,
    }, not failed


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
