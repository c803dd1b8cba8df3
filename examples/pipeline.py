"""Trains a deep MLP in two stages on different workers, which work on different parts of the batch at once.

    GT_CONFIG=examples/pipeline.yaml python examples/pipeline.py

`gt.pipeline` cuts the batch, passes the parts through the stages in 1F1B order and collects the gradients of the whole. Without
the file the same script runs on one worker, with the same losses.
"""

import argparse
import os

import gt
import gt.nn.functional as F
from gt import nn, optim


def block(inputs, width, layers):
    """Fully connected layers."""
    sizes = [inputs] + [width] * layers
    return nn.Sequential(*(part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.Tanh())))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="gradient steps (default %(default)s)")
    parser.add_argument("--micro-batches", type=int, default=4, help="parts of a batch (default %(default)s)")
    args = parser.parse_args()
    if not os.environ.get("GT_CONFIG"):
        print("GT_CONFIG is not set: everything runs on one worker. The file that splits it is examples/pipeline.yaml")

    gt.manual_seed(0)
    first, second, head = block(16, 64, 3), block(64, 64, 3), nn.Linear(64, 1)
    parameters = [p for part in (first, second, head) for p in part.parameters()]
    optimizer = optim.AdamW(parameters, lr=2e-3)
    step_of = gt.pipeline(
        [
            ("stage_1", first),
            ("stage_2", lambda hidden, wanted: F.mse_loss(head(second(hidden)), wanted)),
        ],
        args.micro_batches,
    )
    rule = gt.randn(16, 1) / 4
    losses = []
    for step in range(args.steps):
        x = gt.randn(128, 16)
        optimizer.zero_grad()
        loss = step_of(x, (x @ rule).sin())
        optimizer.step()
        if step % 20 == 0 or step == args.steps - 1:
            losses.append(loss.item())
            print(f"step {step:>4}  loss {losses[-1]:.5f}")
    print(f"loss {losses[0]:.5f} → {losses[-1]:.5f}")


if __name__ == "__main__":
    main()
