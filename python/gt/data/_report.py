"""What a loader says about itself: how well it mixes, what it will do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["DryRun", "Mixing", "ShuffleReport"]


@dataclass(frozen=True)
class Mixing:
    """How well a stretch of an epoch is mixed.

    >>> gt.data.Mixing(same_block=0.0, distinct_blocks=1.0, design_effect=1.0).design_effect
    1.0
    """

    same_block: float
    """How often a sample is of the same block as that of the position before. Inside a batch samples come lane by lane."""
    distinct_blocks: float
    """Blocks in a batch, over what a full shuffle would have."""
    design_effect: float
    """`Var(batch label mean) * B / Var(label)`: one is perfect, B is no mixing at all."""

    def __str__(self) -> str:
        return (
            f"design effect {self.design_effect:.3f} (1 = full shuffle); "
            f"blocks per batch: {self.distinct_blocks:.2f} times a full shuffle's; "
            f"neighbours from the same block: {self.same_block:.4f}"
        )


@dataclass(frozen=True)
class ShuffleReport:
    """How good a shuffle is: `print` it, or look at its numbers.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npy"
    >>> np.save(path, np.arange(6.0))
    >>> loader = gt.data.DataLoader(gt.data.NpyDataset({"x": path}), batch_size=4, shuffle=True)
    >>> report = loader.shuffle_report()
    >>> report.exactly_once, report.distinct_blocks == report.whole.distinct_blocks == 1
    (True, True)
    """

    exactly_once: bool
    rank_correlation: float
    epoch_overlap: float
    whole: Mixing
    first: Mixing
    last: Mixing
    label: str
    shuffle: str

    @property
    def design_effect(self) -> float:
        """That of the whole epoch."""
        return self.whole.design_effect

    @property
    def distinct_blocks(self) -> float:
        """That of the whole epoch."""
        return self.whole.distinct_blocks

    @property
    def same_block(self) -> float:
        """That of the whole epoch."""
        return self.whole.same_block

    def __str__(self) -> str:
        return "\n".join(
            (
                f"shuffle {self.shuffle}; label {self.label}",
                f"  every sample exactly once: {'yes' if self.exactly_once else 'NO'}",
                f"  rank correlation of storage order and epoch order: {self.rank_correlation:+.4f}",
                f"  pairs that share a batch again next epoch: {self.epoch_overlap:.2f} times a full shuffle's",
                f"  whole epoch: {self.whole}",
                f"  first 5 %:   {self.first}",
                f"  last 5 %:    {self.last}",
            )
        )


@dataclass(frozen=True)
class DryRun:
    """What a loader will do, and how it began: `print` it.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npy"
    >>> np.save(path, np.arange(6.0))
    >>> loader = gt.data.DataLoader(gt.data.NpyDataset({"x": path}), batch_size=4)
    >>> print(str(loader.dryrun()).splitlines()[0])
    6 samples in 1 files, 1 blocks; 2 batches per epoch
    """

    samples: int
    batches: int | None
    files: int
    blocks: int
    left_out: list[tuple[str, str]]
    shuffle: str
    pool_bytes: int
    memory_budget: int
    first_batch_s: float
    samples_per_s: float
    entries: dict[str, Any] = field(default_factory=dict)
    padding: float | None = None

    def __str__(self) -> str:
        lines = [
            f"{self.samples} samples in {self.files} files, {self.blocks} blocks; "
            + (f"{self.batches} batches per epoch" if self.batches is not None else "batches by tokens"),
            f"shuffle {self.shuffle}: about {self.pool_bytes / 2**20:.0f} MiB of a budget of {self.memory_budget / 2**20:.0f} MiB",
            f"first batch after {self.first_batch_s:.3f} s, then {self.samples_per_s:,.0f} samples/s",
        ]
        lines += [f"  {name}: {what}" for name, what in self.entries.items()]
        if self.padding is not None:
            lines.append(
                f"  {self.padding:.0%} of the padded batch is padding"
                + (", bucket=True would save most of it" if self.padding > 0.5 else "")
            )
        lines += [f"skipped: {why}" for _, why in self.left_out]
        return "\n".join(lines)
