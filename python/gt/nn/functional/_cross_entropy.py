"""Cross entropy between scores and classes."""

from __future__ import annotations

from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn.functional._reduction import legacy, reduced


def _class_axis(input: Tensor) -> int:
    return 0 if input.dim() == 1 else 1


def _check_tensors(name: str, input: Any, target: Any) -> None:
    for position, value in (("input", input), ("target", target)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument '{position}' must be Tensor, not {type(value).__name__}")
    if input.dim() == 0:
        raise ValueError(f"{name}: expected scores with a class dimension, got a 0-d input")


def _class_numbers(name: str, input: Tensor, target: Tensor) -> Tensor:
    """The target as int64, of the shape of the input without its classes."""
    axis = _class_axis(input)
    expected = (*input.shape[:axis], *input.shape[axis + 1 :])
    if tuple(target.shape) != expected:
        if input.dim() > 1 or tuple(target.shape) != (1,):
            _refuse_shapes(name, input, target, expected)
        target = target.reshape(())
    if target.dtype not in (_core.int64, _core.uint8):
        raise RuntimeError(
            f"{name}: expected target dtype to be Long or Byte, but got {target.dtype}: class numbers are int64, "
            f"target.long() (probabilities have the shape of the input, {tuple(input.shape)})"
        )
    return target.long()


def _refuse_shapes(name: str, input: Tensor, target: Tensor, expected: tuple[int, ...]) -> None:
    if input.dim() == 1 and target.dim() == 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}")
    batch = target.shape[0] if target.dim() else 0
    if input.dim() > 1 and batch != input.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({batch}): "
            f"input shape {tuple(input.shape)}, target shape {tuple(target.shape)}."
        )
    raise RuntimeError(
        f"{name}: input of shape {tuple(input.shape)} needs a target of shape {expected}, got {tuple(target.shape)}"
    )


def _check_weight(weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {list(weight.shape)}"
        )


def _of_indices(
    log_probabilities: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    """The loss of class numbers; those equal to `ignore_index` count neither in the loss nor in the mean."""
    axis = _class_axis(log_probabilities)
    classes = log_probabilities.shape[axis]
    _check_weight(weight, classes)
    counted = target != ignore_index
    index = _core.where(counted, target, 0)
    index = _core.checked(index, (index < 0) | (index >= classes), "class_out_of_bounds")
    loss = -log_probabilities.gather(axis, index.unsqueeze(axis)).squeeze(axis)
    share = counted.to(log_probabilities.dtype)
    if weight is not None:
        share = share * weight.index_select(0, index.reshape(-1)).reshape(index.shape)
        loss = loss * share
    loss = _core.where(counted, loss, 0.0)
    if label_smoothing:
        every = log_probabilities
        if weight is not None:
            every = every * weight.reshape(-1, *([1] * (every.dim() - axis - 1)))
        smooth = _core.where(counted, -every.sum(axis), 0.0)
        loss = loss * (1 - label_smoothing) + smooth * (label_smoothing / max(classes, 1))
    if reduction == "mean":
        return loss.sum() / share.sum()
    return reduced(loss, reduction)


def _of_rows(input: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    """The plain loss of class numbers, one instruction: no logarithms of all probabilities are kept."""
    axis = _class_axis(input)
    classes = input.shape[axis]
    rows = input if input.dim() == 2 else input.movedim(axis, -1).reshape(-1, classes)
    flat = target.reshape(-1)
    loss = _core.cross_entropy_rows(rows, flat, ignore_index)
    if reduction != "mean":
        return reduced(loss.reshape(target.shape), reduction)
    return loss.sum() / (flat != ignore_index).sum().to(loss.dtype)


def _of_probabilities(
    log_probabilities: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    axis = _class_axis(log_probabilities)
    classes = log_probabilities.shape[axis]
    _check_weight(weight, classes)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / max(classes, 1)
    product = log_probabilities * target
    if weight is not None:
        product = product * weight.reshape(-1, *([1] * (product.dim() - axis - 1)))
    return reduced(-product.sum(axis), reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Minus the logarithm of the softmax of `input` at the target; the target is class numbers or probabilities.

    >>> gt.nn.functional.cross_entropy(gt.zeros(3, 4), gt.tensor([0, 1, 2]))
    tensor(1.3863)
    """
    reduction = legacy(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    _check_tensors("cross_entropy", input, target)
    if target.shape == input.shape:
        if not target.dtype.is_floating_point:
            raise RuntimeError(
                f"Expected floating point type for target with class probabilities, got {target.dtype} "
                f"of shape {tuple(target.shape)}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _of_probabilities(input.log_softmax(_class_axis(input)), target, weight, reduction, label_smoothing)
    numbers = _class_numbers("cross_entropy", input, target)
    if weight is None and not label_smoothing:
        return _of_rows(input, numbers, ignore_index, reduction)
    log_probabilities = input.log_softmax(_class_axis(input))
    return _of_indices(log_probabilities, numbers, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the input, which holds logarithms of probabilities, at the target class.

    >>> gt.nn.functional.nll_loss(gt.tensor([[-1.0, -2.0]]), gt.tensor([1]))
    tensor(2.)
    """
    reduction = legacy(reduction, size_average, reduce)
    _check_tensors("nll_loss", input, target)
    numbers = _class_numbers("nll_loss", input, target)
    return _of_indices(input, numbers, weight, ignore_index, reduction, 0.0)
