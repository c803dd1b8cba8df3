"""A typed program: `mypy --strict` accepts it, so the types that users see are right.

It fits a line to noisy points by gradient descent.
"""

from dataclasses import dataclass

import gt


@dataclass
class Line:
    """y = slope · x + offset."""

    slope: gt.Tensor
    offset: gt.Tensor

    def __call__(self, x: gt.Tensor) -> gt.Tensor:
        return self.slope * x + self.offset

    def parameters(self) -> list[gt.Tensor]:
        return [self.slope, self.offset]


def make_points(count: int, slope: float, offset: float) -> tuple[gt.Tensor, gt.Tensor]:
    """Points near the line with this slope and offset."""
    x = gt.linspace(-1.0, 1.0, count)
    return x, slope * x + offset + 0.05 * gt.randn(count)


def fit(line: Line, x: gt.Tensor, y: gt.Tensor, steps: int, rate: float = 0.2) -> float:
    """Moves the line towards the points; returns the last mean squared error."""
    error = 0.0
    for step in range(steps):
        loss = ((line(x) - y) ** 2).mean()
        loss.backward()
        with gt.no_grad():
            for parameter in line.parameters():
                assert parameter.grad is not None
                parameter -= rate * parameter.grad
                parameter.grad = None
        if step == steps - 1:
            error = float(loss.item())
    return error


def main() -> None:
    gt.manual_seed(0)
    x, y = make_points(100, slope=3.0, offset=-1.0)
    line = Line(slope=gt.zeros(1, requires_grad=True), offset=gt.zeros(1, requires_grad=True))
    error = fit(line, x, y, steps=100)
    shape: tuple[int, ...] = tuple(x.shape)
    slope, offset = float(line.slope.item()), float(line.offset.item())
    print(f"{shape[0]} points: y = {slope:.2f} x + {offset:.2f}, error {error:.4f}")
    assert abs(slope - 3.0) < 0.1 and abs(offset + 1.0) < 0.1, "the fit is far from the line"


if __name__ == "__main__":
    main()
