"""The rows of the table: what is measured, in which unit it is shown, and what GT aims at.

A row's `turns` gives one callable per contender; each takes a sample and returns seconds per unit of work.
"""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import workloads
from measure import clock, timed
from peers import Peer

Turn = Callable[[], float]


@dataclass
class Context:
    """What the rows are given, and what they leave for the report."""

    peers: dict[str, Peer]
    allow_compile: bool = True
    notes: list[str] = field(default_factory=list)
    # Figures of fresh processes, by peer, in the order they ran.
    processes: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    # The server that rows about the stream share, and what ends it and its clients.
    server: object = None
    closing: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True)
class Row:
    """One measure, taken from every contender."""

    name: str
    title: str
    turns: Callable[[Context], dict[str, Turn]]
    # Work in a unit, where a rate says more than a time: 2n³ for a product of n × n matrices.
    flops: float = 0.0
    # GT's time is to be at most this multiple of the time of `against`.
    target: float | None = None
    against: str = "torch"
    # Or at most this many seconds, whatever the others take.
    limit_s: float | None = None
    # How many times as many rounds it takes: more where both sides are processes that compete with others for the cores.
    rounds: int = 1
    # Whether `make bench-check` holds the ratio to the baseline.
    gated: bool = True


def require_agreement(row, values):
    """Times of programs that compute different things mean nothing."""
    reference = values.get("torch", next(iter(values.values())))
    for name, value in values.items():
        if not abs(value - reference) <= 1e-3 * max(abs(reference), 1e-3):
            raise RuntimeError(f"{row}: {name} computes {value}, the others {reference}")


def adds(requires_grad, with_run):
    """`x + y` from Python, the result dropped, without the cost of the loop itself."""
    bursts, burst = 20, 1000

    def empty_loop():
        start = clock()
        for _ in range(burst):
            pass
        return clock() - start

    def turns(cx):
        loop_s = min(empty_loop() for _ in range(20))

        def turn(peer):
            x, y = workloads.small_add(peer.module, requires_grad)

            def sample():
                total = 0.0
                for _ in range(bursts):
                    start = clock()
                    for _ in range(burst):
                        x + y
                    if with_run:
                        peer.synchronize()
                    total += clock() - start - loop_s
                    peer.synchronize()
                return total / (bursts * burst)

            return sample

        return {name: turn(peer) for name, peer in cx.peers.items()}

    return turns


def fused_chain(cx):
    """The chain on a million floats, read each time; PyTorch compiled as well, if it can compile here."""
    programs = {}
    for name, peer in cx.peers.items():
        x, y = workloads.chain_operands(peer.module)
        programs[name] = lambda x=x, y=y: workloads.chain(x, y).item()
    if "torch" in cx.peers and cx.allow_compile:
        try:
            start = clock()
            compiled = cx.peers["torch"].module.compile(workloads.chain)
            x, y = workloads.chain_operands(cx.peers["torch"].module)
            compiled(x, y)
            cx.notes.append(f"torch.compile: the chain took {clock() - start:.1f} s to compile")
            programs["torch.compile"] = lambda: compiled(x, y).item()
        except Exception as error:
            cx.notes.append(f"torch.compile: skipped, it does not work here ({type(error).__name__})")
    require_agreement("chain", {name: program() for name, program in programs.items()})
    return {name: lambda p=program: timed(p, 20, lambda: None) for name, program in programs.items()}


def sgemm(size, count):
    """Products back to back, one synchronize."""

    def turns(cx):
        programs = {name: workloads.matmuls(peer.module, size, count) for name, peer in cx.peers.items()}
        require_agreement(f"sgemm {size}", {n: (p() ** 2).mean().item() for n, p in programs.items()})
        return {
            name: lambda p=program, finish=cx.peers[name].synchronize: timed(p, 1, finish) / count
            for name, program in programs.items()
        }

    return turns


def transformer(cx):
    """Training steps of the placeholder transformer, one read each."""
    models = {name: workloads.PlaceholderTransformer(peer.module) for name, peer in cx.peers.items()}
    require_agreement("transformer", {n: [m.step() for _ in range(20)][-1] for n, m in models.items()})
    return {name: lambda m=m, s=cx.peers[name].synchronize: timed(m.step, 25, s) for name, m in models.items()}


def lookup_loop(cx):
    """A tensor made, looked up and added 240 times in a Python loop."""
    programs = {name: workloads.lookup_loop(peer.module) for name, peer in cx.peers.items()}
    require_agreement("lookup loop", {name: program() for name, program in programs.items()})
    return {name: lambda p=p, s=cx.peers[name].synchronize: timed(p, 5, s) for name, p in programs.items()}


def startup(key):
    """A figure of a fresh process. The processes are shared by the rows that read from them."""

    def turns(cx):
        def turn(name):
            # Rows ask in the same order, so the n-th sample of each row comes from the n-th process.
            runs, taken = cx.processes.setdefault(name, []), itertools.count()

            def sample():
                n = next(taken)
                while n >= len(runs):
                    runs.append(run_fresh(name))
                return runs[n][key]

            return sample

        return {name: turn(name) for name in cx.peers}

    return turns


def run_fresh(name):
    """Starts a process that imports a framework and trains with it, and reads its times."""
    script = Path(__file__).with_name("startup.py")
    done = subprocess.run([sys.executable, script, name], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{script.name} {name} failed:\n{done.stderr}")
    return json.loads(done.stdout)


ROWS = [
    Row("add", "one add on 4×4, recorded", adds(False, False), target=0.25),
    Row("add_grad", "the same with gradients", adds(True, False), target=0.25),
    Row("add_run", "one add on 4×4, recorded and run", adds(False, True)),
    Row("add_run_grad", "the same with gradients", adds(True, True)),
    Row("chain", "((x*y+x).tanh()*0.5+y).exp().sum(), 1M", fused_chain, target=0.6, against="torch.compile"),
    Row("sgemm_256", "sgemm 256³", sgemm(256, 100), flops=2 * 256**3, target=1.0),
    Row("sgemm_1024", "sgemm 1024³", sgemm(1024, 8), flops=2 * 1024**3, target=1.0),
    Row("transformer", "train step, placeholder transformer", transformer, target=0.5),
    Row("lookup_loop", "240 × (tensor([0]), look up, add)", lookup_loop, target=0.3),
    Row("import", "import", startup("import_s"), limit_s=0.1, gated=False),
    Row("first_op", "first op after import", startup("first_op_s"), limit_s=0.05, gated=False),
    Row("first_step", "first train step in a process", startup("first_step_s"), limit_s=0.5, gated=False),
    Row("later_step", "longest of 200 later train steps", startup("longest_s"), limit_s=0.05, gated=False),
]
