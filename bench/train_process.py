"""Trains Qwen3 in a fresh process: first step, longest later step, memory. Prints JSON.

Usage: train_process.py gt|torch|jax tiny|nano|small STEPS
"""

import importlib
import json
import resource
import sys
import time
from pathlib import Path

clock = time.perf_counter


def resident_bytes():
    """What the process holds in memory now, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def peak_bytes():
    """The most it has held."""
    try:
        # Not the resource usage: that of a child begins with what its parent held.
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def start(name, size):
    """A framework's model with its optimizer, and what it has to wait for in the end."""
    import qwen3

    if name == "jax":
        from qwen3_jax import Training

        return Training(qwen3.SIZES[size])
    return qwen3.Training(importlib.import_module(name), qwen3.SIZES[size])


def main():
    name, size, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    # NumPy makes the weights; neither its import nor the making is the framework's time.
    import qwen3

    weights = qwen3.initial_weights(qwen3.SIZES[size])
    qwen3.initial_weights = lambda _: dict(weights)
    begin = clock()
    module = importlib.import_module(name)
    if name != "jax":
        for part in ("nn", "optim"):
            importlib.import_module(f"{name}.{part}")
    imported = clock()
    before = resident_bytes()
    finish = module.synchronize if name == "gt" else lambda: None
    training = start(name, size)
    training.step()
    finish()
    first = clock()
    longest = 0.0
    for _ in range(steps - 1):
        at = clock()
        training.step()
        longest = max(longest, clock() - at)
    finish()
    figures = {
        "import_s": imported - begin,
        "first_step_s": first - imported,
        "longest_s": longest,
        # Above what the import alone holds: libraries differ in that, and it is not the training's.
        "memory_bytes": peak_bytes() - before,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
