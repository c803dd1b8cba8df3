"""Trains a small convolutional network to tell circles, squares and triangles apart.

The images are drawn by GT itself: a shape of random size, place, turn and brightness, under noise. The network has what
such networks have: convolutions, batch norm, pooling, dropout. Run it with `python examples/cnn.py --help`.
"""

import argparse
import math
import sys
import time

import gt
import gt.nn.functional as F
from display import Progress, loss_curve, rate
from gt import nn, optim

SHAPES = ("circle", "square", "triangle")
SIDE = 24
NOISE = 0.1
LEARNING_RATE = 3e-3
READ_EVERY = 4


def distance_to_edge(kind, x, y, size):
    """How far a point lies outside of a shape around the origin; negative inside."""
    if kind == "circle":
        return (x * x + y * y).sqrt() - size
    if kind == "square":
        return gt.maximum(x.abs(), y.abs()) - size * 0.85
    sides = [x * math.cos(a) + y * math.sin(a) for a in (math.pi / 2, math.pi * 7 / 6, math.pi * 11 / 6)]
    return gt.maximum(gt.maximum(sides[0], sides[1]), sides[2]) - size * 0.65


def make_images(count):
    """`count` images [n, 1, SIDE, SIDE] in random order, and which shape each shows."""
    kinds = gt.arange(count) % len(SHAPES)
    axis = gt.linspace(-1.0, 1.0, SIDE)
    rows, columns = gt.meshgrid(axis, axis, indexing="ij")

    def one_per_image(low, high):
        return (gt.rand(count) * (high - low) + low).view(-1, 1, 1)

    x, y = columns - one_per_image(-0.25, 0.25), rows - one_per_image(-0.25, 0.25)
    turn, size = one_per_image(0.0, 2 * math.pi), one_per_image(0.45, 0.65)
    turned_x, turned_y = x * turn.cos() + y * turn.sin(), y * turn.cos() - x * turn.sin()
    outside = gt.stack([distance_to_edge(kind, turned_x, turned_y, size) for kind in SHAPES])
    own = gt.where(
        (kinds == 0).view(-1, 1, 1), outside[0], gt.where((kinds == 1).view(-1, 1, 1), outside[1], outside[2])
    )
    # The edge is as wide as a pixel, the brightness differs.
    images = gt.sigmoid(-own * SIDE) * one_per_image(0.6, 1.2) + NOISE * gt.randn(count, SIDE, SIDE)
    order = gt.randperm(count)
    return images.unsqueeze(1)[order], kinds[order]


class ShapeNet(nn.Module):
    """Two blocks of convolution, norm and pooling, then two fully connected layers."""

    def __init__(self, channels):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, kernel_size=5, padding=2, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classify = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(2 * channels * (SIDE // 4) ** 2, 64),
            nn.ReLU(),
            nn.Linear(64, len(SHAPES)),
        )

    def forward(self, images):
        return self.classify(self.features(images))


def accuracy(model, images, kinds):
    """The share of images whose shape the model names."""
    model.eval()
    with gt.no_grad():
        right = model(images).argmax(dim=1) == kinds
        share = float(right.float().mean())
    model.train()
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=3000, help="to train on (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the images (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=50, help="images in a step (default %(default)s)")
    parser.add_argument("--channels", type=int, default=8, help="of the first convolution (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of images and weights (default %(default)s)")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below")
    args = parser.parse_args()
    if min(args.images, args.epochs, args.batch_size, args.channels) < 1:
        parser.error("--images, --epochs, --batch-size and --channels must be at least 1")
    if not 2 <= args.batch_size <= args.images:
        parser.error("--batch-size must be at least 2 (batch norm needs it) and at most --images")

    gt.manual_seed(args.seed)
    images, kinds = make_images(args.images)
    test_images, test_kinds = make_images(max(args.images // 3, len(SHAPES)))
    model = ShapeNet(args.channels)
    # What is left over is too little for a batch of the same shape.
    batches = args.images // args.batch_size
    total = args.epochs * batches
    optimizer = optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"{args.images} images of {SIDE}×{SIDE}: {', '.join(SHAPES)}; {weights} weights; {total} steps")

    progress, losses = Progress(total), []
    start, step = time.perf_counter(), 0
    for _ in range(args.epochs):
        order = gt.randperm(args.images)
        for chosen in order[: batches * args.batch_size].split(args.batch_size):
            loss = F.cross_entropy(model(images[chosen]), kinds[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % READ_EVERY == 0 or step == total:
                losses.append(loss.item())
                speed = step * args.batch_size / (time.perf_counter() - start)
                progress.show(step, losses[-1], rate(speed, " images/s"))
    seconds = time.perf_counter() - start

    print(f"\n  loss\n{loss_curve(losses)}\n")
    reached = accuracy(model, test_images, test_kinds)
    print(f"{seconds:.2f} s, {total * args.batch_size / seconds:.0f} images/s")
    print(f"accuracy: {accuracy(model, images, kinds):.1%} on its own images, {reached:.1%} on new ones")
    if reached < args.min_accuracy:
        sys.exit(f"the accuracy on new images is below {args.min_accuracy:.1%}")


if __name__ == "__main__":
    main()
