"""Connectionist temporal classification: the likelihood of a label sequence over all its alignments.

CTC-1: impossible alignments have a very large negative number for their logarithm and not minus infinity, so that sums over
them have a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.functional._reduction import reduced

_IMPOSSIBLE = -1e30


def _lengths(given: Any) -> Tensor:
    return given.long().reshape(-1) if isinstance(given, Tensor) else _core.tensor(list(given), dtype=_core.int64)


def _padded(targets: Tensor, target_lengths: Any) -> Tensor:
    """Targets that were given one after the other, as rows. Lengths that are a tensor are read."""
    counts: Sequence[int] = (
        target_lengths.reshape(-1).tolist() if isinstance(target_lengths, Tensor) else list(target_lengths)
    )
    if sum(counts) != targets.shape[0]:
        raise RuntimeError(f"targets of shape {tuple(targets.shape)} do not match target_lengths {list(counts)}")
    width, start, rows = max([*counts, 1]), 0, []
    for count in counts:
        filling = targets.new_zeros(width - count)
        rows.append(_core.cat([targets[start : start + count], filling]))
        start += count
    return _core.stack(rows)


def _log_likelihood(log_probs: Tensor, targets: Tensor, inputs: Tensor, counts: Tensor, blank: int) -> Tensor:
    steps, batch, _ = log_probs.shape
    width = 2 * targets.shape[1] + 1
    # Labels with a blank before, between and after them.
    labels = _core.stack([_core.full_like(targets, blank), targets], 2).reshape(batch, -1)
    labels = _core.cat([labels, labels.new_full((batch, 1), blank)], 1)
    heard = log_probs.gather(2, labels.unsqueeze(0).expand(steps, batch, width))
    place = _core.arange(width)
    lead = log_probs.new_full((batch, 2), _IMPOSSIBLE)
    two_before = _core.cat([labels.new_full((batch, 2), blank), labels[:, :-2]], 1)
    may_skip = (labels != blank) & (labels != two_before)
    alpha = _core.where(place < 2, heard[0], _IMPOSSIBLE)
    for step in range(1, steps):
        shifted = _core.cat([lead, alpha], 1)
        one, two = shifted[:, 1:-1], _core.where(may_skip, shifted[:, :-2], _IMPOSSIBLE)
        new = _core.stack([alpha, one, two]).logsumexp(0) + heard[step]
        alpha = _core.where((step < inputs).unsqueeze(1), new, alpha)
    last = (2 * counts).unsqueeze(1)
    on_blank = alpha.gather(1, last)
    on_label = _core.where(last > 0, alpha.gather(1, (last - 1).clamp(min=0)), _IMPOSSIBLE)
    return _core.cat([on_blank, on_label], 1).logsumexp(1)


def _mass(log_probs: Tensor, inputs: Tensor) -> Tensor:
    """Nothing in value, and in gradient the probabilities themselves.

    The gradient is by convention that of scores before a log_softmax; what a log_softmax passes on is the same.
    """
    counted = _core.arange(log_probs.shape[0]).reshape(-1, 1) < inputs
    mass = _core.where(counted, log_probs.exp().sum(2), 0.0).sum(0)
    return mass - mass.detach()


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log likelihood of targets (batch, length), given log_probs (steps, batch, classes).

    Targets may also be one vector of all sequences, one after the other.

    >>> log_probs = gt.zeros(2, 1, 2).log_softmax(2)
    >>> gt.nn.functional.ctc_loss(log_probs, gt.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """
    if log_probs.dim() not in (2, 3):
        raise RuntimeError(f"ctc_loss expects log_probs of 2 or 3 dimensions, got shape {tuple(log_probs.shape)}")
    if targets.dtype.is_floating_point:
        raise RuntimeError(f"ctc_loss expects integer targets, got {targets.dtype}")
    single = log_probs.dim() == 2
    if single:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
        input_lengths, target_lengths = _lengths_of_one(input_lengths), _lengths_of_one(target_lengths)
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError(f"blank must be in label range: got {blank} for {log_probs.shape[2]} classes")
    if targets.dim() == 1:
        targets = _padded(targets, target_lengths)
    inputs, counts = _lengths(input_lengths), _lengths(target_lengths)
    batch = log_probs.shape[1]
    if not batch == targets.shape[0] == inputs.shape[0] == counts.shape[0]:
        raise RuntimeError(
            f"ctc_loss: log_probs {tuple(log_probs.shape)}, targets {tuple(targets.shape)}, {inputs.shape[0]} "
            f"input_lengths and {counts.shape[0]} target_lengths have different batch sizes"
        )
    inputs = _core.checked(inputs, (inputs < 0) | (inputs > log_probs.shape[0]), "length")
    loss = -_log_likelihood(log_probs, targets.long(), inputs, counts, blank)
    loss = loss + _mass(log_probs, inputs)
    loss = _core.where(loss > -_IMPOSSIBLE / 2, 0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        return (loss / counts.clamp(min=1)).mean()
    made = reduced(loss, reduction)
    return made.squeeze(0) if single and reduction == "none" else made


def _lengths_of_one(given: Any) -> Any:
    return given.reshape(1) if isinstance(given, Tensor) else [given] if isinstance(given, int) else given
