"""The rows about training Qwen3: steps of three sizes, the first step of a process, memory, where the time goes.

TRAIN-1: before anything is timed, all contenders train from the same weights on the same tokens, and their losses agree.
TRAIN-2: the target is a multiple of the *best* peer's time in the same run, whichever that is.
"""

import importlib.util
import itertools
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import qwen3
import report
from measure import clock, ratio, spread, timed
from rows import Row

BEST = "best peer"
CONTENDERS = ("gt", "torch", "torch.compile", "jax")
# Only the products of the linear layers, by the fastest library at hand: no step can be faster than that.
GEMM = "GEMM only"
JAX_MISSING = "jax: skipped, it is not installed"
AGREEMENT_STEPS, AGREEMENT = 10, 1e-3
STEPS_PER_TURN = {"tiny": 75, "nano": 3, "small": 1}
# Fresh processes of each contender.
PROCESSES = 3
# `small` may be this close to the limit instead.
GEMM_MULTIPLE = 1.2


@dataclass(frozen=True)
class TrainRow(Row):
    """A row whose contenders and target are those of this file."""

    size: str = ""
    steps: bool = True


def contenders(cx, size):
    """A training run and what it waits for at the end, by contender; those that are not installed are noted."""
    extents, runs = qwen3.SIZES[size], {}
    for name, peer in cx.peers.items():
        runs[name] = (qwen3.Training(peer.module, extents), peer.synchronize)
    if "torch" in cx.peers and cx.allow_compile:
        training = qwen3.Training(cx.peers["torch"].module, extents, compiled=True)
        runs["torch.compile"] = (training, cx.peers["torch"].synchronize)
    if has_jax():
        import qwen3_jax

        training = qwen3_jax.Training(extents)
        runs["jax"] = (training, training.synchronize)
    elif JAX_MISSING not in cx.notes:
        cx.notes.append(JAX_MISSING)
    return runs


def has_jax():
    """Whether JAX is installed; it is not imported to find out."""
    return importlib.util.find_spec("jax") is not None


def compared(cx, size, runs):
    """The contenders that work here, after TRAIN-1 has been seen to hold; notes how long their first steps took."""
    losses, working = {}, {}
    for name, (training, synchronize) in runs.items():
        start = clock()
        try:
            first = training.step()
        except Exception as error:
            if name != "torch.compile":  # It needs a C++ compiler, which is no fault of the others.
                raise
            cx.notes.append(f"{name}: skipped for {size}, it does not work here ({type(error).__name__})")
            continue
        synchronize()
        cx.notes.append(f"{name}: the first step of {size} took {clock() - start:.2f} s")
        losses[name] = [first, *(training.step() for _ in range(AGREEMENT_STEPS - 1))]
        working[name] = (training, synchronize)
    reference = losses.get("torch", next(iter(losses.values())))
    for name, curve in losses.items():
        apart = max(abs(a - b) / max(abs(b), 1.0) for a, b in zip(curve, reference, strict=True))
        if not apart <= AGREEMENT:
            raise RuntimeError(f"train_{size}: the losses of {name} are off by {apart:.1e}: {curve}, not {reference}")
    return working


def products(size):
    """The matrix products of a step, [m, k] @ [k, n], and how often each occurs."""
    tokens, pairs = size.batch * size.tokens, size.kv_heads * size.head_dim
    queries = size.heads * size.head_dim
    # Not a dict: two layers may have the same shape, as those of queries and outputs do where heads fill the hidden size.
    linear = [
        (size.hidden, queries, size.layers),
        (size.hidden, pairs, 2 * size.layers),
        (queries, size.hidden, size.layers),
        (size.hidden, size.mlp, 2 * size.layers),
        (size.mlp, size.hidden, size.layers),
        (size.hidden, size.vocab, 1),
    ]
    for inner, outer, times in linear:
        # Forward, the gradient of the input, the gradient of the weight.
        yield from (((tokens, inner, outer), times), ((tokens, outer, inner), times), ((outer, tokens, inner), times))


def gemm_only(cx, size):
    """All products of a step and nothing else, by whichever framework is faster at them in that turn."""

    def products_of(peer):
        T = peer.module
        operands = [(T.randn(m, k), T.randn(k, n), times) for (m, k, n), times in products(qwen3.SIZES[size])]

        kept = []

        def run():
            # All are kept to the end of the run: what nobody can see need not be computed.
            kept.clear()
            with T.no_grad():
                for left, right, times in operands:
                    kept.extend(left @ right for _ in range(times))

        return lambda: timed(run, STEPS_PER_TURN[size], peer.synchronize)

    each = [products_of(peer) for peer in cx.peers.values()]
    return lambda: min(turn() for turn in each)


def train(size):
    """Training steps, one read each."""

    def turns(cx):
        runs = compared(cx, size, contenders(cx, size))
        taken = {
            name: lambda t=training, s=synchronize: timed(t.step, STEPS_PER_TURN[size], s)
            for name, (training, synchronize) in runs.items()
        }
        return taken | {GEMM: gemm_only(cx, size)}

    return turns


