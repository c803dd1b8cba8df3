"""Loading shuffled events from hundreds of Parquet files: GT beside its peers, with raw decoding as the limit. `make bench-data`.

LOADING-BENCH-1: every loader is measured in a process of its own, over the same files, which are in the page cache.
LOADING-BENCH-2: what is compared are samples per second of batches that are consumed and thrown away; slow peers are stopped after a
few seconds, and GT always runs whole epochs.
LOADING-BENCH-3: a peer that is not installed is named, never left out in silence.
LOADING-BENCH-4: rows whose ratio is a target are measured in turns, so that a noisy minute of the machine falls on both.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "data"))

BATCH = 256
SLOW_S = 4.0
COLUMNS = ["time", "charge", "sensor_id", "auxiliary"]
RESULTS = Path(__file__).parent / "results"


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def raw(folder: Path, threads: int) -> dict:
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    meta = pq.read_metadata(folder / "train_meta.parquet").num_rows
    files = sorted((folder / "train").glob("*.parquet"))
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as executor:
            list(executor.map(lambda f: pq.read_table(f, columns=COLUMNS, use_threads=False).num_rows, files))
        best = max(best, meta / (time.perf_counter() - began))
    return {"samples_per_s": best}


def gt_dataset(folder: Path, index_cache: bool = True):
    import gt

    return gt.data.ParquetDataset(
        str(folder / "train" / "*.parquet"),
        columns=COLUMNS,
        events=gt.data.RowRanges(
            str(folder / "train_meta.parquet"),
            first="first",
            last="last",
            file="batch_id",
            file_pattern=str(folder / "train" / "batch_{}.parquet"),
            columns=["label"],
        ),
        index_cache=index_cache,
    )


def gt_loader(folder: Path, shuffle: str, workers: int, layout: str = "ranges", index_cache: bool = True):
    import gt

    if layout == "lists":
        dataset = gt.data.ParquetDataset(str(folder / "lists" / "*.parquet"), index_cache=index_cache)
    else:
        dataset = gt_dataset(folder, index_cache)
    return gt.data.DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=shuffle != "off",
        shuffle_pool=128 if shuffle == "pool" else "full",
        drop_last=True,
        num_workers=workers,
        generator=0,
        dtypes=gt.float32,
    )


def measured_gt(folder: Path, shuffle: str, workers: int, layout: str) -> dict:
    import gt

    gt.zeros(1).sum().item()
    before = rss()
    began = time.perf_counter()
    loader = gt_loader(folder, shuffle, workers, layout, index_cache=False)
    next(iter(loader))
    cold = time.perf_counter() - began
    del loader
    gt_loader(folder, shuffle, workers, layout)
    began = time.perf_counter()
    loader = gt_loader(folder, shuffle, workers, layout)
    next(iter(loader))
    warm = time.perf_counter() - began
    loader.set_epoch(0)
    rates, peaks = [], []
    for _ in range(4):
        began, samples, peak = time.perf_counter(), 0, 0
        for number, batch in enumerate(loader):
            samples += len(batch["lengths"])
            if number % 16 == 0:
                # A training loop reads its loss now and then; without that, uploads queue up to what the session allows.
                gt.synchronize()
                peak = max(peak, rss())
        gt.synchronize()
        rates.append(samples / (time.perf_counter() - began))
        peaks.append(peak - before)
    report = loader.shuffle_report()
    return {
        "samples_per_s": max(rates),
        "rates": rates,
        "first_batch_s": cold,
        "first_batch_cached_s": warm,
        "peak_bytes": loader.stats()["peak_bytes"],
        "rss_bytes": peaks,
        "budget_bytes": loader.memory_budget,
        "design_effect": report.design_effect,
        "design_effect_first": report.first.design_effect,
        "design_effect_last": report.last.design_effect,
        "stats": loader.stats(),
    }


def timed(batches, seconds: float = SLOW_S) -> dict:
    """Samples per second, the first batch apart."""
    began = time.perf_counter()
    batches = iter(batches)
    next(batches)
    first = time.perf_counter() - began
    began, samples = time.perf_counter(), 0
    for batch in batches:
        samples += len(batch["lengths"])
        if time.perf_counter() - began > seconds:
            break
    return {"samples_per_s": samples / (time.perf_counter() - began), "first_batch_s": first}


def design_effect(files, correlation: float = 0.01) -> float:
    """Of batches whose samples are in these files, in the order they come: as `shuffle_report` counts it."""
    import numpy as np

    files = np.asarray(files)
    batches = files[: len(files) // BATCH * BATCH].reshape(-1, BATCH)
    squares = [(np.unique(batch, return_counts=True)[1] ** 2).sum() / BATCH for batch in batches]
    return float(1 - correlation + correlation * np.mean(squares))


def torch_loader(folder: Path, sampler: str, workers: int, sequences: bool = False) -> dict:
    import numpy as np
    import torch

    from peers import EventDataset, FileAwareSampler, collate, collate_sequences

    torch.set_num_threads(1)
    before = rss()
    dataset = EventDataset(folder)
    how = {"shuffle": True} if sampler == "random" else {"sampler": FileAwareSampler(dataset)}
    order = np.random.default_rng(0).permutation(len(dataset)) if sampler == "random" else list(how["sampler"])
    how["collate_fn"] = collate_sequences if sequences else collate
    found = timed(torch.utils.data.DataLoader(dataset, BATCH, num_workers=workers, drop_last=True, **how))
    return {**found, "rss_bytes": [rss() - before], "design_effect": design_effect(dataset.meta.file[order])}


def arrow_iterable(folder: Path) -> dict:
    from peers import arrow_batches

    before = rss()
    found = timed(arrow_batches(folder, BATCH))
    # Windows of 64 files, each in full random order.
    return {**found, "rss_bytes": [rss() - before], "design_effect": 1 - 0.01 + 0.01 * (1 + (BATCH - 1) / 64)}


def alternately(folder: Path, rounds: int = 11) -> dict:
    """Epochs with and without shuffling, and with 0, 1 and 2 threads, in turns."""
    import gt

    gt.zeros(1).sum().item()
    kinds = [("off", 2), ("pool", 2), ("pool", 1), ("pool", 0)]
    loaders = {kind: gt_loader(folder, *kind) for kind in kinds}
    rates = {kind: [] for kind in kinds}
    for _, kind in itertools.product(range(rounds), kinds):
        began, samples = time.perf_counter(), 0
        for number, batch in enumerate(loaders[kind]):
            samples += len(batch["lengths"])
            if number % 100 == 0:
                gt.synchronize()
        gt.synchronize()
        rates[kind].append(samples / (time.perf_counter() - began))

    def ratio(a, b) -> float:
        # Of the epochs that began side by side; the middle one, as single ones are disturbed.
        found = sorted(x / y for x, y in zip(rates[a], rates[b]))
        return found[len(found) // 2]

    return {
        "samples_per_s": max(rates["pool", 2]),
        "shuffle_on_over_off": ratio(("pool", 2), ("off", 2)),
        "1_worker_over_0": ratio(("pool", 1), ("pool", 0)),
        "2_workers_over_0": ratio(("pool", 2), ("pool", 0)),
        "rates": {f"{shuffle} {workers}": r for (shuffle, workers), r in rates.items()},
    }


def spun(items: list) -> dict:
    """A collate function that computes for 2 ms an item, and does not sleep."""
    import numpy as np

    end = time.perf_counter() + 0.002 * len(items)
    while time.perf_counter() < end:
        pass
    return {"lengths": np.zeros(len(items), np.int64)}


def python_collate(library: str, workers: int) -> dict:
    """Python that takes 2 ms an item, in batches of 16."""
    if library == "torch":
        import torch

        loader = torch.utils.data.DataLoader(range(2000), 16, num_workers=workers, collate_fn=spun)
    else:
        import gt

        loader = gt.data.DataLoader(range(2000), 16, num_workers=workers, collate_fn=spun)
    return timed(loader, seconds=2.5)


ROWS = {
    "raw decode, pyarrow, 2 threads (the limit)": lambda d: raw(d, 2),
    "torch DataLoader, RandomSampler, 0 workers": lambda d: torch_loader(d, "random", 0),
    "torch DataLoader, RandomSampler, 1 worker": lambda d: torch_loader(d, "random", 1),
    "torch DataLoader, RandomSampler, 2 workers": lambda d: torch_loader(d, "random", 2),
    "torch DataLoader, file-aware, 0 workers": lambda d: torch_loader(d, "files", 0),
    "torch DataLoader, file-aware, 1 worker": lambda d: torch_loader(d, "files", 1),
    "torch DataLoader, file-aware, 2 workers": lambda d: torch_loader(d, "files", 2),
    "torch DataLoader, file-aware, pad_sequence, 0 w.": lambda d: torch_loader(d, "files", 0, sequences=True),
    "torch DataLoader, file-aware, pad_sequence, 2 w.": lambda d: torch_loader(d, "files", 2, sequences=True),
    "pyarrow iterable by hand, pool of 64": arrow_iterable,
    "GT, no shuffle, 0 workers": lambda d: measured_gt(d, "off", 0, "ranges"),
    "GT, no shuffle, 2 workers": lambda d: measured_gt(d, "off", 2, "ranges"),
    "GT, pool shuffle, 0 workers": lambda d: measured_gt(d, "pool", 0, "ranges"),
    "GT, pool shuffle, 1 worker": lambda d: measured_gt(d, "pool", 1, "ranges"),
    "GT, pool shuffle, 2 workers": lambda d: measured_gt(d, "pool", 2, "ranges"),
    "GT, full shuffle, 2 workers": lambda d: measured_gt(d, "full", 2, "ranges"),
    "GT, list columns, pool shuffle, 2 workers": lambda d: measured_gt(d, "pool", 2, "lists"),
    "GT, pool and off, 2, 1 and 0 workers in turns": alternately,
    "torch, Python collate of 2 ms an item, 0 workers": lambda d: python_collate("torch", 0),
    "torch, Python collate of 2 ms an item, 2 workers": lambda d: python_collate("torch", 2),
    "GT, Python collate of 2 ms an item, 0 workers": lambda d: python_collate("gt", 0),
    "GT, Python collate of 2 ms an item, 2 workers": lambda d: python_collate("gt", 2),
}


def other_peer(name: str, folder: Path) -> dict:
    from other_peers import LOADERS

    # What the packages themselves take is not the loader's.
    importlib.import_module("torch")
    importlib.import_module(OTHERS[name])
    before = rss()
    found = timed(LOADERS[name](folder, BATCH, 2))
    return {**found, "rss_bytes": [rss() - before]}


# Loaders that are measured where they are installed, and the packages they are in.
OTHERS = {"Hugging Face datasets": "datasets", "MosaicML Streaming": "streaming", "WebDataset": "webdataset"}
ROWS |= {f"{name}, 2 workers": (lambda d, name=name: other_peer(name, d)) for name in OTHERS}


def checks(results: dict) -> list[tuple[str, float, float, bool]]:
    """Target, value, bound, and whether it holds."""
    speed = {name: r["samples_per_s"] for name, r in results.items() if "samples_per_s" in r}
    pool = results.get("GT, pool shuffle, 2 workers", {})
    out = []

    def at_least(what: str, value: float, bound: float) -> None:
        out.append((what, value, bound, value >= bound))

    def at_most(what: str, value: float, bound: float) -> None:
        out.append((what, value, bound, value <= bound))

    if "samples_per_s" in pool:
        mine = pool["samples_per_s"]
        limit = speed.get("raw decode, pyarrow, 2 threads (the limit)")
        if limit:
            at_least("pool shuffle over raw decode", mine / limit, 0.5)
        random = [v for name, v in speed.items() if "RandomSampler" in name]
        if random:
            at_least("over torch, random, 0 workers", mine / random[0], 500)
        aware = [v for name, v in speed.items() if "file-aware" in name]
        if aware:
            at_least("over torch, file-aware, the best", mine / max(aware), 12)
        sequences = [v for name, v in speed.items() if "pad_sequence" in name]
        if sequences:
            at_least("over torch, file-aware, with pad_sequence", mine / max(sequences), 12)
        at_most("design effect at label correlation 0.01", pool["design_effect"], 1.1)
        at_most("first batch, s", pool["first_batch_s"], 1.0)
        at_most("first batch with a cached index, s", pool["first_batch_cached_s"], 0.3)
        at_most("memory over budget", pool["peak_bytes"] / pool["budget_bytes"], 1.1)
        at_most("process memory over budget", max(pool["rss_bytes"]) / pool["budget_bytes"], 1.1)
        # The first fills what the others use again.
        at_most("memory of the last epoch over the second", pool["rss_bytes"][-1] / max(pool["rss_bytes"][1], 1), 1.1)
    turns = results.get("GT, pool and off, 2, 1 and 0 workers in turns", {})
    if "samples_per_s" in turns:
        at_least("shuffle on over off", turns["shuffle_on_over_off"], 0.9)
        at_least("1 worker over 0", turns["1_worker_over_0"], 1.0)
        at_least("2 workers over 0", turns["2_workers_over_0"], 1.0)
    collate = {name: v for name, v in speed.items() if "Python collate" in name}
    if len(collate) == 4:
        torch0, torch2, gt0, gt2 = (
            collate[f"{library}, Python collate of 2 ms an item, {workers} workers"]
            for library, workers in itertools.product(("torch", "GT"), (0, 2))
        )
        at_least("Python collate, 2 workers over 0", gt2 / gt0, 1.7)
        # Both compute for the same time; what differs beyond that is within the clock's noise.
        at_least("Python collate, GT over torch, 2 workers", gt2 / torch2, 0.98)
        at_least("Python collate, GT over torch, 0 workers", gt0 / torch0, 0.98)
    return out


def said(result: dict) -> str:
    """A row's numbers for people: speed, and what it takes beside it."""
    if "samples_per_s" not in result:
        return "  ".join(f"{what.upper()}: {why}" for what, why in result.items())
    text = f"{result['samples_per_s']:12,.0f} samples/s"
    if "design_effect" in result:
        text += f"  design effect {result['design_effect']:5.2f}"
    if "rss_bytes" in result:
        text += "  memory " + ", ".join(f"{b / 2**20:.0f}" for b in result["rss_bytes"]) + " MiB"
    return text


