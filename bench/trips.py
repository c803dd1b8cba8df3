"""How much GT talks to its worker: counters of a training step, not times."""

from workloads import PlaceholderTransformer

WARM_UP, STEPS = 10, 50
# What is counted, and where `get_worker_stats` keeps it.
COUNTERS = {
    "round_trips": ("round_trips",),
    "windows": ("windows",),
    "instructions": ("total_instructions",),
    "plan-cache misses": ("compilation_stats", "cache_misses"),
}


def total(gt):
    """The counters, summed over workers."""
    sums = dict.fromkeys(COUNTERS, 0)
    for stats in gt.debug.get_worker_stats().values():
        for name, path in COUNTERS.items():
            value = stats
            for key in path:
                value = value[key]
            sums[name] += value
    return sums


def round_trips(peer):
    """Counts per step of the placeholder transformer, beside the one read a step that it writes."""
    model = PlaceholderTransformer(peer.module)
    for _ in range(WARM_UP):
        model.step()
    peer.synchronize()
    before = total(peer.module)
    for _ in range(STEPS):
        model.step()
    after = total(peer.module)
    return {"reads": 1.0} | {name: (after[name] - before[name]) / STEPS for name in COUNTERS}
