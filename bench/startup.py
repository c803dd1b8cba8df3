"""Times a fresh process: import, first op, first training step, the longest step after it. Prints JSON.

Usage: startup.py gt|torch
"""

import importlib
import json
import sys
import time

clock = time.perf_counter


def main():
    start = clock()
    T = importlib.import_module(sys.argv[1])
    imported = clock()
    numpy_came_with_it = "numpy" in sys.modules
    (T.ones(4, 4) + 1.0).sum().item()
    first_op = clock()

    # NumPy makes the weights; its import is not the framework's time.
    from workloads import PlaceholderTransformer

    before = clock()
    model = PlaceholderTransformer(T)
    model.step()
    first_step = clock()
    longest = 0.0
    for _ in range(200):
        begin = clock()
        model.step()
        longest = max(longest, clock() - begin)
    figures = {
        "import_s": imported - start,
        "first_op_s": first_op - imported,
        "first_step_s": first_step - before,
        "longest_s": longest,
        "imports_numpy": numpy_came_with_it,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
