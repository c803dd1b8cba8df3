"""Measures GT beside its peers in one run, prints a table and writes JSON. `make bench` calls it.

Peers that are not installed are named and left out.
"""

import argparse
import datetime
import sys
from pathlib import Path

import peers

# rows and report come in later: the thread counts must be set before any framework is imported.


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="only these, separated by commas, and no sweep")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each contender (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=1, help="passes over all rows (default %(default)s)")
    parser.add_argument("--threads", type=int, default=peers.available_cores(), help="default: %(default)s, all")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--json", type=Path, help="where the JSON goes (default bench/results/<date>.json)")
    parser.add_argument("--write-baseline", action="store_true", help="write bench/baseline.json from three repeats")
    parser.add_argument("--update-readme", action="store_true", help="put the table into README.md")
    return parser.parse_args(arguments)


def measure(cx, rows, rounds, repeats):
    """The figures of every row, from whole passes over all of them."""
    from measure import interleave

    turns, samples = {}, {row.name: [] for row in rows}
    for repeat in range(repeats):
        for row in rows:
            progress(f"repeat {repeat + 1}/{repeats}: {row.name}")
            if row.name not in turns:
                turns[row.name] = row.turns(cx)
            samples[row.name].append(interleave(turns[row.name], rounds * row.rounds))
    progress("")
    return {row.name: reporter(row).figures(row, samples[row.name]) for row in rows}


def reporter(row):
    """The module that knows the columns of a row."""
    import report
    import stream_rows
    import train_rows

    kinds = {train_rows.TrainRow: train_rows, stream_rows.StreamRow: stream_rows}
    return kinds.get(type(row), report)


def progress(text):
    """The row at work, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def choose(names):
    """The rows of these names; all, if there are none."""
    from rows import ROWS
    from stream_rows import STREAM_ROWS
    from train_rows import TRAIN_ROWS

    known = {row.name: row for row in [*ROWS, *TRAIN_ROWS, *STREAM_ROWS]}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no row is called {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())


def tables(rows, results):
    """The rows as tables, one for each kind of columns."""
    kinds = list(dict.fromkeys(reporter(row) for row in rows))
    return "\n\n".join(kind.table([row for row in rows if reporter(row) is kind], results) for kind in kinds)


def training_figures(cx, rows):
    """Prints what the training rows tell beyond times: memory, and where GT's time goes. Gives it for the JSON."""
    import train_rows

    sizes = [row.size for row in rows if isinstance(row, train_rows.TrainRow) and row.steps]
    content = {}
    if "small" in sizes:
        content["memory_bytes"] = held = train_rows.memory(cx)
        print("peak memory of small, above the import: " + ", ".join(f"{n} {b / 1e9:.2f} GB" for n, b in held.items()))
    if "gt" in cx.peers and sizes:
        content["profile"] = [line for size in sizes for line in train_rows.profile(cx.peers["gt"], size)]
        print("where GT's time goes\n" + "\n".join(content["profile"]))
    return content


def main(arguments=None):
    args = parse(arguments)
    peers.set_threads(args.threads)
    found, skipped = peers.load(args.threads)
    if not found:
        sys.exit("neither gt nor torch can be imported: there is nothing to measure")

    import report
    import stream_sweep
    from rows import Context
    from trips import round_trips

    rows = choose([name for name in args.rows.split(",") if name])
    if args.write_baseline:
        if len(found) < 2:
            sys.exit("a baseline needs both gt and torch")
        rows, args.repeats = [row for row in rows if row.gated], 3
    cx = Context(found, allow_compile=not args.no_compile)
    cx.notes += [f"{name}: skipped, {reason}" for name, reason in skipped.items()]
    with cx.closing:
        results = measure(cx, rows, args.rounds, args.repeats)
    content = report.circumstances(found, args.threads) | {"rows": results}
    if "gt" in found:
        content["per_step"] = round_trips(found["gt"])

    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    print(f"{content['machine']['cpu']}, {args.threads} threads; {versions}; commit {content['commit']}")
    print(tables(rows, results))
    if "per_step" in content:
        counts = content["per_step"]
        print(f"round trips per train step: {counts['round_trips']:g} (reads written: {counts['reads']:g})")
        print(
            "per train step: " + ", ".join(f"{v:g} {k}" for k, v in counts.items() if k not in ("round_trips", "reads"))
        )
    for note in cx.notes:
        print(note)
    content |= training_figures(cx, rows)
    if "gt" in found and not args.rows and not args.write_baseline:
        content["sweep"], _ = stream_sweep.show()

    if args.update_readme:
        report.update_readme(tables(rows, results), f"{content['machine']['cpu']}, {args.threads} threads; {versions}")

    day = datetime.datetime.now().strftime("%Y-%m-%d_%H%M%S")
    path = args.json or report.ROOT / "bench" / "results" / f"{day}.json"
    report.write_json(path, content)
    print(f"written to {path}")
    if args.write_baseline:
        for result in results.values():
            del result["samples_s"], result["median_s"]
        report.write_json(report.BASELINE, content)
        print(f"written to {report.BASELINE}")


if __name__ == "__main__":
    main()
