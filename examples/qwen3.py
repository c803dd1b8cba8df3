"""Trains a Qwen3 language model on text.

  python examples/qwen3.py                                  nano, on this repository's own text, byte by byte
  python examples/qwen3.py --size small --data book.txt --epochs 3 --logdir runs/book
  python examples/qwen3.py --checkpoint-dir runs/nano --checkpoint-every 100      and later the same with --resume
  python examples/qwen3.py --pytorch                        the same file on PyTorch, for comparison

Ctrl-C saves a checkpoint and ends the run.
"""

import argparse
import importlib
import math
import resource
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import training_state
from display import Progress, clock, loss_curve, rate
from qwen3_model import Size, define_model, write_on
from text_data import ByteTokenizer, FileTokenizer, Pieces, load_text

# Extents, and the batch × tokens each is trained with unless told otherwise. The vocabulary is the tokenizer's.
SIZES = {
    "tiny": ({"hidden": 64, "mlp": 128, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16}, 8, 64),
    "nano": ({"hidden": 256, "mlp": 768, "layers": 4, "heads": 8, "kv_heads": 4, "head_dim": 32}, 4, 128),
    "small": ({"hidden": 512, "mlp": 1536, "layers": 8, "heads": 8, "kv_heads": 4, "head_dim": 64}, 4, 256),
    "0.6b": ({"hidden": 1024, "mlp": 3072, "layers": 28, "heads": 16, "kv_heads": 8, "head_dim": 128}, 4, 1024),
}
BETAS, WEIGHT_DECAY = (0.9, 0.95), 0.1
# The learning rate ends at this share of its peak.
FINAL_SHARE = 0.1


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--size", choices=SIZES, default="nano", help="of the model (default %(default)s)")
    add("--data", metavar="PATH", help="a text file or a folder of them (default: this repository)")
    add("--tokenizer", metavar="FILE", help="a tokenizer.json (default: bytes are the tokens)")
    add("--epochs", type=int, help="passes over the text (default 1, unless --steps is given)")
    add("--steps", type=int, help="updates, whatever that is in epochs")
    add("--batch-size", type=int, help="pieces of text in a batch (default: by size)")
    add("--seq-len", type=int, help="tokens in a piece (default: by size)")
    add("--accumulate", type=int, default=1, help="batches whose gradients are added up for an update (default 1)")
    add("--lr", type=float, default=1e-3, help="peak learning rate (default %(default)s)")
    add("--warmup", type=int, help="updates until the peak (default: a twentieth, at most 100)")
    add("--clip", type=float, default=1.0, help="largest norm of the gradients; 0 for none (default %(default)s)")
    add("--amp", action="store_true", help="compute in bfloat16, keep weights in float32")
    add("--grad-checkpoint", action="store_true", help="compute layers again in the backward pass, to save memory")
    add("--seed", type=int, default=0, help="of weights, order of the text and samples (default %(default)s)")
    add("--pytorch", action="store_true", help="run on PyTorch")
    add("--logdir", metavar="DIR", help="write TensorBoard events here")
    add("--log-every", type=int, default=10, help="updates between two reads of the loss (default %(default)s)")
    add("--checkpoint-dir", metavar="DIR", help="write checkpoints here")
    add("--checkpoint-every", type=int, default=0, help="updates between two checkpoints (default: only the end)")
    add(
        "--resume",
        metavar="PATH",
        nargs="?",
        const="",
        help="go on from a checkpoint, or the newest in --checkpoint-dir",
    )
    add("--sample", metavar="PROMPT", help="write on from this when done")
    add("--sample-tokens", type=int, default=300, help="how much (default %(default)s)")
    add("--max-loss", type=float, default=math.inf, help="fail when the loss ends above")
    args = parser.parse_args(arguments)
    _, batch_size, seq_len = SIZES[args.size]
    args.batch_size = batch_size if args.batch_size is None else args.batch_size
    args.seq_len = seq_len if args.seq_len is None else args.seq_len
    for name in ("epochs", "steps", "batch_size", "seq_len", "accumulate", "log_every", "sample_tokens"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, not {value}")
    for name in ("warmup", "checkpoint_every", "clip"):
        value = getattr(args, name)
        if value is not None and value < 0:
            parser.error(f"--{name.replace('_', '-')} must not be negative, not {value}")
    if not 0 < args.lr < math.inf:
        parser.error(f"--lr must be positive, not {args.lr:g}")
    if args.epochs and args.steps:
        parser.error("give --epochs or --steps, not both")
    if args.checkpoint_every and not args.checkpoint_dir:
        parser.error("--checkpoint-every needs --checkpoint-dir")
    if args.resume == "" and not args.checkpoint_dir:
        parser.error("--resume needs a path, or --checkpoint-dir to find the newest checkpoint in")
    if args.sample == "":
        parser.error("--sample needs a prompt of at least one character")
    return args


def load_framework(pytorch):
    """The module that does the work: GT, or PyTorch."""
    name = "torch" if pytorch else "gt"
    try:
        T = importlib.import_module(name)
        for part in ("nn", "optim", "utils.checkpoint"):
            importlib.import_module(f"{name}.{part}")
    except ImportError as error:
        raise SystemExit(f"{name} cannot be imported: {error}") from None
    return T


def open_log(T, logdir):
    """A writer of TensorBoard events."""
    if logdir is None:
        return None
    try:
        return importlib.import_module(f"{T.__name__}.utils.tensorboard").SummaryWriter(logdir)
    except ImportError as error:
        raise SystemExit(f"--logdir cannot be written: {error}") from None


def share_of_peak(warmup, total):
    """The learning rate of an update as a share of the peak: a straight line up, half a cosine down."""

    def share(step):
        if step < warmup:
            return (step + 1) / (warmup + 1)
        way = min((step - warmup) / max(total - warmup, 1), 1.0)
        return FINAL_SHARE + (1 - FINAL_SHARE) * 0.5 * (1 + math.cos(math.pi * way))

    return share


def peak_memory(T, device):
    """The most bytes held so far: on the device if it has memory of its own, else by the process."""
    if device == "cuda":
        return T.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class Run:
    """One training run: what it is made of and how far it is."""

    def __init__(self, T, args, tokenizer, pieces):
        self.T, self.args, self.pieces = T, args, pieces
        self.device = "cuda" if T.cuda.is_available() else "cpu"
        self.total = args.steps or (args.epochs or 1) * pieces.batches_per_epoch // args.accumulate
        if self.total < 1:
            raise SystemExit("--accumulate asks for more batches than there are: choose fewer, or more text or epochs")
        T.manual_seed(args.seed)
        size = Size(vocab=tokenizer.vocab_size, **SIZES[args.size][0])
        self.model = define_model(T)(size, args.seq_len).to(self.device)
        self.model.model.recompute = args.grad_checkpoint
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = T.optim.AdamW(groups, lr=args.lr, betas=BETAS, fused=True)
        warmup = min(100, self.total // 20) if args.warmup is None else args.warmup
        self.schedule = T.optim.lr_scheduler.LambdaLR(self.optimizer, share_of_peak(warmup, self.total))
        self.step, self.losses = 0, []
        # A checkpoint of a run with other settings must not be continued: it would be neither the one nor the other.
        self.settings = {
            "size": args.size,
            "vocab": tokenizer.vocab_size,
            "tokens": len(pieces.tokens),
            "total": self.total,
            "warmup": warmup,
            **{n: getattr(args, n) for n in ("batch_size", "seq_len", "accumulate", "lr", "clip", "amp", "seed")},
        }

    def state(self):
        return {
            "settings": self.settings,
            "config": self.model.size.config(self.args.seq_len),
            "step": self.step,
            "losses": self.losses,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": self.T.get_rng_state(),
        }

    def resume(self, path):
        state = training_state.load(self.T, path, self.settings)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.T.set_rng_state(state["random"])
        self.step, self.losses = state["step"], list(state["losses"])

    def save(self, folder):
        return training_state.save(self.T, folder, self.step, self.state())

    def update(self):
        """One update from `accumulate` batches; their mean loss, not yet read."""
        T, args = self.T, self.args
        self.optimizer.zero_grad(set_to_none=True)
        loss = None
        for part in range(args.accumulate):
            batch = T.tensor(self.pieces.batch(self.step * args.accumulate + part), device=self.device)
            with T.autocast(self.device, dtype=T.bfloat16) if args.amp else nullcontext():
                own = self.model(batch[:, :-1], batch[:, 1:]) / args.accumulate
            own.backward()
            loss = own.detach() if loss is None else loss + own.detach()
        if args.clip:
            T.nn.utils.clip_grad_norm_(self.model.parameters(), args.clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        return loss


def train(run, log):
    """All updates that are left; False if the user has ended it before."""
    T, args = run.T, run.args
    interrupted = []
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.append(True))
    tokens_per_step = args.accumulate * args.batch_size * args.seq_len
    progress = Progress(run.total, start=run.step)
    since, counted, waiting = time.perf_counter(), run.step, []
    try:
        while run.step < run.total and not interrupted:
            waiting.append(run.update())
            if run.step % args.log_every == 0 or run.step == run.total:
                # One read for all losses since the last: reading each would wait for each.
                run.losses += T.stack(waiting).tolist()
                now = time.perf_counter()
                speed = (run.step - counted) * tokens_per_step / (now - since)
                since, counted, waiting = now, run.step, []
                recent = run.losses[-args.log_every :]
                mean = sum(recent) / len(recent)
                if not math.isfinite(mean):
                    raise SystemExit(f"the loss is {mean} at step {run.step}: try a smaller --lr")
                progress.show(run.step, mean, rate(speed, " tokens/s"))
                if log is not None:
                    log.add_scalar("loss", mean, run.step)
                    log.add_scalar("lr", run.schedule.get_last_lr()[0], run.step)
                    log.add_scalar("tokens_per_second", speed, run.step)
                    log.add_scalar("peak_memory_bytes", peak_memory(T, run.device), run.step)
            if args.checkpoint_every and run.step % args.checkpoint_every == 0 and run.step < run.total:
                run.losses += T.stack(waiting).tolist() if waiting else []
                waiting = []
                run.save(args.checkpoint_dir)
        run.losses += T.stack(waiting).tolist() if waiting else []
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted and run.step < run.total:
        progress.interrupt()
        return False
    return True


def main(arguments=None):
    args = parse(arguments)
    tokenizer = FileTokenizer(args.tokenizer) if args.tokenizer else ByteTokenizer()
    pieces = Pieces(tokenizer.encode(load_text(args.data)), args.seq_len, args.batch_size, args.seed)
    T = load_framework(args.pytorch)
    run = Run(T, args, tokenizer, pieces)
    if args.resume is not None:
        run.resume(training_state.find(T, args.resume or args.checkpoint_dir))
    log = open_log(T, args.logdir)
    weights = sum(parameter.numel() for parameter in run.model.parameters())
    print(
        f"Qwen3 {args.size} on {T.__name__}: {rate(weights)} weights; {rate(len(pieces.tokens))} tokens of text; "
        f"{run.total} steps of {args.accumulate * args.batch_size} × {args.seq_len} tokens"
        + (f", from step {run.step}" if run.step else "")
    )

    first, start = run.step, time.perf_counter()
    finished = train(run, log)
    seconds = time.perf_counter() - start
    if log is not None:
        log.close()
    if not finished:
        path = run.save(args.checkpoint_dir or Path("runs") / f"qwen3-{args.size}")
        print(f"stopped after {run.step} of {run.total} steps; go on with --resume {path}")
        sys.exit(130)
    if args.checkpoint_dir:
        print(f"checkpoint: {run.save(args.checkpoint_dir)}")

    if run.losses:
        print(f"\n  loss\n{loss_curve(run.losses)}\n")
    recent = run.losses[-max(1, len(run.losses) // 20) :]
    reached = sum(recent) / len(recent)
    done = (run.step - first) * args.accumulate * args.batch_size * args.seq_len
    print(
        f"loss {run.losses[0]:.3f} → {reached:.3f} in {clock(seconds)}: {rate(done / max(seconds, 1e-9))} tokens/s, "
        f"peak memory {rate(peak_memory(T, run.device), 'B')}"
    )
    if args.sample is not None:
        prompt = list(tokenizer.encode(args.sample))
        T.manual_seed(args.seed)
        written = write_on(T, run.model, prompt, args.sample_tokens, device=run.device)
        print(f"\n{args.sample}{tokenizer.decode(written)}")
    if not reached <= args.max_loss:
        sys.exit(f"the loss ended at {reached:.3f}, above {args.max_loss:g}")


if __name__ == "__main__":
    main()
