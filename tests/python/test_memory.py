"""Memory: the live set, frees, loops that never read, and what happens over the limit."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from isolated import LOOP, environment, run, worker

import gt

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(300)

# --- memory ----------------------------------------------------------------------------------------------------------


def test_a_thousand_steps_leave_the_live_set_alone():
    program = """
for i in range(10):
    step(0.01)
gt.synchronize()
ten = stats()["live_bytes"]
for i in range(990):
    step(0.01)
gt.synchronize()
print(ten, stats()["live_bytes"])
"""
    ten, thousand = map(int, run(LOOP + program).stdout.split())
    assert ten == thousand > 0


@pytest.mark.transport
def test_freed_bytes_return():
    gt.synchronize()
    before = worker()["live_bytes"]
    x = gt.ones(1000, 1000) + 1
    gt.synchronize()
    held = worker()["live_bytes"]
    assert held - before >= 4_000_000
    del x
    gt.synchronize()
    assert worker()["live_bytes"] <= before + 100_000


@pytest.mark.transport
def test_a_view_keeps_its_base_and_a_copy_does_not():
    gt.synchronize()
    before = worker()["live_bytes"]
    x = gt.ones(1000, 1000) + 1
    row = x[0].clone()
    del x
    gt.synchronize()
    assert worker()["live_bytes"] - before < 100_000
    assert row.sum().item() == 2000


@pytest.mark.transport
def test_a_module_that_changes_its_dtype_frees_the_old_elements():
    gt.synchronize()
    before = worker()["live_bytes"]
    layer = gt.nn.Linear(1000, 1000, bias=False).half()
    gt.synchronize()
    assert 2_000_000 <= worker()["live_bytes"] - before < 2_100_000
    for _ in range(20):
        layer.weight.data = layer.weight.data * 0.5
    gt.synchronize()
    assert worker()["live_bytes"] - before < 2_100_000


@pytest.mark.transport
def test_backward_releases_what_it_saved():
    gt.synchronize()
    before = worker()["live_bytes"]
    w = gt.ones(500, 500, requires_grad=True)
    y = w
    for _ in range(10):
        y = (y * 1.01).exp().log()
    loss = y.sum()
    loss.backward()
    w.grad = None
    del y
    gt.synchronize()
    assert worker()["live_bytes"] - before < 3_000_000
    del loss, w


@pytest.mark.transport
def test_memory_allocated_follows():
    gt.synchronize()
    before = gt.cuda.memory_allocated()
    x = gt.ones(1000, 1000) + 1
    gt.synchronize()
    assert gt.cuda.memory_allocated() - before >= 4_000_000
    assert gt.cuda.max_memory_allocated() >= gt.cuda.memory_allocated()
    del x


RSS = """
import gt
def rss():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
"""


@pytest.mark.parametrize(
    "body",
    [
        "x = x * 1.0001 + 0.1",
        "x = gt.ones(250_000) * 2",
        "x = gt.tensor(values)",
        "x = (x.requires_grad_() * 2).detach()",
        "x[i % 1000] = 1.0",
        "x = x + gt.rand(250_000)",
    ],
)
def test_a_loop_that_never_reads_stays_bounded(body):
    program = f"""
values = [0.5] * 1000
x = gt.ones(250_000)
for i in range(200):
    {body}
gt.synchronize()
start = rss()
peak = 0
for i in range(3000):
    {body}
    if i % 100 == 0:
        peak = max(peak, rss())
print(peak - start)
"""
    assert int(run(RSS + program, timeout=120).stdout) < 300


def test_recording_far_more_than_memory_holds():
    program = """
import gt
x = gt.ones(1 << 20)
for i in range(300):
    y = x * float(i)
assert y[0].item() == 299
"""
    run(program, GT_MEMORY_LIMIT=64 << 20)


OVER_LIMIT = """
import gt
small = gt.ones(1000)
holder = gt.ones(4 << 20) + 1
try:
    big = gt.ones(64 << 20) + small.sum()
    big.sum().item()
