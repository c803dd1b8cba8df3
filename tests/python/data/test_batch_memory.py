"""Batches lie in memory of the engine that computes with them: counted there from the start, and given back however it ends."""

import gc
import os
import signal

import numpy as np
import pytest
from isolated import run

import gt

ROWS, WIDTH, BATCH = 4096, 1024, 256
BATCH_BYTES = BATCH * WIDTH * 4


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    x = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    np.save(folder / "x.npy", x)
    return gt.data.NpyDataset({"x": str(folder / "x.npy")})


def loader_of(dataset, workers=2, **options):
    return gt.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=workers, generator=0, **options)


def live_bytes():
    """What the worker holds once everything recorded has run and nothing is on its way."""
    gc.collect()
    for _ in range(2):
        # Counted at the end of a window.
        gt.zeros(1).item()
        gt.synchronize()
    # Tests before this one may have used several workers.
    return sum(stats["live_bytes"] for stats in gt.debug.get_worker_stats().values())


@pytest.mark.transport
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_leaves_nothing(dataset, workers):
    loader = loader_of(dataset, workers)
    before = live_bytes()
    rows = []
    for batch in loader:
        # Both what was made and what becomes of it are right, while the memory of the last is used again.
        rows += batch["x"][:, 0].tolist()
        batch["x"].mul_(2)
        assert (batch["x"][:, 1] == batch["x"][:, 0] + 2).all().item()
    assert sorted(rows) == [i * WIDTH for i in range(ROWS)]
    del batch
    assert live_bytes() == before


# Beside the program; a worker behind a server makes batches itself.
HANDED_OVER = """
import gt

def worker():
    (stats,) = gt.debug.get_worker_stats().values()
    return stats

gt.zeros(1).item()
loader = gt.data.DataLoader(gt.data.NpyDataset({{"x": {file!r}}}), batch_size={batch}, shuffle=True, num_workers={workers})
before = worker()
for batch in loader:
    gt.synchronize()
    now = worker()
    assert now["live_bytes"] - before["live_bytes"] <= 3 * {batch_bytes}
    assert (now["plan_hits"], now["plan_misses"]) == (before["plan_hits"], before["plan_misses"])
    assert len(batch["x"]) == {batch}
assert now["total_instructions"] - before["total_instructions"] == len(loader)
assert (batch["x"][:, 1:] - batch["x"][:, :-1] == 1).all().item()
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_handed_over_at_once_and_without_a_plan(dataset, workers):
    """Every shape of a batch would be another plan; and what waits for a window to fill is memory that nobody can use again."""
    run(HANDED_OVER.format(file=dataset.files[0], batch=BATCH, workers=workers, batch_bytes=BATCH_BYTES))


@pytest.mark.transport
def test_batches_outlive_their_loader(dataset):
    before = live_bytes()
    loader = loader_of(dataset)
    steps = iter(loader)
    kept = [next(steps)["x"] for _ in range(4)]
    expected = [x.numpy().copy() for x in kept]
    del steps, loader
    gc.collect()
    # Memory that went back is used by others.
    for batch in loader_of(dataset):
        batch["x"].sum().item()
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(kept, expected))
    assert live_bytes() - before >= 4 * BATCH_BYTES
    del batch, kept
    assert live_bytes() == before


@pytest.mark.transport
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", ["break", "transform", "interrupt"])
def test_what_ends_early_leaves_nothing(dataset, workers, how):
    seen = []

    def transform(batch):
        seen.append(1)
        if len(seen) == 3 and how == "transform":
            raise ZeroDivisionError("a transform that raises")
        if len(seen) == 3 and how == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        return batch

    before = live_bytes()
    raises = {"transform": ZeroDivisionError, "interrupt": KeyboardInterrupt}
    loader = loader_of(dataset, workers, transforms=[transform])
    try:
        for number, batch in enumerate(loader):
            batch["x"].sum()
            if how == "break" and number == 3:
                break
    except raises.get(how, ()):
        pass
    else:
        assert how == "break"
    del loader, batch
    assert live_bytes() == before


def test_the_rows_are_the_same_with_no_room_for_batches(dataset):
    """What the engine has no room for is made elsewhere, and copied when there is some."""
    program = f"""
import gt
ds = gt.data.NpyDataset({{"x": {dataset.files[0]!r}}})
loader = gt.data.DataLoader(ds, batch_size={BATCH}, shuffle=True, num_workers=2, generator=0, memory_budget="64MiB")
total = 0.0
for batch in loader:
    total += batch["x"][:, :2].double().sum().item()
    del batch
print(total)
"""
    wide = run(program).stdout
    narrow = run(program, GT_MEMORY_LIMIT=str(3 * BATCH_BYTES)).stdout
    assert wide == narrow


def test_an_array_with_rows_larger_than_memory_ended_the_process(tmp_path):
    # A file that takes no room on the disk, and an address space that has none for its row.
    program = """
    import resource, sys
    import numpy as np
    import gt
    resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))
    row_bytes = 1 << 39
    with open(PATH, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (2, row_bytes)})
        file.truncate(file.tell() + 2 * row_bytes)
    loader = gt.data.DataLoader(gt.data.NpyDataset({"x": PATH}), batch_size=1)
    try:
        next(iter(loader))
    except gt.OutOfMemoryError as error:
        print("refused:", error)
    print("on", gt.ones(3).sum().item())
    """
    out = run(program.replace("PATH", repr(str(tmp_path / "x.npy")))).stdout
    assert "refused: out of memory: cannot allocate 549755813888 bytes" in out and "on 3.0" in out
