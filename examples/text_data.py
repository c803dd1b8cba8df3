"""Text as tokens: bytes, or what a `tokenizer.json` makes of them, cut into pieces to train on.

TEXT-1: the order of the pieces follows from the seed and the epoch alone, so a run that is resumed goes on exactly
where it was.
"""

import array
import os
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Not the project's own text: what was built, installed or recorded.
SKIPPED_FOLDERS = {"target", "fixtures", "runs", "results", "node_modules", "__pycache__", "build", "dist"}
SKIPPED_FILES = {"Cargo.lock", "baseline.json"}


class ByteTokenizer:
    """Every byte of the UTF-8 text is a token."""

    vocab_size = 256

    def encode(self, text):
        return text.encode()

    def decode(self, tokens):
        return bytes(tokens).decode(errors="replace")


class FileTokenizer:
    """A tokenizer in Hugging Face's `tokenizer.json` format."""

    def __init__(self, path):
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise SystemExit("--tokenizer needs the package `tokenizers` (pip install tokenizers)") from None
        try:
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            raise SystemExit(f"{path} is not a tokenizer.json: {error}") from None
        self.vocab_size = self.tokenizer.get_vocab_size()

    def encode(self, text):
        return array.array("q", self.tokenizer.encode(text).ids)

    def decode(self, tokens):
        return self.tokenizer.decode(list(tokens))


def text_files(folder):
    """The files below a folder in a fixed order, hidden and generated ones left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in SKIPPED_FOLDERS)
        for name in sorted(names):
            if not name.startswith(".") and name not in SKIPPED_FILES:
                yield Path(place) / name


def read_text(path):
    """A file's text, None if it is not text."""
    content = path.read_bytes()
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def load_text(path=None):
    """The text of a file, or of all text files below a folder one after the other; by default this repository's."""
    path = ROOT if path is None else Path(path)
    if not path.exists():
        raise SystemExit(f"--data: there is no {path}")
    texts = [read_text(path)] if path.is_file() else [read_text(file) for file in text_files(path)]
    text = "\n".join(t for t in texts if t)
    if not text:
        raise SystemExit(f"--data: there is no text in {path}")
    return text


class Pieces:
    """Tokens cut into pieces of `length` + 1, given out in batches, in another order each epoch."""

    def __init__(self, tokens, length, batch_size, seed):
        self.tokens, self.length, self.batch_size, self.seed = tokens, length, batch_size, seed
        # One piece less than fit, so that each epoch may start its first piece somewhere else.
        self.count = (len(tokens) - 1) // length - 1
        self.batches_per_epoch = self.count // batch_size
        if self.batches_per_epoch < 1:
            raise SystemExit(
                f"the text has {len(tokens)} tokens; a batch of {batch_size} × {length} tokens needs "
                f"{(batch_size + 1) * length + 1}: choose a smaller --batch-size or --seq-len, or more text"
            )

    def batch(self, number):
        """Batch `number` of the whole run: lists of tokens, [batch_size][length + 1]."""
        epoch, place = divmod(number, self.batches_per_epoch)
        order = self._order(epoch)
        chosen = order[place * self.batch_size : (place + 1) * self.batch_size]
        return [list(self.tokens[start : start + self.length + 1]) for start in chosen]

    def _order(self, epoch):
        if getattr(self, "epoch", None) != epoch:
            shuffle = random.Random(f"{self.seed}/{epoch}")
            offset = shuffle.randrange(self.length)
            self.epoch, self.starts = epoch, [offset + piece * self.length for piece in range(self.count)]
            shuffle.shuffle(self.starts)
        return self.starts
