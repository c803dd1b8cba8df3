"""From samples to a table, JSON and the notes beside them."""

import datetime
import json
import platform
import statistics
import subprocess
from pathlib import Path

from measure import ratio, spread

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "bench" / "baseline.json"
CONTENDERS = ("gt", "torch", "torch.compile")


def figures(row, repeats):
    """Medians and ratios of one row over all repeats, as they go into the JSON."""
    names = [name for name in CONTENDERS if name in repeats[0]]
    result = {"title": row.title, "samples_s": {n: [s for r in repeats for s in r[n]] for n in names}}
    result["median_s"] = {n: statistics.median(samples) for n, samples in result["samples_s"].items()}
    result["ratio"], result["spread"] = {}, {}
    if "gt" in names:
        for name in names[1:]:
            by_repeat = [ratio(r["gt"], r[name]) for r in repeats]
            result["ratio"][name] = statistics.median(by_repeat)
            result["spread"][name] = spread(by_repeat)
    return result


def verdict(row, result):
    """The target as text, and whether it holds: None where nothing was aimed at or measured."""
    if row.limit_s is not None:
        ours = result["median_s"].get("gt")
        return f"< {in_words(row.limit_s)}", None if ours is None else ours < row.limit_s
    if row.target is not None:
        ours = result["ratio"].get(row.against)
        return f"≤ {row.target:g} × {row.against}", None if ours is None else ours <= row.target
    return "", None


def in_words(seconds):
    """A time with three figures and the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def table(rows, results):
    """All rows as a Markdown table, aligned for the terminal too."""
    lines = [["measure", *CONTENDERS, "time ÷ torch", "time ÷ compile", "target", "holds"]]
    for row in rows:
        if row.name not in results:
            continue
        result = results[row.name]

        def shown(name, row=row, result=result):
            median = result["median_s"].get(name)
            if median is None:
                return ""
            return f"{row.flops / median / 1e9:.0f} GF/s" if row.flops else in_words(median)

        ratios = [f"{result['ratio'][n]:.2f}" if n in result["ratio"] else "" for n in CONTENDERS[1:]]
        target, holds = verdict(row, result)
        answer = {None: "", True: "yes", False: "no"}[holds]
        lines.append([row.title, *(shown(name) for name in CONTENDERS), *ratios, target, answer])
    return aligned(lines)


def aligned(lines):
    """Cells padded to their columns, a rule under the first line."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(text)


def circumstances(peers, threads):
    """Where and with what the figures were taken."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {
            "cpu": cpu_name(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "threads": threads,
        "versions": {name: str(getattr(p.module, "__version__", "unknown")) for name, p in peers.items()},
    }


def commit():
    """The commit measured, marked when the tree differs from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def cpu_name():
    """The processor's model, where the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def write_json(path, content):
    """Writes readable JSON, its folder too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def update_readme(text, taken_on):
    """Replaces the table in README.md between its marks."""
    path = ROOT / "README.md"
    before, rest = path.read_text().split("<!-- table:bench -->", 1)
    _, after = rest.split("<!-- /table:bench -->", 1)
    path.write_text(f"{before}<!-- table:bench -->\n{text}\n\n{taken_on}.\n<!-- /table:bench -->{after}")
