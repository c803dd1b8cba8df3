"""One step of each kind of recurrent network: from the projected input, the projected state and the state to a new state."""

from __future__ import annotations

from collections.abc import Callable

from gt._core import Tensor

Step = Callable[[Tensor, Tensor, list[Tensor]], list[Tensor]]


def _tanh(now: Tensor, recurrent: Tensor, state: list[Tensor]) -> list[Tensor]:
    return [(now + recurrent).tanh()]


def _relu(now: Tensor, recurrent: Tensor, state: list[Tensor]) -> list[Tensor]:
    return [(now + recurrent).relu()]


def _lstm(now: Tensor, recurrent: Tensor, state: list[Tensor]) -> list[Tensor]:
    taken, kept, new, shown = (now + recurrent).chunk(4, -1)
    cell = kept.sigmoid() * state[1] + taken.sigmoid() * new.tanh()
    return [shown.sigmoid() * cell.tanh(), cell]


def _gru(now: Tensor, recurrent: Tensor, state: list[Tensor]) -> list[Tensor]:
    reset_now, update_now, new_now = now.chunk(3, -1)
    reset_old, update_old, new_old = recurrent.chunk(3, -1)
    reset = (reset_now + reset_old).sigmoid()
    update = (update_now + update_old).sigmoid()
    new = (new_now + reset * new_old).tanh()
    return [new + update * (state[0] - new)]


STEPS: dict[str, Step] = {"RNN_TANH": _tanh, "RNN_RELU": _relu, "LSTM": _lstm, "GRU": _gru}
