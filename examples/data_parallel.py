"""Trains a classifier with each batch split over the workers, and the model on all of them.

    GT_CONFIG=examples/data_parallel.yaml python examples/data_parallel.py

The model, the data and the loop know nothing of workers; the file says how what happens in the scope is split. Without it the
same script runs on one worker, with the same losses.
"""

import argparse
import os

import gt
import gt.nn.functional as F
from gt import nn, optim


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="gradient steps (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=256, help="points in a batch (default %(default)s)")
    args = parser.parse_args()
    if not os.environ.get("GT_CONFIG"):
        print(
            "GT_CONFIG is not set: everything runs on one worker. The file that splits it is examples/data_parallel.yaml"
        )

    gt.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 128), nn.Tanh(), nn.Dropout(0.1), nn.Linear(128, 10))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    rule = gt.randn(16, 10)
    losses = []
    for step in range(args.steps):
        x = gt.randn(args.batch_size, 16)
        classes = (x @ rule).argmax(dim=1)
        with gt.signal.context("data_parallel"):
            loss = F.cross_entropy(model(x), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 20 == 0 or step == args.steps - 1:
            losses.append(loss.item())
            print(f"step {step:>4}  loss {losses[-1]:.5f}")
    print(f"loss {losses[0]:.5f} → {losses[-1]:.5f}")


if __name__ == "__main__":
    main()
