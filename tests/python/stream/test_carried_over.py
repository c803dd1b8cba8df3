"""Values that cannot be carried over to another session: whoever reads them learns why."""

from pathlib import Path

import pytest
from cluster import Cluster

pytestmark = pytest.mark.timeout(120)

FAILED = """
import gt, re
internal = re.compile(r"rejected the recorded|internal error in GT|tensor %")
kept = gt.arange(4)
bad = gt.ones(3)[gt.tensor([9])]
later = bad + 1

def read(name, f):
    try:
        print(name, f())
    except (IndexError, RuntimeError) as error:
        assert not internal.search(str(error)), error
        print(name, type(error).__name__, str(error).partition(" (")[0])

read("before", bad.tolist)
"""
READS = """
read("bad", bad.tolist)
read("later", later.tolist)
read("new", lambda: (bad * 2).tolist())
read("both", lambda: ((bad * 2).sum().item(), 0)[1])
read("kept", lambda: (kept + 1).tolist())
both = [kept * 2, bad * 2]
read("beside", both[0].tolist)
with gt.no_grad():
    w = gt.zeros(2)
    w += 1
read("updated", w.tolist)
del bad, later, both
read("after", lambda: (kept * 3).tolist())
gt.synchronize()
"""
INDEX = "IndexError index 9 is out of bounds for dimension 0 with size 3"
EXPECTED = [
    f"before {INDEX}",
    *[f"{name} {INDEX}" for name in ("bad", "later", "new", "both")],
    "kept [1, 2, 3, 4]",
    "beside [0, 2, 4, 6]",
    "updated [1.0, 1.0]",
    "after [0, 3, 6, 9]",
]


@pytest.mark.parametrize("change", ["gt.gpu_workers(2)", "gt.gpu_workers(2); gt.gpu_workers(1)", "gt.gpu_workers(3)"])
def test_a_failed_tensor_says_why_after_the_workers_changed(cluster: Cluster, change):
    assert cluster.run(FAILED + change + READS).splitlines() == EXPECTED


@pytest.mark.parametrize("times", [1, 2])
def test_a_failed_tensor_says_why_on_another_server(cluster: Cluster, times):
    servers = [cluster.server(workers=1) for _ in range(times)]
    change = "\n".join(f'gt.connect("{server.address}")' for server in servers)
    assert cluster.run(FAILED + change + READS).splitlines() == EXPECTED


def test_a_tensor_of_a_server_that_was_left_says_so_on_the_next(cluster: Cluster):
    first, second = cluster.server(workers=1), cluster.server(workers=1)
    program = f"""
    import gt
    gt.connect("{first.address}")
    x = gt.ones(3)
    gt.disconnect()
    here = gt.ones(2) * 5

    def read(f):
        try:
            print(f())
        except gt.WorkerLost as error:
            print(error)

    read(x.tolist)
    gt.connect("{second.address}")
    read(x.tolist)
    read((x + 1).tolist)
    read(here.tolist)
    gt.disconnect()
    gt.gpu_workers(2)
    read((x * 2).tolist)
    read((here * 2).tolist)
    """
    lines = cluster.run(program).splitlines()
    left = [
        f"the tensor belongs to the session with the server at {address}, which gt.disconnect() closed"
        for address in (first.address, second.address)
    ]
    expected = [left[0], left[0], left[0], "[5.0, 5.0]", left[0], left[1]]
    assert len(lines) == len(expected), lines
    assert all(line.startswith(said) for line, said in zip(lines, expected)), lines


def test_batches_need_no_plans_after_a_server_was_left(cluster: Cluster, tmp_path: Path):
    server = cluster.server(workers=1)
    program = f"""
    import gt
    import numpy as np
    if {{leaves}}:
        gt.connect("{server.address}")
        x = gt.ones(3)
        gt.disconnect()
    gt.ones(2).tolist()
    path = {str(tmp_path / "rows.parquet")!r}
    gt.data.write_parquet(path, {{{{"v": np.arange(400)}}}})
    def planned():
        return sum(stats["plan_misses"] for stats in gt.debug.get_worker_stats().values())
    before = planned()
    for batch in gt.data.DataLoader(gt.data.ParquetDataset(path), batch_size=40):
        assert batch["v"].shape == (40,)
    print(planned() - before)
    """
    assert [cluster.run(program.format(leaves=leaves)) for leaves in (False, True)] == ["0\n", "0\n"]