def run_fresh(name, size, steps):
    """Trains in a process of its own and reads its figures."""
    script = Path(__file__).with_name("train_process.py")
    done = subprocess.run([sys.executable, script, name, size, str(steps)], capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{script.name} {name} {size} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def fresh(key):
    """A figure of fresh processes that train `tiny`. The rows share the processes, and each is looked at again in later
    rounds: starting one takes seconds, and what it measures does not drift.
    """

    def turns(cx):
        def turn(name):
            runs, taken = cx.processes.setdefault(f"train {name}", []), itertools.count()

            def sample():
                place = next(taken) % PROCESSES
                while place >= len(runs):
                    runs.append(run_fresh(name, "tiny", 101))
                return runs[place][key]

            return sample

        return {name: turn(name) for name in [*cx.peers, *(["jax"] if has_jax() else [])]}

    return turns


TRAIN_ROWS = [
    TrainRow("train_tiny", "train step, Qwen3 tiny", train("tiny"), target=0.5, against=BEST, size="tiny"),
    TrainRow("train_nano", "train step, Qwen3 nano", train("nano"), target=0.8, against=BEST, size="nano"),
    TrainRow("train_small", "train step, Qwen3 small", train("small"), target=0.8, against=BEST, size="small"),
    TrainRow(
        "train_first",
        "first step after import, tiny",
        fresh("first_step_s"),
        limit_s=0.5,
        gated=False,
        size="tiny",
        steps=False,
    ),
    TrainRow(
        "train_later",
        "longest of 100 later steps, tiny",
        fresh("longest_s"),
        limit_s=0.05,
        gated=False,
        size="tiny",
        steps=False,
    ),
]


def figures(row, repeats):
    """As report.figures, with all contenders of this file and the ratio to the best of them."""
    names = [name for name in (*CONTENDERS, GEMM) if name in repeats[0]]
    result = {"title": row.title, "samples_s": {n: [s for r in repeats for s in r[n]] for n in names}}
    result["median_s"] = {n: statistics.median(samples) for n, samples in result["samples_s"].items()}
    peers = [name for name in names if name not in ("gt", GEMM)]
    result["ratio"], result["spread"] = {}, {}
    if "gt" not in names:
        return result
    against = {name: name for name in [*peers, *([GEMM] if GEMM in names else [])]}
    if peers:
        result["best"] = min(peers, key=lambda name: result["median_s"][name])
        against[BEST] = result["best"]
    for label, name in against.items():
        by_repeat = [ratio(r["gt"], r[name]) for r in repeats]
        result["ratio"][label], result["spread"][label] = statistics.median(by_repeat), spread(by_repeat)
    return result


def verdict(row, result):
    """The target as text, and whether it holds: None where nothing was measured to hold it to."""
    if row.limit_s is not None:
        return report.verdict(row, result)
    ours = result["ratio"].get(BEST)
    text = f"≤ {row.target:g} × {BEST}"
    if row.size != "small":
        return text, None if ours is None else ours <= row.target
    limit = result["ratio"].get(GEMM)
    text += f" or ≤ {GEMM_MULTIPLE:g} × GEMM"
    if ours is None and limit is None:
        return text, None
    return text, bool((ours is not None and ours <= row.target) or (limit is not None and limit <= GEMM_MULTIPLE))


def table(rows, results):
    """The rows of this file as a Markdown table."""
    lines = [["training", *CONTENDERS, GEMM, "time ÷ best", "time ÷ GEMM", "target", "holds"]]
    for row in rows:
        if row.name not in results:
            continue
        result = results[row.name]
        times = [report.in_words(result["median_s"][n]) if n in result["median_s"] else "" for n in (*CONTENDERS, GEMM)]
        ratios = [f"{result['ratio'][n]:.2f}" if n in result["ratio"] else "" for n in (BEST, GEMM)]
        target, holds = verdict(row, result)
        lines.append([row.title, *times, *ratios, target, {None: "", True: "yes", False: "no"}[holds]])
    return report.aligned(lines)


def memory(cx, size="small", steps=3):
    """The peak of each framework above its import, in processes of their own."""
    return {name: run_fresh(name, size, steps)["memory_bytes"] for name in cx.peers}


def _counted(gt):
    """All plain numbers that the workers count, summed."""
    sums = {}
    for stats in gt.debug.get_worker_stats().values():
        for name, value in stats.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                sums[name] = sums.get(name, 0) + value
            elif isinstance(value, dict) and name.endswith("_ns"):
                for part, inner in value.items():
                    sums[f"{name}/{part}"] = sums.get(f"{name}/{part}", 0) + inner
    return sums


def profile(peer, size, warm_up=8, steps=None):
    """Where a step of GT goes, from the workers' own counters: a line of text for each thing counted."""
    steps = steps or 4 * STEPS_PER_TURN[size]
    training = qwen3.Training(peer.module, qwen3.SIZES[size])
    for _ in range(warm_up):
        training.step()
    peer.synchronize()
    peer.module._core.profile_families(True)
    before, start = _counted(peer.module), clock()
    for _ in range(steps):
        training.step()
    recorded = clock() - start
    peer.synchronize()
    wall = clock() - start
    after = _counted(peer.module)
    per_step = {name: (after[name] - before.get(name, 0)) / steps for name in after}
    times = {name: value / 1e9 for name, value in per_step.items() if name.endswith("_ns") or "_ns/" in name}
    lines = [f"{size}: a step takes {report.in_words(wall / steps)}; Python is done after {recorded / wall:.0%} of it"]
    for name, seconds in sorted(times.items(), key=lambda item: -item[1]):
        if seconds > 0:
            lines.append(
                f"  {name.replace('_ns', ''):<28} {report.in_words(seconds):>9}  {seconds * steps / wall:5.1%}"
            )
    counts = ("total_instructions", "windows", "round_trips", "plan_misses")
    lines.append(
        "  " + ", ".join(f"{per_step[name]:g} {name.replace('_', ' ')}" for name in counts if name in per_step)
    )
    if per_step.get("flops"):
        lines.append(
            f"  {per_step['flops'] / 1e9:.3g} GFlop counted, {per_step['flops'] * steps / wall / 1e9:.0f} GF/s"
        )
    return lines
