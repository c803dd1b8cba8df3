"""A Qwen3 step on two workers of one thread each, beside one such worker and one worker of two threads.

    python bench/sharding.py [--size nano] [--rounds 3] [--steps 15]

Each is a process of its own; they take turns, and the medians of all rounds are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WAYS = {"one worker, 1 thread": (1, 1), "two workers, 1 thread each": (2, 2), "one worker, 2 threads": (1, 2)}


def measure(workers: int, size: str, steps: int) -> None:
    """Prints the seconds of each step, as JSON."""
    import contextlib

    import gt
    import gt.nn
    import gt.optim
    import qwen3

    scope = contextlib.nullcontext
    if workers > 1:
        gt.gpu_workers(workers)
        gt.register_config("data_parallel", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))

        def scope():
            return gt.signal.context("data_parallel")

    training = qwen3.Training(gt, qwen3.SIZES[size])
    seconds = []
    for step in range(12 + steps):
        began = time.perf_counter()
        with scope():
            training.step()
        if step >= 12:
            seconds.append(time.perf_counter() - began)
    print(json.dumps(seconds))


def run(workers: int, threads: int, size: str, steps: int) -> list[float]:
    """The steps of one process."""
    command = [
        sys.executable,
        str(HERE / "sharding.py"),
        "--measure",
        str(workers),
        "--size",
        size,
        "--steps",
        str(steps),
    ]
    done = subprocess.run(command, env=os.environ | {"GT_NUM_THREADS": str(threads)}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measures, prints the table, and fails if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="nano")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args.measure, args.size, args.steps)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(args.rounds):
        for name, (workers, threads) in WAYS.items():
            seconds[name] += run(workers, threads, args.size, args.steps)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    one, two, wide = median.values()
    print(f"| a step of Qwen3 {args.size} | median |\n|---|---|")
    for name, value in median.items():
        print(f"| {name} | {value * 1e3:.1f} ms |")
    rows = [
        ("two workers are × as fast as one", one / two, 1.6),
        ("time ÷ one worker of two threads", two / wide, 1.25),
    ]
    print("\n| | got | target | holds |\n|---|---|---|---|")
    held = [rows[0][1] >= rows[0][2], rows[1][1] <= rows[1][2]]
    for (name, got, target), holds in zip(rows, held, strict=True):
        sign = "≥" if name.startswith("two") else "≤"
        print(f"| {name} | {got:.2f} | {sign} {target} | {'yes' if holds else 'no'} |")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
