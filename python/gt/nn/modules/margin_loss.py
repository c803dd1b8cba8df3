"""Losses that ask for a margin, as modules."""

from __future__ import annotations

from collections.abc import Callable

from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.modules.distance import PairwiseDistance
from gt.nn.modules.loss import _Loss, _WeightedLoss


class HingeEmbeddingLoss(_Loss):
    """The input where the target is 1, what it lacks of the margin where it is -1.

    >>> gt.nn.HingeEmbeddingLoss()(gt.tensor([0.5, 0.0]), gt.tensor([1.0, -1.0]))
    tensor(0.7500)
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """What one input lacks to be larger than the other by a margin.

    >>> gt.nn.MarginRankingLoss()(gt.tensor([1.0]), gt.tensor([3.0]), gt.tensor([1.0]))
    tensor(2.)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos where the target is 1, cos above a margin where it is -1.

    >>> gt.nn.CosineEmbeddingLoss()(gt.ones(1, 2), gt.ones(1, 2), gt.tensor([1.0]))
    tensor(0.)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """How much nearer the positive should be to the anchor than the negative is.

    >>> gt.nn.TripletMarginLoss()(gt.zeros(1, 1), gt.zeros(1, 1), gt.full((1, 1), 0.25))
    tensor(0.7500)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """As `TripletMarginLoss`, with a distance of your own.

    >>> gt.nn.TripletMarginWithDistanceLoss()(gt.zeros(1, 1), gt.zeros(1, 1), gt.full((1, 1), 0.25))
    tensor(0.7500)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target · input)), for targets 1 and -1.

    >>> gt.nn.SoftMarginLoss()(gt.zeros(2), gt.tensor([1.0, -1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """What the right class lacks to be larger than each other class by a margin.

    >>> gt.nn.MultiMarginLoss()(gt.tensor([[0.5, 0.0]]), gt.tensor([0]))
    tensor(0.2500)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """What each right class lacks to be larger than each wrong one by 1.

    >>> gt.nn.MultiLabelMarginLoss()(gt.tensor([[0.5, 0.0]]), gt.tensor([[0, -1]]))
    tensor(0.2500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross entropy with logits, averaged over the classes.

    >>> gt.nn.MultiLabelSoftMarginLoss()(gt.zeros(1, 2), gt.tensor([[0.0, 1.0]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)
