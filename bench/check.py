"""Fails when GT lost ground against its peers since bench/baseline.json was written. `make bench-check` calls it.

CHECK-1: only ratios taken in one run are compared; the machine may be another one than the baseline's.
CHECK-2: a row fails when its ratio exceeds the baseline by more than 10 % plus noise: the larger of what three
         interleaved repeats differed by then and differ by now.
CHECK-3: what could not be judged is named: a ratio that cannot be taken here, one that is mostly noise.
"""

import argparse
import json
import sys

import peers
from run import choose, measure

ALLOWED_LOSS = 0.10
# Beyond this a row that held says nothing.
USABLE_NOISE = 0.25
REPEATS = 3


def compare(row, peer, before, now):
    """One line of the table, and whether ground was lost."""
    was, ratio = before["ratio"][peer], now["ratio"][peer]
    loss = ratio / was - 1.0
    noise = max(before["spread"][peer], now["spread"][peer])
    lost = loss > ALLOWED_LOSS + noise
    if lost:
        answer = "LOST"
    elif noise > USABLE_NOISE:
        answer = "too noisy to judge"
    else:
        answer = "gained" if loss < -ALLOWED_LOSS - noise else "held"
    return [row, peer, f"{was:.3f}", f"{ratio:.3f}", f"{loss:+.1%}", f"{noise:.1%}", answer], lost


def compare_all(rows, baseline, results):
    """The table's lines, and the names of what lost ground."""
    lines, lost = [["row", "against", "baseline", "now", "loss", "noise", ""]], []
    for row in rows:
        before = baseline["rows"].get(row.name)
        if before is None:
            lines.append([row.name, "", "", "", "", "", "not in the baseline"])
            continue
        for peer, was in before["ratio"].items():
            if peer not in results[row.name]["ratio"]:
                lines.append([row.name, peer, f"{was:.3f}", "", "", "", "not measured"])
                continue
            line, is_lost = compare(row.name, peer, before, results[row.name])
            lines.append(line)
            lost += [f"{row.name} against {peer}"] if is_lost else []
    return lines, lost


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="only these, separated by commas")
    parser.add_argument(
        "--rounds", type=int, default=7, help="turns of each contender in a repeat (default %(default)s)"
    )
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    args = parser.parse_args(arguments)
    threads = peers.available_cores()
    peers.set_threads(threads)
    found, skipped = peers.load(threads)
    if skipped:
        sys.exit("; ".join(f"{name} {reason}" for name, reason in skipped.items()))

    from report import BASELINE, aligned
    from rows import Context
    from trips import round_trips

    if not BASELINE.exists():
        sys.exit(f"{BASELINE} does not exist: write it with `make bench ARGS=--write-baseline`")
    baseline = json.loads(BASELINE.read_text())
    rows = [row for row in choose([name for name in args.rows.split(",") if name]) if row.gated]
    cx = Context(found, allow_compile=not args.no_compile)
    with cx.closing:
        results = measure(cx, rows, args.rounds, REPEATS)

    lines, lost = compare_all(rows, baseline, results)
    print(f"baseline: commit {baseline['commit']}, {baseline['machine']['cpu']}, {baseline['threads']} threads")
    print(aligned(lines))
    for note in cx.notes:
        print(note)
    trips, allowed = round_trips(found["gt"])["round_trips"], baseline["per_step"]["round_trips"]
    print(f"round trips per train step: {trips:g} (baseline {allowed:g})")
    if trips > allowed:
        lost.append("round trips per train step")
    if lost:
        sys.exit("lost ground: " + ", ".join(lost))
    print("no ground lost")


if __name__ == "__main__":
    main()
