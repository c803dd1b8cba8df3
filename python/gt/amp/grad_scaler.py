"""Scaling of losses, so that gradients in float16 neither vanish nor overflow. bfloat16 does not need it.

SCALER-1: whether a step is taken depends on the gradients, so an enabled scaler reads one number for each step of an
          optimizer. Nothing else of it waits.
"""

from __future__ import annotations

import warnings
from typing import Any

from gt import _core, cuda
from gt._core import Tensor
from gt._grad_mode import no_grad
from gt.optim.optimizer import Optimizer

_READY, _UNSCALED, _STEPPED = range(3)


class _OfOptimizer:
    """What happened to an optimizer's gradients since the last update."""

    def __init__(self) -> None:
        self.stage = _READY
        self.infinite: Tensor | None = None
        self.found: bool | None = None

    def overflowed(self) -> bool:
        """Whether a gradient was infinite or NaN: the one read."""
        if self.found is None:
            self.found = self.infinite is not None and bool(self.infinite)
        return self.found


class GradScaler:
    """Scales the loss, unscales the gradients, and leaves steps out whose gradients overflowed.

    >>> x = gt.tensor([2.0], requires_grad=True)
    >>> opt = gt.optim.SGD([x], lr=0.5)
    >>> scaler = gt.amp.GradScaler("cpu", init_scale=1024.0)
    >>> scaler.scale(x.sum()).backward()
    >>> scaler.step(opt)
    >>> scaler.update()
    >>> x.detach()
    tensor([1.5000])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and str(device).startswith("cuda") and not cuda.is_available():
            warnings.warn("GradScaler is enabled for CUDA, but CUDA is not available. Disabling.", stacklevel=2)
            enabled = False
        if enabled and not growth_factor > 1.0:
            raise ValueError("The growth factor must be > 1.0.")
        if enabled and not backoff_factor < 1.0:
            raise ValueError("The backoff factor must be < 1.0.")
        self._device = device
        self._enabled = enabled
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._optimizers: dict[int, _OfOptimizer] = {}

    def scale(self, outputs: Any) -> Any:
        """The outputs times the scale; lists and tuples of tensors keep their form."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(inner) for inner in outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _of(self, optimizer: Optimizer) -> _OfOptimizer:
        return self._optimizers.setdefault(id(optimizer), _OfOptimizer())

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients by the scale, so that they can be clipped. Does not wait."""
        if not self._enabled:
            return
        of = self._of(optimizer)
        if of.stage == _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if of.stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(grad.dtype == _core.float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        with no_grad():
            for grad in grads:
                grad.mul_(1.0 / self._scale)
            if grads:
                of.infinite = _core.stack([grad.isfinite().all() for grad in grads]).all().logical_not()
        of.stage = _UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)`, unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or args:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        of = self._of(optimizer)
        if of.stage == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if of.stage == _READY:
            self.unscale_(optimizer)
        if of.infinite is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        out = None if of.overflowed() else optimizer.step()
        of.stage = _STEPPED
        return out

    def update(self, new_scale: Any = None) -> None:
        """Makes the scale smaller after an overflow, and larger after `growth_interval` steps without one."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            looked_at = [of for of in self._optimizers.values() if of.infinite is not None]
            if not looked_at:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(of.overflowed() for of in looked_at):
                self._scale *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    self._scale *= self._growth_factor
                    self._growth_tracker = 0
        self._optimizers.clear()

    def get_scale(self) -> float:
        """The scale, 1.0 where scaling is off."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By how much the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets by how much the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets by how much the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps without an overflow the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many steps without an overflow the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it moves; empty where scaling is off.

        >>> gt.amp.GradScaler("cpu", init_scale=8.0).state_dict()["scale"]
        8.0
        """
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = int(state_dict["_growth_tracker"])
