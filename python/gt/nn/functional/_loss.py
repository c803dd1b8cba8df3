"""Losses between a prediction and a target of the same shape."""

from __future__ import annotations

import math
import warnings
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.autograd.function import Function
from gt.nn.functional._activation import logsigmoid
from gt.nn.functional._reduction import legacy, reduced, same_shape, truths_as_numbers


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean of squared differences.

    >>> gt.nn.functional.mse_loss(gt.zeros(2), gt.tensor([1.0, 3.0]))
    tensor(5.)
    """
    reduction = legacy(reduction, size_average, reduce)
    input, target = truths_as_numbers(*same_shape("mse_loss", input, target))
    return _weighted(weight, (input - target).square(), reduction)


def _weighted(weight: Tensor | None, loss: Tensor, reduction: str) -> Tensor:
    """Losses that may be weighted are averaged over the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction)
    if weight.shape != loss.shape:
        raise ValueError(
            f"Inputs and weight must have the same size, got {tuple(loss.shape)} and {tuple(weight.shape)}"
        )
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean of absolute differences.

    >>> gt.nn.functional.l1_loss(gt.zeros(2), gt.tensor([1.0, 3.0]))
    tensor(2.)
    """
    reduction = legacy(reduction, size_average, reduce)
    input, target = same_shape("l1_loss", input, target)
    return _weighted(weight, (input - target).abs(), reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squared below a distance of `beta`, absolute above.

    >>> gt.nn.functional.smooth_l1_loss(gt.zeros(2), gt.tensor([1.0, 3.0]))
    tensor(1.5000)
    """
    reduction = legacy(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    input, target = truths_as_numbers(*same_shape("smooth_l1_loss", input, target))
    difference = input - target
    distance = difference.abs()
    far = distance >= beta
    # The square of an infinite distance would have no slope, not even one that is not taken.
    square = _core.where(far, 0.0, difference).square()
    return reduced(_core.where(far, distance - 0.5 * beta, square * (0.5 / beta)), reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Squared below a distance of `delta`, linear with that slope above.

    >>> gt.nn.functional.huber_loss(gt.zeros(2), gt.tensor([1.0, 3.0]), delta=2.0)
    tensor(2.2500)
    """
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    input, target = truths_as_numbers(*same_shape("huber_loss", input, target))
    difference = input - target
    distance = difference.abs()
    far = distance > delta
    square = _core.where(far, 0.0, difference).square()
    loss = _core.where(far, (distance - 0.5 * delta) * delta, square * 0.5)
    return _weighted(weight, loss, reduction)


class _BinaryCrossEntropy(Function):
    """The logarithms are kept above -100; the slope is not, but is finite: a certainty that is wrong is pushed back."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(input, target)
        return (target - 1) * (-input).log1p().clamp(min=-100) - target * input.log().clamp(min=-100)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        input, target = ctx.saved_tensors
        (grad,) = grad_outputs
        of_input = of_target = None
        if ctx.needs_input_grad[0]:
            of_input = grad * (input - target) / ((1 - input) * input).clamp(min=1e-12)
        if ctx.needs_input_grad[1]:
            of_target = grad * ((-input).log1p() - input.log())
        return of_input, of_target


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy between probabilities and targets from [0, 1].

    >>> gt.nn.functional.binary_cross_entropy(gt.tensor([0.5, 0.5]), gt.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    reduction = legacy(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({tuple(target.shape)}) that is different to the input size ({tuple(input.shape)}) "
            "is deprecated. Please ensure they have the same size."
        )
    if target.dtype != input.dtype:
        raise RuntimeError(
            f"binary_cross_entropy: Found dtype {target.dtype} of the target but expected {input.dtype}, "
            "the input's: convert it, target.to(input.dtype)"
        )
    loss = _BinaryCrossEntropy.apply(input, target)
    loss = reduced(loss if weight is None else loss * weight, reduction)
    # Of the result, so that the ranges are looked at in the loop that computes it.
    loss = _core.checked(loss, ~((input >= 0) & (input <= 1)), "probability")
    return _core.checked(loss, ~((target >= 0) & (target <= 1)), "target")


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Cross entropy between sigmoid(input) and targets from [0, 1], without overflow.

    >>> gt.nn.functional.binary_cross_entropy_with_logits(gt.zeros(2), gt.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    reduction = legacy(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise ValueError(f"Target size ({tuple(target.shape)}) must be the same as input size ({tuple(input.shape)})")
    if not target.is_floating_point():
        raise RuntimeError(
            f"binary_cross_entropy_with_logits: targets are probabilities, got {target.dtype}: convert them, target.float()"
        )
    log_probability = logsigmoid(input)
    if pos_weight is not None:
        log_probability = log_probability * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * input - log_probability
    return reduced(loss if weight is None else loss * weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The Kullback-Leibler divergence of `target` from `input`, which holds logarithms; "batchmean" is the one of books.

    >>> half = gt.tensor([[0.5, 0.5]])
    >>> gt.nn.functional.kl_div(half.log(), half, reduction="batchmean")
    tensor(0.)
    """
    reduction = legacy(reduction, size_average, reduce)
    loss = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.dim() else loss.sum()
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.",
            stacklevel=2,
        )
    return reduced(loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log likelihood of counts under a Poisson distribution; `full` adds Stirling's approximation.

    >>> gt.nn.functional.poisson_nll_loss(gt.zeros(2), gt.tensor([1.0, 3.0]))
    tensor(1.)
    """
    reduction = legacy(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        large = _core.where(target > 1, target, 1.0)
        stirling = large * large.log() - large + 0.5 * (2 * math.pi * large).log()
        loss = loss + _core.where(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log likelihood under normal distributions with the given variances, which are kept above `eps`.

    >>> gt.nn.functional.gaussian_nll_loss(gt.zeros(2), gt.tensor([1.0, 3.0]), gt.ones(2))
    tensor(2.5000)
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full(input.shape, var)
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif not (len(input.shape) == len(var.shape) and all(v in (1, n) for n, v in zip(input.shape, var.shape))):
            raise ValueError(f"var is of incorrect size: {tuple(var.shape)} for an input of {tuple(input.shape)}")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    # Kept above eps in value; the gradient is that of the variance itself.
    var = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (var.log() + (input - target).square() / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)
