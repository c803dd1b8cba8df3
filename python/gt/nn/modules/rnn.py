"""Recurrent networks: RNN, LSTM and GRU over whole sequences.

RNN-1: the inputs of all steps are projected in one product; only what depends on the state runs step by step.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.amp.mode import is_autocast_enabled
from gt.nn import functional as F
from gt.nn import init
from gt.nn.modules._rnn_steps import STEPS
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter
from gt.nn.utils.packed_sequence import PackedSequence, packed_steps, padded_steps

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters of all layers and directions, and the walk along the sequence.

    >>> isinstance(gt.nn.LSTM(3, 4), gt.nn.RNNBase)
    True
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        for name, switch in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(switch, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(switch).__name__}")
        if not 0 <= dropout <= 1:
            raise ValueError(
                f"dropout should be a number in range [0, 1] representing the probability of an element being zeroed, got {dropout}"
            )
        if input_size <= 0:
            raise ValueError(f"input_size must be greater than zero, got {input_size}")
        if hidden_size <= 0:
            raise ValueError(f"hidden_size must be greater than zero, got {hidden_size}")
        if num_layers <= 0:
            raise ValueError(f"num_layers must be greater than zero, got {num_layers}")
        if proj_size < 0 or proj_size >= hidden_size:
            raise ValueError(
                f"proj_size has to be a positive integer, smaller than hidden_size, or zero; got {proj_size}"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
                f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        gates = _GATES[mode] * hidden_size
        state = proj_size or hidden_size
        for layer in range(num_layers):
            for end in self._ends():
                width = input_size if layer == 0 else state * len(self._ends())
                shapes = {"weight_ih": (gates, width), "weight_hh": (gates, state)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}  # type: ignore[dict-item]
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{end}", Parameter(_core.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _ends(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def reset_parameters(self) -> None:
        """Uniform between ±1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: where parameters lie is the worker's business."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of every layer and direction."""
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        names += ["weight_hr"] if self.proj_size else []
        return [
            [getattr(self, f"{name}_l{layer}{end}") for name in names]
            for layer in range(self.num_layers)
            for end in self._ends()
        ]

    def _check(self, input: Any) -> None:
        if not isinstance(input, Tensor):
            raise TypeError(f"{type(self).__name__} takes a tensor or a PackedSequence, got {type(input).__name__}")
        if input.dim() not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        weight = self.weight_ih_l0
        if input.dtype != weight.dtype and not is_autocast_enabled():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}: "
                f"shape {tuple(input.shape)}"
            )

    def _states(self, given: Any, batch: int, like: Tensor) -> list[Tensor]:
        """The first states of all layers: hidden, and for LSTM the cells."""
        rows = self.num_layers * len(self._ends())
        widths = [self.proj_size or self.hidden_size] + ([self.hidden_size] if self.mode == "LSTM" else [])
        if given is None:
            return [like.new_zeros(rows, batch, width) for width in widths]
        states = list(given) if self.mode == "LSTM" else [given]
        for state, width in zip(states, widths):
            if tuple(state.shape) != (rows, batch, width):
                raise RuntimeError(f"Expected hidden size {(rows, batch, width)}, got {list(state.shape)}")
        return states

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The states of the last layer at every step, and the last states of all layers."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check(input)
        single = input.dim() == 2
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        if single and hx is not None:
            hx = tuple(h.unsqueeze(1) for h in hx) if self.mode == "LSTM" else hx.unsqueeze(1)
        x, final = self._layers(x, self._states(hx, x.shape[1], x))
        if single:
            x, final = x.squeeze(1), [f.squeeze(1) for f in final]
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, (tuple(final) if self.mode == "LSTM" else final[0])

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """As `forward`, with steps beyond the end of a sequence that leave its state as it is."""
        sizes = input.step_sizes()
        x = padded_steps(input.data, sizes)
        self._check(x)
        batch = sizes[0]
        first = self._states(hx, batch, x)
        if hx is not None and input.sorted_indices is not None:
            first = [state.index_select(1, input.sorted_indices) for state in first]
        here = [None if size == batch else _core.arange(batch).unsqueeze(1) < size for size in sizes]
        x, final = self._layers(x, first, here)
        if input.unsorted_indices is not None:
            final = [state.index_select(1, input.unsorted_indices) for state in final]
        return input.with_data(packed_steps(x, sizes)), (tuple(final) if self.mode == "LSTM" else final[0])

    def _layers(
        self, x: Tensor, first: list[Tensor], here: list[Tensor | None] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """All layers and directions; `here` says which rows of the batch reach each step."""
        last: list[list[Tensor]] = [[] for _ in first]
        row = 0
        for layer in range(self.num_layers):
            directions = []
            for end in self._ends():
                out, state = self._walk(x, f"_l{layer}{end}", [s[row] for s in first], end != "", here)
                directions.append(out)
                for kept, new in zip(last, state):
                    kept.append(new)
                row += 1
            x = directions[0] if len(directions) == 1 else _core.cat(directions, -1)
            if self.dropout and self.training and layer + 1 < self.num_layers:
                x = F.dropout(x, self.dropout)
        return x, [_core.stack(kept) for kept in last]

    def _walk(
        self, x: Tensor, suffix: str, state: list[Tensor], reverse: bool, here: list[Tensor | None] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        own = self.__dict__
        recurrent = own["weight_hh" + suffix].t()
        bias = own.get("bias_hh" + suffix)
        projection = own.get("weight_hr" + suffix)
        inputs = F.linear(x, own["weight_ih" + suffix], own.get("bias_ih" + suffix)).unbind(0)
        step = STEPS[self.mode]
        outputs: list[Tensor] = []
        for place in range(len(inputs))[:: -1 if reverse else 1]:
            product = state[0].matmul(recurrent)
            old, state = state, step(inputs[place], product if bias is None else product + bias, state)
            if projection is not None:
                state[0] = state[0].matmul(projection.t())
            reached = None if here is None else here[place]
            if reached is not None:
                state = [_core.where(reached, new, kept) for new, kept in zip(state, old)]
            outputs.append(state[0])
        return _core.stack(outputs[::-1] if reverse else outputs), state

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout:
            text += f", dropout={self.dropout}"
        return text + (f", bidirectional={self.bidirectional}" if self.bidirectional is not False else "")


class RNN(RNNBase):
    """Elman's network: h = tanh(W x + U h), over (length, batch, features).

    >>> out, h = gt.nn.RNN(3, 4)(gt.ones(5, 2, 3))
    >>> out.shape, h.shape
    (gt.Size([5, 2, 4]), gt.Size([1, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory, over (length, batch, features).

    >>> out, (h, c) = gt.nn.LSTM(3, 4)(gt.ones(5, 2, 3))
    >>> out.shape, c.shape
    (gt.Size([5, 2, 4]), gt.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units, over (length, batch, features).

    >>> out, h = gt.nn.GRU(3, 4)(gt.ones(5, 2, 3))
    >>> out.shape, h.shape
    (gt.Size([5, 2, 4]), gt.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.pop("proj_size", 0):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)