def missing(row: str) -> str | None:
    """The package a row needs that is not installed."""
    for name, module in OTHERS.items():
        if row.startswith(name) and importlib.util.find_spec(module) is None:
            return module
    return None


def measured(row: str, folder: Path) -> dict:
    """A row, in a process of its own (LOADING-BENCH-1)."""
    command = [sys.executable, __file__, "--data", str(folder), "--one", row]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        return {"error": "not done after 90 s"}
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def run_all(folder: Path, only: str | None) -> dict:
    results = {}
    for row in ROWS:
        if only and only not in row:
            continue
        module = missing(row)
        results[row] = {"skipped": f"{module} is not installed"} if module else measured(row, folder)
        print(f"{row:49s}", said(results[row]), flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of bench/data/generate.py; made if it is not there")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--only", help="rows whose name holds this")
    args = parser.parse_args()
    folder = args.data or Path(tempfile.gettempdir()) / "gt-bench-data"
    if args.one:
        print(json.dumps(ROWS[args.one](folder)))
        return
    if not (folder / "generated.json").exists():
        print(f"generating data in {folder}", flush=True)
        subprocess.run([sys.executable, str(Path(__file__).parent / "data" / "generate.py"), str(folder)], check=True)
    results = run_all(folder, args.only)
    print()
    held = checks(results)
    for what, value, bound, ok in held:
        print(f"{'ok  ' if ok else 'MISS'} {what:45s} {value:10.3f}  (target {bound:g})")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "data_loading.json").write_text(json.dumps({"rows": results, "targets": held}, indent=1))


if __name__ == "__main__":
    main()
