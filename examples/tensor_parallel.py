"""Trains a wide MLP whose weights are split over the workers: the first layer by columns, the second by rows.

    GT_CONFIG=examples/tensor_parallel.yaml python examples/tensor_parallel.py

Each worker has half of the hidden units; what the second layer gives is a sum of both halves, which costs one exchange in the
forward pass and one in the backward pass. Without the file the same script runs on one worker, with the same losses.
"""

import argparse
import os

import gt
import gt.nn.functional as F
from gt import nn, optim


class MLP(nn.Module):
    """Two layers. A weight of `nn.Linear` is [outputs, inputs], so axis 0 cuts its columns and axis 1 its rows."""

    def __init__(self, inputs, hidden, outputs):
        super().__init__()
        with gt.signal.context("columns"):
            self.up = nn.Linear(inputs, hidden)
        with gt.signal.context("rows"):
            self.down = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="gradient steps (default %(default)s)")
    parser.add_argument("--hidden", type=int, default=512, help="hidden units (default %(default)s)")
    args = parser.parse_args()
    if not os.environ.get("GT_CONFIG"):
        print(
            "GT_CONFIG is not set: everything runs on one worker. The file that splits it is examples/tensor_parallel.yaml"
        )

    gt.manual_seed(0)
    model = MLP(32, args.hidden, 8)
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)
    rule = gt.randn(32, 8) / 4
    losses = []
    for step in range(args.steps):
        x = gt.randn(64, 32)
        with gt.signal.context("tensor_parallel"):
            loss = F.mse_loss(model(x), (x @ rule).sin())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 20 == 0 or step == args.steps - 1:
            losses.append(loss.item())
            print(f"step {step:>4}  loss {losses[-1]:.5f}")
    print(f"loss {losses[0]:.5f} → {losses[-1]:.5f}")


if __name__ == "__main__":
    main()
