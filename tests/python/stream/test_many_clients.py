"""Many scripts share workers, and none of them notices."""

import time

import pytest
from cluster import Cluster, eventually, resident_bytes
from isolated import TRAIN

pytestmark = pytest.mark.timeout(120)

QWEN = """
import gt, hashlib, struct
gt.manual_seed(SEED)
model = gt.models.Qwen3ForCausalLM(gt.models.Qwen3Config(
    vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8,
))
optimizer = gt.optim.AdamW(model.parameters(), lr=3e-3)
tokens = gt.randint(0, 61, (4, 17))
losses = []
for step in range(6):
    loss = model(tokens, labels=tokens).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
values = [l.item() for l in losses]
for parameter in model.parameters():
    values += parameter.flatten().tolist()
print(hashlib.sha256(struct.pack(f"{len(values)}d", *values)).hexdigest(), values[0], values[5])
"""


def programs() -> list[str]:
    """Four of each kind, with a seed of their own each."""
    mlps = [TRAIN.replace("manual_seed(1)", f"manual_seed({seed})") for seed in range(4)]
    return mlps + [QWEN.replace("SEED", str(seed)) for seed in range(4)]


def test_eight_clients_at_once_have_the_results_they_have_alone(cluster: Cluster):
    alone = [cluster.run(program) for program in programs()]
    assert len(set(alone)) == 8, "the programs are different"
    server = cluster.server(workers=2)
    clients = [cluster.client(program, server.address) for program in programs()]
    together = [client.succeeded(within=90) for client in clients]
    assert together == alone
    # Workers tell how they are doing once a second.
    both = lambda: all(w["instructions"] > 0 for w in cluster.wait_for_workers(server, 2))  # noqa: E731
    eventually("both workers had sessions", both)
    cluster.wait_for_sessions(server, 0)
    cluster.wait_for_memory(server, 0)


IDLE = """
import gt, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
x = gt.ones(64)
assert x.sum().item() == 64
print("here", flush=True)
signal.sigwait({signal.SIGTERM})
assert (x + 1).sum().item() == 128
"""

BUSY = """
import gt, time
gt.manual_seed(SEED)
w = (gt.randn(64, 64) * 0.1).requires_grad_()
x, t = gt.randn(32, 64), gt.randn(32, 64)
end, steps = time.monotonic() + SECONDS, 0
while time.monotonic() < end:
    loss = ((x @ w).tanh() - t).square().mean()
    loss.backward()
    with gt.no_grad():
        w -= 0.05 * w.grad
        w.grad = None
    steps += 1
    if steps % 20 == 0:
        assert loss.item() < 10
        print(steps, flush=True)
"""


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_64_idle_and_16_busy_clients_leave_memory_flat(cluster: Cluster):
    server = cluster.server(workers=2)
    pids = [server.pid, *server.children()]
    idle = [cluster.client(IDLE, server.address, name="idle") for _ in range(64)]
    for client in idle:
        client.wait_for("here", within=120)
    busy = [
        cluster.client(BUSY.replace("SEED", str(k)).replace("SECONDS", "120"), server.address, name="busy")
        for k in range(16)
    ]
    for client in busy:
        client.wait_for("20", within=60)
    time.sleep(20)
    settled = [resident_bytes(pid) for pid in pids]
    peak = list(settled)
    while any(client.is_running() for client in busy):
        peak = [max(p, resident_bytes(pid)) for p, pid in zip(peak, pids)]
        time.sleep(2)
    for client in busy:
        client.succeeded()
    for before, after in zip(settled, peak):
        assert after < before * 1.25 + (16 << 20), f"it grew: {settled} became {peak}"
    for client in idle:
        client.popen.terminate()
    for client in idle:
        client.succeeded(within=60)
    eventually("all sessions are gone", lambda: not cluster.status(server)["sessions"])
    cluster.wait_for_memory(server, 0)
