"""Recurrent networks, one step at a time."""

from __future__ import annotations

import math
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn import functional as F
from gt.nn import init
from gt.nn.modules._rnn_steps import STEPS
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter


class _Cell(Module):
    """Parameters and checks of a cell."""

    _gates = 1

    def _build(self, input_size: int, hidden_size: int, bias: bool, device: Any, dtype: Any) -> None:
        Module.__init__(self)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = self._gates * hidden_size
        self.weight_ih = Parameter(_core.empty((gates, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(_core.empty((gates, hidden_size), device=device, dtype=dtype))
        if bias:
            self.bias_ih = Parameter(_core.empty(gates, device=device, dtype=dtype))
            self.bias_hh = Parameter(_core.empty(gates, device=device, dtype=dtype))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform between ±1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _step(self, kind: str, input: Tensor, state: list[Tensor | None]) -> list[Tensor]:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size} "
                f"in shape {tuple(input.shape)}"
            )
        shape = (*input.shape[:-1], self.hidden_size)
        full = [input.new_zeros(shape) if s is None else s for s in state]
        for s in full:
            if s.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {s.dim()}D instead")
            if tuple(s.shape) != shape:
                raise RuntimeError(f"{name}: a hidden state of shape {tuple(s.shape)} was given, expected {shape}")
        now = F.linear(input, self.weight_ih, self.bias_ih)
        return STEPS[kind](now, F.linear(full[0], self.weight_hh, self.bias_hh), full)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")


class RNNCell(_Cell):
    """One step of `RNN`.

    >>> gt.nn.RNNCell(3, 4)(gt.ones(2, 3)).shape
    gt.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        self._build(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, [hx])[0]

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(_Cell):
    """One step of `LSTM`.

    >>> h, c = gt.nn.LSTMCell(3, 4)(gt.ones(2, 3))
    >>> h.shape
    gt.Size([2, 4])
    """

    _gates = 4

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        self._build(input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next state and cell."""
        made = self._step("LSTM", input, [None, None] if hx is None else list(hx))
        return made[0], made[1]


class GRUCell(_Cell):
    """One step of `GRU`.

    >>> gt.nn.GRUCell(3, 4)(gt.ones(2, 3)).shape
    gt.Size([2, 4])
    """

    _gates = 3

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        self._build(input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        return self._step("GRU", input, [hx])[0]
