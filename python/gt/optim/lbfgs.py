"""L-BFGS: quasi-Newton steps from the last few changes of the gradient.

LBFGS-1: unlike the other optimizers it decides by values, so a step reads: the loss, the largest gradient and a few inner
         products for each iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._grad_mode import enable_grad, no_grad
from gt.optim.line_search import Point, strong_wolfe
from gt.optim.list_optimizer import check_rate
from gt.optim.optimizer import Closure, Optimizer


class LBFGS(Optimizer):
    """L-BFGS for one group of parameters; `step` takes a closure that computes the loss and its gradients.

    >>> x = gt.tensor([3.0, -4.0], requires_grad=True)
    >>> opt = gt.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = (x - 1).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> opt.step(closure).item()
    29.0
    >>> x.detach()
    tensor([1.0000, 1.0000])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        check_rate(lr)
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
                "maximize": maximize,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]  # type: ignore[no-any-return]

    def _flat_gradient(self) -> Tensor:
        grads = [_core.zeros_like(p) if p.grad is None else p.grad.detach() for p in self._params]
        flat = _core.cat([grad.reshape(-1) for grad in grads])
        return -flat if self.param_groups[0]["maximize"] else flat

    def _move(self, t: Any, direction: Tensor) -> None:
        parts = direction.split([p.numel() for p in self._params])
        for param, part in zip(self._params, parts):
            param.add_(part.reshape(param.shape) * t)

    @no_grad()
    def step(self, closure: Closure) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations; returns the loss at the start."""
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        max_eval, tolerance = group["max_eval"], group["tolerance_change"]

        def evaluate() -> tuple[Any, float, Tensor]:
            with enable_grad():
                loss = closure()
            return loss, -float(loss) if group["maximize"] else float(loss), self._flat_gradient()

        first_loss, loss, grad = evaluate()
        evaluations = 1
        state["func_evals"] += 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            first = state["n_iter"] == 1
            direction = -grad if first else _direction(state, grad, group["history_size"])
            if first:
                state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            last_loss = loss
            lr = float(group["lr"])
            t = min(1.0, 1.0 / float(grad.abs().sum())) * lr if first else lr
            state.update(d=direction, t=t, prev_flat_grad=grad, prev_loss=loss)
            slope = float(grad.dot(direction))
            if slope > -tolerance:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = Point(0.0, loss, grad, slope)
                point, calls = self._search(evaluate, direction, start, t, max_eval - evaluations)
                loss, grad, t = point.value, point.gradient, point.t
                state["t"] = t
                self._move(t, direction)
            else:
                self._move(t, direction)
                # After the last iteration nothing would look at them.
                if iteration != group["max_iter"]:
                    _, loss, grad = evaluate()
                    calls = 1
            evaluations += calls
            state["func_evals"] += calls
            if iteration == group["max_iter"] or evaluations >= max_eval:
                break
            if _largest(grad) <= group["tolerance_grad"]:
                break
            if _largest(direction * t) <= tolerance or abs(loss - last_loss) < tolerance:
                break
        return first_loss

    def _search(
        self, evaluate: Callable[[], tuple[Any, float, Tensor]], direction: Tensor, start: Point, t: float, limit: int
    ) -> tuple[Point, int]:
        home = [param.clone() for param in self._params]

        def along(t: float) -> tuple[float, Tensor]:
            self._move(t, direction)
            _, loss, grad = evaluate()
            for param, value in zip(self._params, home):
                param.copy_(value)
            return loss, grad

        return strong_wolfe(along, direction, start, t, max_evaluations=limit)


def _largest(x: Tensor) -> float:
    return float(x.abs().max())


def _direction(state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
    """The gradient times the inverse Hessian that the history stands for: the two-loop recursion."""
    changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    change, step = grad - state["prev_flat_grad"], state["d"] * state["t"]
    product, square = _core.stack([change.dot(step), change.dot(change)]).tolist()
    if product > 1e-10:
        if len(changes) == history_size:
            for history in (changes, steps, ro):
                history.pop(0)
        changes.append(change)
        steps.append(step)
        ro.append(1.0 / product)
        state["H_diag"] = product / square
    q: Tensor = -grad
    shares: list[Tensor] = []
    for y, s, r in zip(reversed(changes), reversed(steps), reversed(ro)):
        share = s.dot(q) * r
        shares.append(share)
        q = q - y * share
    q = q * state["H_diag"]
    for y, s, r, share in zip(changes, steps, ro, reversed(shares)):
        q = q + s * (share - y.dot(q) * r)
    return q
