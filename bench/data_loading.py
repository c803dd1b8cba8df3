"""Loading shuffled events from hundreds of Parquet files: GT beside its peers, with raw decoding as the limit. `make bench-data`.

LOADING-1: every loader is measured in a process of its own, over the same files, which are in the page cache.
LOADING-2: what is compared are samples per second of batches that are consumed and thrown away; slow peers are stopped after a
few seconds, and GT always runs whole epochs.
LOADING-3: a peer that is not installed is named, never left out in silence.
"""

from __future__ import annotations

import argparse
import importlib.util
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
    for _ in range(3):
        began, samples, peak = time.perf_counter(), 0, 0
        for number, batch in enumerate(loader):
            samples += len(batch["lengths"])
            if number % 100 == 0:
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


def torch_loader(folder: Path, sampler: str, workers: int) -> dict:
    import torch

    from peers import EventDataset, FileAwareSampler, collate

    torch.set_num_threads(1)
    dataset = EventDataset(folder)
    how = {"shuffle": True} if sampler == "random" else {"sampler": FileAwareSampler(dataset)}
    return timed(
        torch.utils.data.DataLoader(dataset, BATCH, num_workers=workers, collate_fn=collate, drop_last=True, **how)
    )


def arrow_iterable(folder: Path) -> dict:
    from peers import arrow_batches

    return timed(arrow_batches(folder, BATCH))


ROWS = {
    "raw decode, pyarrow, 2 threads (the limit)": lambda d: raw(d, 2),
    "torch DataLoader, RandomSampler, 0 workers": lambda d: torch_loader(d, "random", 0),
    "torch DataLoader, file-aware, 0 workers": lambda d: torch_loader(d, "files", 0),
    "torch DataLoader, file-aware, 1 worker": lambda d: torch_loader(d, "files", 1),
    "torch DataLoader, file-aware, 2 workers": lambda d: torch_loader(d, "files", 2),
    "pyarrow iterable by hand, pool of 64": arrow_iterable,
    "GT, no shuffle, 0 workers": lambda d: measured_gt(d, "off", 0, "ranges"),
    "GT, no shuffle, 2 workers": lambda d: measured_gt(d, "off", 2, "ranges"),
    "GT, pool shuffle, 0 workers": lambda d: measured_gt(d, "pool", 0, "ranges"),
    "GT, pool shuffle, 1 worker": lambda d: measured_gt(d, "pool", 1, "ranges"),
    "GT, pool shuffle, 2 workers": lambda d: measured_gt(d, "pool", 2, "ranges"),
    "GT, full shuffle, 2 workers": lambda d: measured_gt(d, "full", 2, "ranges"),
    "GT, list columns, pool shuffle, 2 workers": lambda d: measured_gt(d, "pool", 2, "lists"),
}
OTHERS = {"Hugging Face datasets": "datasets", "MosaicML Streaming": "streaming", "WebDataset": "webdataset"}


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
        if "torch DataLoader, RandomSampler, 0 workers" in speed:
            at_least("over torch, random", mine / speed["torch DataLoader, RandomSampler, 0 workers"], 500)
        aware = [v for name, v in speed.items() if "file-aware" in name]
        if aware:
            at_least("over torch, file-aware, the best", mine / max(aware), 12)
        if "GT, no shuffle, 2 workers" in speed:
            at_least("shuffle on over off", mine / speed["GT, no shuffle, 2 workers"], 0.9)
        if "GT, pool shuffle, 0 workers" in speed:
            at_least("2 workers over 0", mine / speed["GT, pool shuffle, 0 workers"], 1.0)
        at_most("design effect at label correlation 0.01", pool["design_effect"], 1.1)
        at_most("first batch, s", pool["first_batch_s"], 1.0)
        at_most("first batch with a cached index, s", pool["first_batch_cached_s"], 0.3)
        at_most("memory over budget", pool["peak_bytes"] / pool["budget_bytes"], 1.1)
        at_most("memory of the last epoch over the first", pool["rss_bytes"][-1] / max(pool["rss_bytes"][0], 1), 1.1)
    return out


def run_all(folder: Path, only: str | None) -> dict:
    results = {}
    for name in ROWS:
        if only and only not in name:
            continue
        done = subprocess.run(
            [sys.executable, __file__, "--data", str(folder), "--one", name],
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode != 0:
            results[name] = {"error": done.stderr.strip().splitlines()[-1:]}
        else:
            results[name] = json.loads(done.stdout.splitlines()[-1])
        r = results[name]
        print(f"{name:48s}", f"{r['samples_per_s']:12,.0f} samples/s" if "samples_per_s" in r else r, flush=True)
    for name, module in OTHERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{name:48s}  SKIPPED: {module} is not installed", flush=True)
            results[name] = {"skipped": f"{module} is not installed"}
        else:
            print(
                f"{name:48s}  SKIPPED: it reads a format of its own, and no converter is part of this bench", flush=True
            )
            results[name] = {"skipped": "it reads a format of its own"}
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
