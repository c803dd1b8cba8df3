"""Random programs, run on GT and on NumPy side by side: views of views, in-place writes, fused chains, reads in between.

RANDOM-PROGRAM-1: a program is a function of its seed. A failing seed is a regression test by itself.
RANDOM-PROGRAM-2: every step keeps values in a range where one rounding cannot grow into a difference that matters.
"""

from __future__ import annotations

import numpy as np
import pytest
from parity import array

import gt

pytestmark = pytest.mark.transport


class Pair:
    """The same tensor on both sides."""

    def __init__(self, tensor, values):
        # NumPy hands out scalars where GT hands out 0-d tensors; a scalar has no views.
        self.tensor, self.values = tensor, np.asarray(values)

    def check(self, note):
        assert tuple(self.tensor.shape) == self.values.shape, note
        np.testing.assert_allclose(array(self.tensor), self.values, rtol=1e-9, atol=1e-9, err_msg=note)


def squash(x):
    return x / (1 + abs(x))


class Machine:
    """Draws steps and runs each on both sides."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.pairs = [self.fresh() for _ in range(3)]
        self.log = []

    def fresh(self, shape=None):
        if shape is None:
            shape = tuple(int(n) for n in self.rng.integers(1, 6, self.rng.integers(1, 4)))
        values = np.asarray(self.rng.uniform(-2, 2, shape))
        return Pair(gt.tensor(values), values.copy())

    def any(self):
        return self.pairs[self.rng.integers(len(self.pairs))]

    def keep(self, tensor, values):
        self.pairs.append(Pair(tensor, values))
        if len(self.pairs) > 8:
            del self.pairs[self.rng.integers(len(self.pairs))]

    def number(self):
        return float(np.round(self.rng.uniform(-2, 2), 3))

    def partner(self, shape):
        """A tensor that broadcasts against a shape: an old one if there is one, else a new one."""
        fitting = []
        for pair in self.pairs:
            try:
                if np.broadcast_shapes(pair.values.shape, shape) == tuple(shape):
                    fitting.append(pair)
            except ValueError:
                pass
        if fitting and self.rng.random() < 0.7:
            return fitting[self.rng.integers(len(fitting))]
        drop = int(self.rng.integers(0, len(shape) + 1)) if shape else 0
        return self.fresh(tuple(1 if self.rng.random() < 0.3 else n for n in shape[drop:]) or (1,) * bool(shape))

    def slices(self, shape):
        index = []
        for extent in shape:
            kind = self.rng.integers(4)
            if kind == 0:
                index.append(slice(None))
            elif kind == 1:
                index.append(int(self.rng.integers(-extent, extent)) if extent else slice(None))
            else:
                start = int(self.rng.integers(0, extent + 1))
                stop = int(self.rng.integers(start, extent + 1))
                index.append(slice(start, stop, int(self.rng.integers(1, 3))))
        return tuple(index)

    # --- steps ---

    def unary(self):
        pair = self.any()
        name = ["sin", "cos", "tanh", "exp", "abs", "neg", "square", "floor", "sigmoid"][self.rng.integers(9)]
        functions = {"neg": np.negative, "sigmoid": lambda x: 1 / (1 + np.exp(-x))}
        values = functions.get(name) or getattr(np, name)
        if name == "floor":
            # Away from the steps, where one rounding would be a difference of one.
            self.keep((pair.tensor * 0 + 1.5).floor(), np.floor(pair.values * 0 + 1.5))
            return name
        self.keep(squash(getattr(gt, name)(pair.tensor)), squash(values(pair.values)))
        return name

    def binary(self):
        pair = self.any()
        other = self.partner(pair.values.shape)
        kind = self.rng.integers(5)
        a, b, x, y = pair.tensor, other.tensor, pair.values, other.values
        made = [
            lambda: (a + b, x + y),
            lambda: (a - b, x - y),
            lambda: (a * b, x * y),
            lambda: (a / (b * b + 1), x / (y * y + 1)),
            lambda: (gt.maximum(a, b), np.maximum(x, y)),
        ][kind]()
        self.keep(squash(made[0]), squash(made[1]))
        return f"binary {kind}"

    def scalar(self):
        pair, c = self.any(), self.number()
        self.keep(squash(pair.tensor * c + 0.5 - c), squash(pair.values * c + 0.5 - c))
        return f"scalar {c}"

    def chain(self):
        """A long elementwise chain, to be fused or not."""
        pair = self.any()
        t, v = pair.tensor, pair.values
        for _ in range(int(self.rng.integers(5, 60))):
            c = self.number()
            t, v = squash(t * c + 0.25), squash(v * c + 0.25)
        self.keep(t, v)
        return "chain"

    def fan(self):
        """Many results of one source."""
        pair = self.any()
        made = [(squash(pair.tensor * k), squash(pair.values * k)) for k in range(int(self.rng.integers(2, 70)))]
        t, v = made[0]
        for one, other in made[1:]:
            t, v = t + one, v + other
        self.keep(t / len(made), v / len(made))
        return f"fan {len(made)}"

    def reduce(self):
        pair = self.any()
        dim = int(self.rng.integers(pair.values.ndim)) if pair.values.ndim else None
        if dim is None or pair.values.shape[dim] == 0:
            return "nothing"
        keep = bool(self.rng.integers(2))
        name = ["sum", "mean", "amax", "amin", "prod"][self.rng.integers(5)]
        functions = {"amax": np.max, "amin": np.min}
        made = getattr(pair.tensor, name)(dim, keepdim=keep)
        self.keep(
            squash(made), squash(functions.get(name, getattr(np, name, None))(pair.values, axis=dim, keepdims=keep))
        )
        return f"{name} {dim}"

    def view(self):
        pair = self.any()
        kind = self.rng.integers(4)
        if kind == 0:
            index = self.slices(pair.values.shape)
            self.keep(
                pair.tensor[index],
                np.asarray(pair.values[index]) if pair.values[index].ndim else pair.values[(*index, None)][..., 0],
            )
            return f"slice {index}"
        if kind == 1 and pair.values.ndim > 1:
            order = [int(i) for i in self.rng.permutation(pair.values.ndim)]
            self.keep(pair.tensor.permute(order), pair.values.transpose(order))
            return f"permute {order}"
        if kind == 2:
            place = int(self.rng.integers(pair.values.ndim + 1))
            self.keep(pair.tensor.unsqueeze(place), np.expand_dims(pair.values, place))
            return f"unsqueeze {place}"
        if pair.values.flags.c_contiguous and pair.tensor.is_contiguous():
            self.keep(pair.tensor.view(-1), pair.values.reshape(-1))
            return "flatten"
        return "nothing"

    def write(self):
        pair = self.any()
        kind = self.rng.integers(6)
        if not pair.values.flags.writeable:
            return "nothing"
        index = self.slices(pair.values.shape)
        c = self.number()
        if kind == 0:
            pair.tensor[index] = c
            pair.values[index] = c
        elif kind == 1:
            other = self.partner(pair.values[index].shape)
            # Copies on both sides, because source and target may overlap.
            source = other.values.copy()
            pair.tensor[index] = other.tensor.clone()
            pair.values[index] = source
        elif kind == 2:
            pair.tensor.mul_(0.5).add_(c * 0.1)
            pair.values *= 0.5
            pair.values += c * 0.1
        elif kind == 3:
            other = self.partner(pair.values.shape)
            source = other.values.copy()
            pair.tensor.sub_(other.tensor.clone()).mul_(0.5)
            pair.values -= source
            pair.values *= 0.5
        elif kind == 4:
            mask = pair.values > c
            pair.tensor[pair.tensor > c] = -0.5
            pair.values[mask] = -0.5
        elif pair.values.ndim and pair.values.shape[0]:
            rows = self.rng.permutation(pair.values.shape[0])[:2]
            pair.tensor[gt.tensor(rows)] = c
            pair.values[rows] = c
        return f"write {kind} {index} {c}"

    def gather(self):
        pair = self.any()
        if not pair.values.ndim or not pair.values.shape[0]:
            return "nothing"
        rows = self.rng.integers(-pair.values.shape[0], pair.values.shape[0], int(self.rng.integers(1, 5)))
        self.keep(pair.tensor[gt.tensor(rows)], pair.values[rows])
        return f"rows {rows}"

    def matmul(self):
        pair = self.any()
        if pair.values.ndim < 1:
            return "nothing"
        other = self.fresh((pair.values.shape[-1], int(self.rng.integers(1, 5))))
        self.keep(squash(pair.tensor @ other.tensor), squash(pair.values @ other.values))
        return "matmul"

    def join(self):
        pair = self.any()
        if not pair.values.ndim:
            return "nothing"
        dim = int(self.rng.integers(pair.values.ndim))
        joined = gt.cat([pair.tensor, pair.tensor * 0.5], dim)[..., :6].clone()
        self.keep(joined, np.concatenate([pair.values, pair.values * 0.5], dim)[..., :6].copy())
        return f"cat {dim}"

    def copy(self):
        pair = self.any()
        self.keep(pair.tensor.clone(), pair.values.copy())
        return "clone"

    def read(self):
        self.any().check("\n".join(self.log))
        return "read"

    def forget(self):
        if len(self.pairs) > 3:
            del self.pairs[self.rng.integers(len(self.pairs))]
        return "forget"

    STEPS = [
        "unary",
        "binary",
        "binary",
        "scalar",
        "chain",
        "fan",
        "reduce",
        "view",
        "view",
        "view",
        "write",
        "write",
        "write",
    ]
    STEPS += ["gather", "matmul", "join", "copy", "read", "forget"]

    def run(self, steps):
        for _ in range(steps):
            if max(pair.values.size for pair in self.pairs) > 2000:
                self.pairs = [self.fresh() for _ in range(3)]
            name = self.STEPS[self.rng.integers(len(self.STEPS))]
            self.log.append(f"{name}: {getattr(self, name)()}")
        for pair in self.pairs:
            pair.check("\n".join(self.log))


@pytest.mark.parametrize("seed", range(150))
def test_program(seed):
    Machine(seed).run(40)


@pytest.mark.heavy
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("block", range(20))
def test_many_programs(block):
    for seed in range(1000 + 200 * block, 1000 + 200 * (block + 1)):
        Machine(seed).run(60)
