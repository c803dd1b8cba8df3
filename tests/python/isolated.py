"""Running a program in a process of its own, because GT's variables are read at the first op."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
from typing import Any

import gt


def environment(**variables: Any) -> dict[str, str]:
    """This process's variables with these set and every other GT_ variable unset."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GT_")}
    return kept | {k: str(v) for k, v in variables.items()}


def run(program: str, *, timeout: float = 60, check: bool = True, **variables: Any) -> subprocess.CompletedProcess[str]:
    """What the program printed, with these variables set."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environment(**variables), timeout=timeout, capture_output=True, text=True)
    if check:
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def worker() -> dict[str, Any]:
    """The statistics of the session's worker; sums, if a test before this one in the process used several workers."""
    first, *others = gt.debug.get_worker_stats().values()
    return functools.reduce(_added, others, first)


def _added(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    return {key: a[key] + b[key] if isinstance(a[key], int) else a[key] for key in a}


TRAIN = """
import gt, hashlib, struct
gt.manual_seed(1)
w1 = (gt.randn(33, 65) * 0.2).requires_grad_()
b1 = gt.zeros(65, requires_grad=True)
w2 = (gt.randn(65, 10) * 0.2).requires_grad_()
x, target = gt.randn(70, 33), gt.randint(0, 10, (70,))
losses = []
for step in range(8):
    hidden = (x @ w1 + b1).tanh()
    hidden = hidden * (gt.rand(70, 65) > 0.1) / 0.9
    logits = hidden @ w2
    loss = -logits.log_softmax(1)[gt.arange(70), target].mean() + 1e-3 * (w1.square().sum() + w2.abs().sum())
    loss.backward()
    with gt.no_grad():
        for p in (w1, b1, w2):
            p -= 0.1 * p.grad
            p.grad = None
    if step % 3 == 0:
        losses.append(loss.item())
half = (w1.half() * 1.5 + 0.25).exp().sum(0)
brain = (w2.bfloat16() / 3).softmax(0).cumsum(1)
order = w1.sort(1).values[:, ::7].var(0)
values = []
for t in (w1, b1, w2, half.float(), brain.float(), order, gt.rand(101), gt.randn(37), gt.randperm(50)):
    values += t.flatten().tolist()
values += losses
print(hashlib.sha256(struct.pack(f"{len(values)}d", *values)).hexdigest(), losses[-1])
"""

# The beginning of programs that train and look at the worker.
LOOP = """
import gt
gt.manual_seed(0)
w1 = (gt.randn(20, 30) * 0.2).requires_grad_()
w2 = (gt.randn(30, 5) * 0.2).requires_grad_()
x, t = gt.randn(16, 20), gt.randint(0, 5, (16,))
def step(lr):
    loss = -((x @ w1).relu() @ w2).log_softmax(1)[gt.arange(16), t].mean()
    loss.backward()
    with gt.no_grad():
        for p in (w1, w2):
            p -= lr * p.grad
            p.grad = None
    return loss
def stats():
    (s,) = gt.debug.get_worker_stats().values()
    return s
"""
