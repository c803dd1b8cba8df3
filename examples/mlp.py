"""Trains a small classifier on three interleaved spirals, and shows how it went.

Everything below is ordinary eager code. GT records it and runs it behind the script's back; only the reads
(`item`, `float`) wait. Run it with `python examples/mlp.py --help`.
"""

import argparse
import math
import sys
import time

import gt
import gt.nn.functional as F
from display import Progress, loss_curve
from gt import nn, optim

CLASSES = 3
TURNS = 1.25
LEARNING_RATE = 0.1
MOMENTUM = 0.9
# A loss is read every so many steps: often enough for a curve, seldom enough for the recorder to run ahead.
READ_EVERY = 5


def make_spirals(points, noise):
    """`points` per class along arms that wind around each other: coordinates [n, 2] and classes [n]."""
    coordinates, classes = [], []
    radius = gt.linspace(0.05, 1.0, points)
    for arm in range(CLASSES):
        angle = radius * (2 * math.pi * TURNS) + arm * (2 * math.pi / CLASSES)
        angle = angle + noise * gt.randn(points)
        coordinates.append(gt.stack([radius * gt.cos(angle), radius * gt.sin(angle)], dim=1))
        classes.append(gt.full((points,), arm, dtype=gt.int64))
    return gt.cat(coordinates), gt.cat(classes)


def make_model(hidden):
    """Three fully connected layers, started for ReLUs."""
    model = nn.Sequential(
        nn.Linear(2, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, CLASSES),
    )
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return model


def accuracy(model, x, classes):
    """The share of points whose largest logit is that of their class."""
    with gt.no_grad():
        right = model(x).argmax(dim=1) == classes
        return float(right.float().mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="gradient steps (default %(default)s)")
    parser.add_argument("--hidden", type=int, default=64, help="width of the two hidden layers (default %(default)s)")
    parser.add_argument("--points", type=int, default=200, help="points of each class (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of data and weights (default %(default)s)")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below")
    args = parser.parse_args()
    if min(args.steps, args.hidden, args.points) < 1:
        parser.error("--steps, --hidden and --points must be at least 1")

    gt.manual_seed(args.seed)
    x, classes = make_spirals(args.points, noise=0.12)
    test_x, test_classes = make_spirals(args.points, noise=0.12)
    model = make_model(args.hidden)
    optimizer = optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"{CLASSES} spirals, {x.shape[0]} points; {weights} weights; {args.steps} steps")

    progress, losses = Progress(args.steps), []
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        loss = F.cross_entropy(model(x), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % READ_EVERY == 0 or step == args.steps:
            losses.append(loss.item())
            progress.show(step, losses[-1])
    seconds = time.perf_counter() - start

    print(f"\n  loss\n{loss_curve(losses)}\n")
    reached = accuracy(model, test_x, test_classes)
    print(f"{seconds:.2f} s, {args.steps / seconds:.0f} steps/s")
    print(f"accuracy: {accuracy(model, x, classes):.1%} on its own points, {reached:.1%} on new ones")
    if reached < args.min_accuracy:
        sys.exit(f"the accuracy on new points is below {args.min_accuracy:.1%}")


if __name__ == "__main__":
    main()