except RuntimeError as error:
    print(type(error).__name__, "|", str(error).replace("\\n", " "))
    assert isinstance(error, gt.OutOfMemoryError)
big = None
print("and on", (small * 2).sum().item(), holder[0].item())
"""


def test_an_allocation_over_the_limit_raises_and_the_program_goes_on(tmp_path):
    script = tmp_path / "over_limit.py"
    script.write_text(OVER_LIMIT)
    variables = environment(GT_MEMORY_LIMIT=64 << 20)
    done = subprocess.run([sys.executable, str(script)], env=variables, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    error, goes_on = done.stdout.splitlines()
    assert "over_limit.py:6" in error, "the line that failed"
    assert "over_limit.py:4" in error, "the largest holder"
    assert goes_on == "and on 2000.0 2.0"


def test_lines_that_hold_memory_are_named_once_with_their_sum(tmp_path):
    script = tmp_path / "holders.py"
    script.write_text("""
import gt
held = [gt.ones(1 << 20) + i for i in range(10)]
view = held[0].reshape(1024, 1024).t()
gt.synchronize()
try:
    (gt.ones(64 << 20) + 1).sum().item()
    gt.ones(64 << 20).cumsum(0)[-1].item()
except gt.OutOfMemoryError as error:
    print(str(error))
""")
    variables = environment(GT_MEMORY_LIMIT=64 << 20)
    done = subprocess.run([sys.executable, str(script)], env=variables, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "holders.py:3" in line]
    assert len(lines) == 1 and "40.0 MiB" in lines[0], done.stdout


EXPANDED = """
import pickle
import gt
x = gt.zeros(1).expand(2**44)
assert x.shape == (2**44,) and "0." in str(x)
"""


@pytest.mark.parametrize(
    "read",
    [
        "x.numpy()",
        "x.tolist()",
        "np.asarray(x)",
        "x.__dlpack__()",
        "pickle.dumps(x)",
        "gt.save(x, path)",
        "x.contiguous().sum().item()",
        "gt.tensor(np.broadcast_to(np.float32(0), (2**44,)))",
        "gt.from_numpy(np.broadcast_to(np.float32(0), (2**44,)))",
        "gt.from_dlpack(np.broadcast_to(np.float32(0), (2**44,)).view())",
        "gt.zeros(4)[gt.zeros(1, dtype=gt.int64).expand(2**44)].sum().item()",
        "gt.zeros(4).scatter_add(0, gt.zeros(1, dtype=gt.int64).expand(2**44), x).sum().item()",
        "gt.nn.functional.scaled_dot_product_attention(q, q, gt.zeros(1, 1, 1, 4)).sum().item()",
    ],
)
def test_an_expanded_tensor_that_is_read_raises_at_once(read, tmp_path):
    program = f"""
import numpy as np
path = {str(tmp_path / "x.pt")!r}
q = gt.zeros(1, 1, 1, 1).expand(1, 1, 1, 2**44)
before = rss()
try:
    {read}
    raise SystemExit("it was read")
except (MemoryError, BufferError) as error:
    print(type(error).__name__)
