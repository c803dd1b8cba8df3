"""Trains a small classifier on three interleaved spirals, and shows how it went.

Everything below is ordinary eager code. GT records it and runs it behind the script's back; only the reads
(`item`, `float`) wait. Run it with `make demo`, or with `python examples/mlp.py --help`.
"""

import argparse
import itertools
import math
import sys
import time

import gt

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


def make_layers(sizes):
    """Weights and biases for a chain of fully connected layers."""
    parameters = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weight = gt.randn(fan_in, fan_out) * math.sqrt(2.0 / fan_in)
        parameters += [weight.requires_grad_(), gt.zeros(fan_out, requires_grad=True)]
    return parameters


def forward(parameters, x):
    """The logits of each point."""
    *hidden, weight, bias = parameters
    for w, b in zip(hidden[::2], hidden[1::2]):
        x = gt.relu(x @ w + b)
    return x @ weight + bias


def cross_entropy(logits, classes):
    """The mean of minus the log-probability that each point's own class gets."""
    return -gt.log_softmax(logits, dim=-1).gather(1, classes.unsqueeze(1)).mean()


def accuracy(parameters, x, classes):
    """The share of points whose largest logit is that of their class."""
    with gt.no_grad():
        right = forward(parameters, x).argmax(dim=1) == classes
        return float(right.float().mean())


def descend(parameters, velocities):
    """One step of gradient descent with momentum, in place; takes the gradients away."""
    with gt.no_grad():
        for parameter, velocity in zip(parameters, velocities):
            velocity *= MOMENTUM
            velocity += parameter.grad
            parameter -= LEARNING_RATE * velocity
            parameter.grad = None


class Progress:
    """A bar on a terminal; elsewhere a line for every tenth of the way."""

    WIDTH = 40

    def __init__(self, total, stream=sys.stderr):
        self.total, self.stream = total, stream
        self.is_terminal = stream.isatty()
        self.tenths = 0

    def show(self, done, loss):
        if self.is_terminal:
            filled = self.WIDTH * done // self.total
            bar = "█" * filled + "░" * (self.WIDTH - filled)
            self.stream.write(f"\r  {bar} {done:>{len(str(self.total))}}/{self.total}  loss {loss:.4f} ")
            if done == self.total:
                self.stream.write("\n")
        elif 10 * done // self.total > self.tenths:
            self.tenths = 10 * done // self.total
            self.stream.write(f"  step {done}/{self.total}  loss {loss:.4f}\n")
        self.stream.flush()


def loss_curve(losses, width=60, height=8):
    """The losses as text, on a logarithmic scale: one column for some steps, one row for a range of losses."""
    columns = []
    for column in range(min(width, len(losses))):
        start = column * len(losses) // min(width, len(losses))
        stop = (column + 1) * len(losses) // min(width, len(losses))
        columns.append(math.log10(max(sum(losses[start:stop]) / (stop - start), 1e-6)))
    low, high = min(columns), max(columns)
    scale = (height - 1) / (high - low) if high > low else 0.0
    lines = []
    for row in range(height - 1, -1, -1):
        edge = 10 ** (low + row / scale) if scale else 10**low
        marks = "".join("•" if round((c - low) * scale) == row else " " for c in columns)
        lines.append(f"  {edge:8.4f} ┤{marks}".rstrip())
    lines.append("  " + " " * 9 + "└" + "─" * len(columns))
    return "\n".join(lines)


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
    parameters = make_layers([2, args.hidden, args.hidden, CLASSES])
    velocities = [gt.zeros_like(parameter) for parameter in parameters]
    weights = sum(parameter.numel() for parameter in parameters)
    print(f"{CLASSES} spirals, {x.shape[0]} points; {weights} weights; {args.steps} steps")

    progress, losses = Progress(args.steps), []
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        loss = cross_entropy(forward(parameters, x), classes)
        loss.backward()
        descend(parameters, velocities)
        if step % READ_EVERY == 0 or step == args.steps:
            losses.append(loss.item())
            progress.show(step, losses[-1])
    seconds = time.perf_counter() - start

    print(f"\n  loss\n{loss_curve(losses)}\n")
    reached = accuracy(parameters, test_x, test_classes)
    print(f"{seconds:.2f} s, {args.steps / seconds:.0f} steps/s")
    print(f"accuracy: {accuracy(parameters, x, classes):.1%} on its own points, {reached:.1%} on new ones")
    if reached < args.min_accuracy:
        sys.exit(f"the accuracy on new points is below {args.min_accuracy:.1%}")


if __name__ == "__main__":
    main()
