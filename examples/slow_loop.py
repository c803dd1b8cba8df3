"""A training loop as people write it when they are in a hurry, made fast in five steps, each of them measured.

The loop learns from episodes of unequal length. It begins with Python lists in the collate function, a tensor made for every
token, a batch of 8 and a read in every iteration. `gt.data.verdict` says before each step what holds the loop back.
docs/tutorials/loop.md tells the story; run this with `python examples/slow_loop.py --help`.
"""

import argparse
import json
import time

import numpy as np

import gt
import gt.nn.functional as F
from gt import nn, optim
from gt.data import DataLoader, Dataset, verdict

STATE, ACTION, WIDTH, TYPES = 12, 4, 64, 3
EPISODES = 1024
SMALL_BATCH = 8
# Batches before the clock starts: what repeats has been compiled by then, and the workers are up.
WARM_BATCHES = 12
ROUNDS = 5


class Episodes(Dataset):
    """Episode i: states, actions and regions of its tokens and its return, from a line of JSON."""

    def __init__(self, episodes=EPISODES):
        rng = np.random.default_rng(0)
        self.lines = []
        for _ in range(episodes):
            length = int(np.clip(rng.lognormal(3.3, 0.4), 8, 80))
            item = {
                "states": rng.normal(size=(length, STATE)).round(3).tolist(),
                "actions": rng.normal(size=(length, ACTION)).round(3).tolist(),
                "regions": sorted(rng.integers(0, TYPES, length).tolist()),
                "return": float(rng.normal()),
            }
            self.lines.append(json.dumps(item))

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        return json.loads(self.lines[i])


def collate_lists(items):
    """Grows every episode to the longest with Python lists, then makes arrays of lists of lists."""
    longest = max(len(item["states"]) for item in items)
    states, actions, regions, lengths = [], [], [], []
    for item in items:
        missing = longest - len(item["states"])
        states.append(np.concatenate([np.array(item["states"]), np.zeros((missing, STATE))]).tolist())
        actions.append(np.concatenate([np.array(item["actions"]), np.zeros((missing, ACTION))]).tolist())
        regions.append(list(item["regions"]) + [0] * missing)
        lengths.append(len(item["states"]))
    return {
        "states": np.array(states, dtype=np.float32),
        "actions": np.array(actions, dtype=np.float32),
        "regions": np.array(regions),
        "lengths": np.array(lengths),
        "returns": np.array([item["return"] for item in items], dtype=np.float32),
    }


