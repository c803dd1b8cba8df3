"""Measures one training loop on one worker, two, four and eight, and prints a table.

The model stays the same all along: `gt.gpu_workers` re-forms the group and carries its tensors over. With `GT_AUTO_SHARD=1`
everything is split, also what is outside of the scope.
"""

import argparse
import time

import gt
import gt.nn.functional as F
from gt import nn, optim


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8], help="(default 1 2 4 8)")
    parser.add_argument("--steps", type=int, default=20, help="gradient steps for each (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=512, help="points in a batch (default %(default)s)")
    parser.add_argument("--width", type=int, default=512, help="hidden units (default %(default)s)")
    args = parser.parse_args()

    # Over all workers there are, however many.
    gt.register_config("data_parallel", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    gt.manual_seed(0)
    width = args.width
    model = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
    optimizer = optim.SGD(model.parameters(), lr=1e-2)
    x, y = gt.randn(args.batch_size, 64), gt.randn(args.batch_size, 1)

    def train(steps):
        for _ in range(steps):
            with gt.signal.context("data_parallel"):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return loss.item()

    alone = None
    print(f"{'workers':>7}  {'seconds':>8}  {'steps/s':>8}  {'speedup':>7}  loss")
    for num_workers in args.workers:
        gt.gpu_workers(num_workers)
        train(2)  # The first steps of a group place what it needs.
        gt.synchronize()
        start = time.time()
        loss = train(args.steps)
        end = time.time()
        alone = alone or end - start
        print(
            f"{num_workers:>7}  {end - start:>8.3f}  {args.steps / (end - start):>8.1f}  {alone / (end - start):>6.2f}×  {loss:.5f}"
        )


if __name__ == "__main__":
    main()