assert rss() - before < 200, rss() - before
print(gt.ones(3).sum().item())
"""
    lines = run(RSS + EXPANDED + program, timeout=60, GT_MEMORY_LIMIT=1 << 30).stdout.split()
    assert lines[0] in ("OutOfMemoryError", "MemoryError", "_ArrayMemoryError", "BufferError") and lines[1] == "3.0"


# Requests for memory that end the process if there is none, where the size of a tensor or of an array in a file is asked for. Those
# ask `vec_for_bytes` or the engine's allocator. In the engine itself clippy denies all such requests.
MAY_END_THE_PROCESS = re.compile(
    r"(with_capacity|\.reserve|\.reserve_exact|\.resize)\(.*(bytes|numel|storage)|vec!\[[^\];]*; .*(bytes|numel|storage)"
)
ASKED_BEFORE = {
    "crates/data/src/arrays/mod.rs": "let mut words = vec![0u64; len_bytes.div_ceil(8)];",
    "crates/client/src/host.rs": "let mut bytes = Vec::with_capacity(ty.bytes());",  # of a slice in the caller's memory
    "crates/data/src/safetensors_header.rs": "let mut text = vec![0; header_bytes as usize];",  # limited, and no tensor's
    "crates/python/src/safetensors.rs": "let mut bytes = vec![0; len_bytes];",
}


def test_memory_of_a_size_that_tensors_name_was_asked_for_where_it_cannot_be_refused():
    found = []
    for crate in ("client", "data", "gt", "net", "python", "remote", "serve", "shard", "worker"):
        for path in sorted((ROOT / "crates" / crate / "src").glob("**/*.rs")):
            if path.stem == "tests" or path.stem.endswith("_tests"):
                continue
            name = str(path.relative_to(ROOT))
            # Tests stand at the end of a file.
            lines = path.read_text().split("#[cfg(test)]\nmod ")[0].splitlines()
            asks = [line.strip() for line in lines if MAY_END_THE_PROCESS.search(line) and "try_reserve" not in line]
            found += [f"{name}: {line}" for line in asks if ASKED_BEFORE.get(name) != line]
    assert not found, "use gt_ir::vec_for_bytes:\n" + "\n".join(found)


def test_an_update_that_runs_out_of_memory_leaves_the_weights():
    program = """
import gt
w = gt.ones(1000)
try:
    w += gt.ones(64 << 20).sum() + gt.rand(64 << 20).sum()
    gt.synchronize()
except RuntimeError as error:
    print("raised")
print(w.sum().item())
"""
    assert run(program, GT_MEMORY_LIMIT=64 << 20).stdout.split() == ["raised", "1000.0"]


# --- errors never destroy state --------------------------------------------------------------------------------------


@pytest.mark.transport
def test_training_goes_on_from_the_weights_before_a_bad_step():
    def step(table, scale, index, lr=0.5):
        loss = (table[index] * scale).square().sum()
        loss.backward()
        with gt.no_grad():
            for p in (table, scale):
                p -= lr * p.grad
                p.grad = None
        return loss

    for _ in range(50):
        table = gt.ones(4, 3, requires_grad=True)
        scale = gt.full((3,), 0.5, requires_grad=True)
        step(table, scale, gt.tensor([0, 1])).item()
        kept = table.tolist(), scale.tolist()
        with pytest.raises(IndexError) as error:
            step(table, scale, gt.tensor([0, 9])).item()
        assert "test_memory.py" in str(error.value)
        assert (table.tolist(), scale.tolist()) == kept
        loss = step(table, scale, gt.tensor([2, 3])).item()
        assert loss > 0 and table.tolist() != kept[0]
        twin, twin_scale = gt.tensor(kept[0], requires_grad=True), gt.tensor(kept[1], requires_grad=True)
        assert step(twin, twin_scale, gt.tensor([2, 3])).item() == loss
        assert table.tolist() == twin.tolist() and scale.tolist() == twin_scale.tolist()


@pytest.mark.transport
def test_bad_step_found_only_at_synchronize():
    w = gt.ones(3, requires_grad=True)
    w[gt.tensor([5])].sum().backward()
    with gt.no_grad():
        w -= w.grad
    w.grad = None
    with pytest.raises(IndexError):
        gt.synchronize()
    gt.synchronize()
    assert w.tolist() == [1, 1, 1]


def test_a_loop_that_replaces_a_large_tensor_held_two_of_them():
    program = """
import gt
for _ in range(6):
    x = gt.ones(1024, 1024, 150)
    x.sum().item()
    del x
print("done")
"""
    assert run(program, GT_MEMORY_LIMIT="1GiB").stdout == "done\n"
