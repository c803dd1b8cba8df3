"""Losses that ask for a margin: between pairs, triplets, or the right class and the others."""

from __future__ import annotations

from collections.abc import Callable

from gt import _core
from gt._core import Tensor
from gt.nn.functional._activation import logsigmoid
from gt.nn.functional._distance import pairwise_distance
from gt.nn.functional._reduction import legacy, reduced


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, what it lacks of the margin where it is -1.

    >>> gt.nn.functional.hinge_embedding_loss(gt.tensor([0.5, 0.25]), gt.tensor([1.0, -1.0]), reduction="none")
    tensor([0.5000, 0.7500])
    """
    reduction = legacy(reduction, size_average, reduce)
    apart = _core.where(target != 1, (margin - input).clamp(min=0), 0.0)
    return reduced(apart + _core.where(target != -1, input, 0.0), reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What input1 lacks to be larger than input2 (target 1) or smaller (target -1) by a margin.

    >>> gt.nn.functional.margin_ranking_loss(gt.tensor([1.0]), gt.tensor([3.0]), gt.tensor([1.0]))
    tensor(2.)
    """
    reduction = legacy(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {tuple(input1.shape)}, input2: {tuple(input2.shape)}, target: {tuple(target.shape)} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, cos above a margin where it is -1.

    >>> gt.nn.functional.cosine_embedding_loss(gt.ones(1, 2), gt.ones(1, 2), gt.tensor([1.0]))
    tensor(0.)
    """
    reduction = legacy(reduction, size_average, reduce)
    if target.dim() > 1 or input1.shape != input2.shape or input1.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with sizes "
            f"{tuple(input1.shape)} and {tuple(input2.shape)} and a target of {tuple(target.shape)}"
        )
    product = (input1 * input2).sum(-1)
    squares = (input1.square().sum(-1) + 1e-12) * (input2.square().sum(-1) + 1e-12)
    cosine = product / squares.sqrt()
    alike = _core.where(target == 1, 1 - cosine, 0.0)
    return reduced(alike + _core.where(target == -1, (cosine - margin).clamp(min=0), 0.0), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How much nearer the positive should be to the anchor than the negative is.

    >>> gt.nn.functional.triplet_margin_loss(gt.zeros(1, 1), gt.zeros(1, 1), gt.full((1, 1), 0.25))
    tensor(0.7500)
    """
    reduction = legacy(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda a, b: pairwise_distance(a, b, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """As `triplet_margin_loss`, with a distance of your own.

    >>> gt.nn.functional.triplet_margin_with_distance_loss(gt.zeros(1, 1), gt.zeros(1, 1), gt.full((1, 1), 0.25))
    tensor(0.7500)
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {tuple(anchor.shape)}, positive {tuple(positive.shape)}, negative {tuple(negative.shape)}"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near = distance(anchor, positive)
    far = distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target · input)), for targets 1 and -1.

    >>> gt.nn.functional.soft_margin_loss(gt.zeros(2), gt.tensor([1.0, -1.0]))
    tensor(0.6931)
    """
    return reduced(-logsigmoid(target * input), legacy(reduction, size_average, reduce))


def _check_classes(scores: Tensor, input: Tensor) -> None:
    if scores.dim() != 2 or scores.shape[1] == 0:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What the right class lacks to be larger than each other class by a margin, to the power p.

    >>> gt.nn.functional.multi_margin_loss(gt.tensor([[0.5, 0.0]]), gt.tensor([0]))
    tensor(0.2500)
    """
    reduction = legacy(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"weight must be one-dimensional, got shape {tuple(weight.shape)}")
    single = input.dim() <= 1
    scores, index = (input.reshape(1, -1), target.reshape(1)) if single else (input, target)
    if scores.dim() != 2 or index.dim() != 1 or scores.shape[0] != index.shape[0]:
        raise RuntimeError(
            f"inconsistent target size: input shape {tuple(input.shape)}, target shape {tuple(target.shape)}"
        )
    _check_classes(scores, input)
    index = _core.checked(index, (index < 0) | (index >= scores.shape[1]), "target_out_of_range")
    right = scores.gather(1, index.unsqueeze(1))
    loss = (margin - right + scores).clamp(min=0)
    if p == 2:
        loss = loss.square()
    if weight is not None:
        loss = loss * weight.index_select(0, index).unsqueeze(1)
    others = _core.arange(scores.shape[1]).unsqueeze(0) != index.unsqueeze(1)
    total = _core.where(others, loss, 0.0).sum(1) / scores.shape[1]
    return reduced(total.squeeze(0) if single else total, reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What each right class lacks to be larger than each wrong one by 1; right classes are listed up to the first -1.

    >>> gt.nn.functional.multilabel_margin_loss(gt.tensor([[0.5, 0.0]]), gt.tensor([[0, -1]]))
    tensor(0.2500)
    """
    reduction = legacy(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise RuntimeError(f"inconsistent target size: {tuple(target.shape)} for input of size: {tuple(input.shape)}")
    single = input.dim() <= 1
    scores, labels = (input.reshape(1, -1), target.reshape(1, -1)) if single else (input, target)
    _check_classes(scores, input)
    classes = scores.shape[1]
    listed = (labels < 0).long().cumsum(1) == 0
    index = _core.where(listed, labels, 0)
    index = _core.checked(index, index >= classes, "target_out_of_range")
    is_right = ((index.unsqueeze(2) == _core.arange(classes)) & listed.unsqueeze(2)).any(1)
    right = scores.gather(1, index).unsqueeze(2)
    lack = (1 - (right - scores.unsqueeze(1))).clamp(min=0)
    pairs = listed.unsqueeze(2) & ~is_right.unsqueeze(1)
    total = _core.where(pairs, lack, 0.0).sum((1, 2)) / classes
    return reduced(total.squeeze(0) if single else total, reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy with logits, averaged over the classes.

    >>> gt.nn.functional.multilabel_soft_margin_loss(gt.zeros(1, 2), gt.tensor([[0.0, 1.0]]))
    tensor(0.6931)
    """
    reduction = legacy(reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.mean(-1), reduction)
