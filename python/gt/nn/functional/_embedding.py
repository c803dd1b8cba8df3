"""Looking rows up by number."""

from __future__ import annotations

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad


def _padding_row(padding_idx: int, rows: int) -> int:
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"Padding_idx must be within num_embeddings: got {padding_idx} for {rows} rows")
    return padding_idx % rows


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` that `input` names; the row `padding_idx` gets no gradient.

    With `max_norm`, rows that are looked up and longer are first shortened in place. `sparse` changes nothing: gradients
    are dense.

    >>> gt.nn.functional.embedding(gt.tensor([1, 0]), gt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"embedding(): argument 'indices' must be Tensor, not {type(input).__name__}")
    if input.dtype not in (_core.int64, _core.int32):
        raise RuntimeError(f"embedding expects indices of gt.int64 or gt.int32, got {input.dtype}")
    if weight.dim() != 2:
        raise RuntimeError(f"'weight' must be 2-D, got shape {tuple(weight.shape)}")
    rows = weight.shape[0]
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    flat = input.reshape(-1)
    if scale_grad_by_freq:
        weight = _ScaledByFrequency.scaled(weight, flat)
    if padding_idx is None:
        return weight.index_select(0, flat).reshape(*input.shape, weight.shape[1])
    padding = (flat == _padding_row(padding_idx, rows)).unsqueeze(1)
    looked_up = weight.index_select(0, flat)
    # The value of the padding row without its place in the graph.
    kept = _core.where(padding, looked_up.detach(), looked_up)
    return kept.reshape(*input.shape, weight.shape[1])


def _shorten_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows that are looked up and longer than `max_norm` are scaled to it, in place."""
    with no_grad():
        table = weight.detach()
        length = table.norm(norm_type, dim=1, keepdim=True)
        used = _core.zeros(weight.shape[0], dtype=_core.float32).scatter_add(
            0, input.reshape(-1).long(), _core.ones(input.numel())
        )
        too_long = (used.unsqueeze(1) > 0) & (length > max_norm)
        weight.copy_(_core.where(too_long, table * (max_norm / (length + 1e-7)), table))


class _ScaledByFrequency:
    """Divides a row's gradient by how often the row was looked up."""

    @staticmethod
    def scaled(weight: Tensor, flat: Tensor) -> Tensor:
        times = _core.zeros(weight.shape[0], dtype=weight.dtype).scatter_add(
            0, flat.long(), _core.ones(flat.numel(), dtype=weight.dtype)
        )
        share = (1 / times.clamp(min=1)).unsqueeze(1)
        # The same value, and `share` times the gradient.
        return weight.detach() + (weight - weight.detach()) * share


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dimension with 1 at each number's place. Without `num_classes` it waits for the largest number.

    >>> gt.nn.functional.one_hot(gt.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if tensor.dtype != _core.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}")
    if num_classes == -1:
        if tensor.numel() == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        # At least one, so that a negative number is named as what is wrong.
        num_classes = max(int(tensor.max().item()) + 1, 1)
    if num_classes < 1:
        raise RuntimeError(f"num_classes should be positive, got {num_classes}")
    hot = (tensor.unsqueeze(-1) == _core.arange(num_classes)).long()
    return _core.checked(_core.checked(hot, tensor < 0, "negative_class"), tensor >= num_classes, "large_class")


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows over bags: rows of a 2-d `input`, or runs of a 1-d one that start at `offsets`.

    >>> gt.nn.functional.embedding_bag(gt.tensor([[0, 1]]), gt.tensor([[1.0], [3.0]]))
    tensor([[2.]])
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"per_sample_weights is only supported for mode='sum', got mode={mode!r}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated as bags of equal length")
        count, length = input.shape
        bag = _core.arange(count).unsqueeze(1).expand(count, length).reshape(-1)
        flat = input.reshape(-1)
    elif input.dim() == 1:
        if offsets is None or offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor if input is 1D")
        flat = input
        count = offsets.shape[0] - (1 if include_last_offset else 0)
        # With the last offset, what lies behind it gets a number no bag has.
        bag = (_core.arange(flat.shape[0]).unsqueeze(1) >= offsets.unsqueeze(0)).sum(1) - 1
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    flat = _core.checked(flat, (flat < 0) | (flat >= weight.shape[0]), "position")
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    counted = _core.ones(flat.shape[0], dtype=weight.dtype)
    if padding_idx is not None:
        counted = (flat != _padding_row(padding_idx, weight.shape[0])).to(weight.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    member = (bag.unsqueeze(0) == _core.arange(count).unsqueeze(1)) & (counted > 0)
    if mode == "max":
        spread = _core.where(member.unsqueeze(-1), rows, -float("inf"))
        best = spread.max(1).values
        return _core.where(member.any(1).unsqueeze(-1), best, 0.0)
    total = member.to(weight.dtype).matmul(rows)
    if mode == "sum":
        return total
    return total / member.sum(1).clamp(min=1).unsqueeze(-1)
