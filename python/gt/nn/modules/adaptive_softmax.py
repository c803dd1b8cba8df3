"""A softmax over many classes, of which rare ones share clusters with smaller layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gt import _core
from gt._core import Tensor
from gt.nn.modules.container import ModuleList, Sequential
from gt.nn.modules.linear import Linear
from gt.nn.modules.module import Module


class ASMOutput(NamedTuple):
    """The log probability of each target, and the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The classes below the first cutoff have scores of their own; each later cluster is one more score and a tail.

    PyTorch computes a tail for the rows that need it; here it is computed for all, so that nothing waits for the targets.

    >>> m = gt.nn.AdaptiveLogSoftmaxWithLoss(16, 10, [2, 5])
    >>> m(gt.ones(3, 16), gt.tensor([0, 4, 9])).output.shape
    gt.Size([3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cuts = list(cutoffs)
        if not cuts:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cuts != sorted(set(cuts))
            or cuts[0] <= 0
            or cuts[-1] > n_classes - 1
            or any(int(cut) != cut for cut in cuts)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                f"where each value is between 1 and n_classes-1, got {cuts}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cuts, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cuts[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, hidden, bias=False, **made), Linear(hidden, size, bias=False, **made))
            )

    def reset_parameters(self) -> None:
        """Draws all weights again."""
        self.head.reset_parameters()
        for projection in self.tail:
            for layer in projection:
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMOutput:
        """The log probability of each target, and minus its mean."""
        if target_.dim() == 1:
            if input_.shape[0] != target_.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError(f"1D target tensor expects 2D input tensors, but found shape {tuple(input_.shape)}")
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(f"0D target tensor expects 1D input tensors, but found shape {tuple(input_.shape)}")
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        single = target_.dim() == 0
        input = input_.unsqueeze(0) if single else input_
        target = target_.reshape(-1)
        target = _core.checked(target, (target < 0) | (target >= self.n_classes), "target_out_of_range")
        scores = self.head(input).log_softmax(1)
        output = scores.gather(1, target.clamp(max=self.shortlist_size - 1).unsqueeze(1)).squeeze(1)
        for i, projection in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            place = (target - low).clamp(0, high - low - 1)
            inside = projection(input).log_softmax(1).gather(1, place.unsqueeze(1)).squeeze(1)
            inside = inside + scores[:, self.shortlist_size + i]
            output = _core.where((target >= low) & (target < high), inside, output)
        loss = (-output).mean()
        return ASMOutput(output.squeeze(0) if single else output, loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities (N, n_classes) of all classes."""
        head = self.head(input).log_softmax(1)
        parts = [head[:, : self.shortlist_size]]
        for i, projection in enumerate(self.tail):
            parts.append(projection(input).log_softmax(1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return _core.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The class of the largest probability for each row."""
        return self.log_prob(input).argmax(1)
