"""What is measured, written once for every peer: `T` is `gt` or `torch`.

Only calls that both have are used, spelled the same way. Each function makes its tensors and returns a callable
without arguments that does the work once and gives back a number, so that the peers' answers can be compared before
their times are.
"""

import numpy as np

SEED = 7
LEARNING_RATE = 0.05


def _floats(*shape, scale=1.0, seed=SEED):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def small_add(T, requires_grad):
    """The operands of the smallest useful op."""
    x, y = T.from_numpy(_floats(4, 4)), T.from_numpy(_floats(4, 4, seed=SEED + 1))
    return (x.requires_grad_(), y.requires_grad_()) if requires_grad else (x, y)


def chain(x, y):
    """Five elementwise ops and the reduction that ends them."""
    return ((x * y + x).tanh() * 0.5 + y).exp().sum()


def chain_operands(T, count=1_000_000):
    """Two vectors."""
    return T.from_numpy(_floats(count)), T.from_numpy(_floats(count, seed=SEED + 1))


def matmuls(T, size, count):
    """`count` products in a row, each needing the last, so that none can be left out or run twice at once."""
    # Of such a matrix the largest eigenvalue is about 1: the products neither vanish nor overflow.
    a = T.from_numpy(_floats(size, size, scale=size**-0.5))
    start = T.from_numpy(_floats(size, size, seed=SEED + 1))

    def run():
        c = start
        for _ in range(count):
            c = a @ c
        return c

    return run


class PlaceholderTransformer:
    """Embedding, gated MLP blocks behind norms, logits; no attention. One training step is `step()`."""

    VOCAB, HIDDEN, MLP, LAYERS = 1000, 64, 128, 2
    BATCH, TOKENS = 2, 64
    BATCHES = 8

    def __init__(self, T):
        self.T = T
        self.seed = SEED
        self.embedding = self._parameter(self.VOCAB, self.HIDDEN, scale=0.5)
        self.blocks = [
            {
                "norm": self._ones(self.HIDDEN),
                "gate": self._parameter(self.HIDDEN, self.MLP),
                "up": self._parameter(self.HIDDEN, self.MLP),
                "down": self._parameter(self.MLP, self.HIDDEN),
            }
            for _ in range(self.LAYERS)
        ]
        self.final_norm = self._ones(self.HIDDEN)
        self.head = self._parameter(self.HIDDEN, self.VOCAB)
        self.parameters = [self.embedding, self.final_norm, self.head]
        self.parameters += [weight for block in self.blocks for weight in block.values()]
        tokens = np.random.default_rng(SEED).integers(0, self.VOCAB, (self.BATCHES, self.BATCH, self.TOKENS + 1))
        self.inputs = [np.ascontiguousarray(batch[:, :-1]) for batch in tokens]
        self.targets = [np.ascontiguousarray(batch[:, 1:]) for batch in tokens]
        self.steps = 0

    def _parameter(self, *shape, scale=None):
        self.seed += 1
        weights = _floats(*shape, scale=scale or shape[0] ** -0.5, seed=self.seed)
        return self.T.from_numpy(weights).requires_grad_()

    def _ones(self, size):
        return self.T.ones(size, requires_grad=True)

    def _norm(self, x, weight):
        return x * self.T.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight

    def loss(self, tokens, targets):
        """The mean cross-entropy of the next token."""
        x = self.embedding[tokens]
        for block in self.blocks:
            h = self._norm(x, block["norm"])
            gate = h @ block["gate"]
            x = x + (gate * self.T.sigmoid(gate) * (h @ block["up"])) @ block["down"]
        logits = self._norm(x, self.final_norm) @ self.head
        log_probabilities = self.T.log_softmax(logits, dim=-1)
        return -log_probabilities.gather(-1, targets.unsqueeze(-1)).mean()

    def step(self):
        """Fresh tokens, forward, backward, update in place; one read, the loss."""
        batch = self.steps % self.BATCHES
        self.steps += 1
        loss = self.loss(self.T.from_numpy(self.inputs[batch]), self.T.from_numpy(self.targets[batch]))
        loss.backward()
        with self.T.no_grad():
            for parameter in self.parameters:
                parameter -= LEARNING_RATE * parameter.grad
                parameter.grad = None
        return loss.item()


def lookup_loop(T, count=240, width=64):
    """A model that makes an index tensor for each row in a Python loop, looks it up and adds it."""
    context = T.from_numpy(_floats(count, width))
    weight = T.from_numpy(_floats(3, width, seed=SEED + 1)).requires_grad_()

    def run():
        rows = []
        for i in range(count):
            rows.append(context[i] + weight[T.tensor([0])])
        return T.stack(rows).sum().item()

    return run