def collate_arrays(items):
    """Makes each array of the batch once and copies every episode into its row."""
    lengths = np.array([len(item["states"]) for item in items])
    rows, longest = len(items), int(lengths.max())
    # A few lengths in place of many: GT plans a shape once.
    longest = -(-longest // 16) * 16
    batch = {
        "states": np.zeros((rows, longest, STATE), np.float32),
        "actions": np.zeros((rows, longest, ACTION), np.float32),
        "regions": np.zeros((rows, longest), np.int64),
        "lengths": lengths,
        "returns": np.array([item["return"] for item in items], np.float32),
    }
    for row, item in enumerate(items):
        for name in ("states", "actions", "regions"):
            batch[name][row, : lengths[row]] = item[name]
    return batch


class Critic(nn.Module):
    """Guesses an episode's return from its tokens."""

    def __init__(self):
        super().__init__()
        self.token = nn.Linear(STATE + ACTION, WIDTH)
        self.region = nn.Embedding(TYPES, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, batch):
        tokens = self.token(gt.cat([batch["states"], batch["actions"]], dim=-1)) + self.region(batch["regions"])
        tokens = F.gelu(self.hidden(F.gelu(tokens)))
        inside = (gt.arange(tokens.shape[1]) < batch["lengths"].unsqueeze(1)).unsqueeze(-1)
        mean = (tokens * inside).sum(1) / batch["lengths"].unsqueeze(1)
        return self.head(mean).squeeze(-1)


class LoopingCritic(Critic):
    """The same, token by token."""

    def forward(self, batch):
        context = self.token(gt.cat([batch["states"], batch["actions"]], dim=-1))
        means = []
        for b, length in enumerate(batch["lengths"].tolist()):
            tokens = []
            for t in range(length):
                region = gt.tensor([int(batch["regions"][b, t])])  # a tensor for every token
                tokens.append(context[b, t] + self.region(region)[0])
            tokens = F.gelu(self.hidden(F.gelu(gt.stack(tokens))))
            means.append(tokens.mean(0))
        return self.head(gt.stack(means)).squeeze(-1)


def as_tensors(batch):
    return {name: gt.as_tensor(value) for name, value in batch.items()}


def make_step(model, read_every):
    """A training step; the loss is read every so many steps."""
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    losses = []

    def step(batch):
        batch = as_tensors(batch)
        loss = F.mse_loss(model(batch), batch["returns"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if len(losses) >= read_every:
            gt.stack(losses).tolist()  # one wait for all of them
            losses.clear()

    return step


def measure(loader, step, seconds):
    """Seconds an iteration: of five rounds the quickest, as a machine has other things to do too."""
    batches = endless(loader)
    began = time.perf_counter()
    for _ in range(WARM_BATCHES):
        step(next(batches))
        if time.perf_counter() - began > seconds:
            break  # A slow loop is not warmed up for long.
    rounds = []
    for _ in range(ROUNDS):
        gt.synchronize()
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds / ROUNDS:
            step(next(batches))
            done += 1
        gt.synchronize()
        rounds.append((time.perf_counter() - began) / done)
    return min(rounds)


def endless(loader):
    while True:
        yield from loader


def large_batch(seconds):
    """The batch size that gt.tune_batch_size suggests for the quick step."""
    dataset, step = Episodes(), make_step(Critic(), 50)
    prepared = {}

    def one(size):
        if size not in prepared:
            prepared[size] = as_tensors(collate_arrays([dataset[i % len(dataset)] for i in range(size)]))
        step(prepared[size])

    found = gt.tune_batch_size(one, sizes=[8, 16, 32, 64, 128, 256, 512], seconds=seconds / 2)
    print(found, end="\n\n")
    return found.suggested


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure each form of the loop")
    parser.add_argument("--workers", type=int, default=2, help="worker processes in the last step")
    args = parser.parse_args()
    gt.manual_seed(0)

    lists = {"dataset": Episodes(), "collate_fn": collate_lists, "batch_size": SMALL_BATCH}
    arrays = {**lists, "collate_fn": collate_arrays}
    large = {**arrays, "batch_size": large_batch(args.seconds)}
    worked = {**large, "num_workers": args.workers, "persistent_workers": args.workers > 0}
    forms = [
        ("as it was", lists, LoopingCritic, 1),
        ("1. no tensors in loops", lists, Critic, 1),
        ("2. one array a batch", arrays, Critic, 1),
        ("3. a larger batch", large, Critic, 1),
        ("4. read the loss now and then", large, Critic, 50),
        (f"5. {args.workers} worker process{'es' if args.workers > 1 else ''}", worked, Critic, 50),
    ]
    print("| form | ms an iteration | samples/s | times | what held it back |\n|---|---|---|---|---|")
    first = None
    for name, arguments, model, read_every in forms:
        loader = DataLoader(shuffle=True, drop_last=True, generator=0, **arguments)
        step = make_step(model(), read_every)
        seconds = measure(loader, step, args.seconds)
        rate = loader.batch_size / seconds
        first = first or rate
        answer = verdict(loader, step, seconds=args.seconds / 2, stages=False).verdict
        print(f"| {name} | {seconds * 1e3:.2f} | {rate:.0f} | {rate / first:.0f} | {answer} |", flush=True)


if __name__ == "__main__":
    main()
