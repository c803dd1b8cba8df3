"""AdamW: Adam with weight decay taken off the parameter itself."""

from __future__ import annotations

from typing import Any

from gt.optim.adam import Adam


class AdamW(Adam):
    """Adam whose weight decay does not pass through the averages.

    >>> x = gt.tensor([1.0], requires_grad=True)
    >>> opt = gt.optim.AdamW([x], lr=0.1, weight_decay=0.5)
    >>> x.sum().backward()
    >>> opt.step()
    >>> x.detach()
    tensor([0.8500])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # State written by a version without the option, or by Adam, is AdamW's once it is loaded here.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
