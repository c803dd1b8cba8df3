"""Activations as modules. What each computes is in `gt.nn.functional`."""

from __future__ import annotations

from typing import Any

from gt import _core
from gt._core import Tensor
from gt.nn import functional as F
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter


class _InPlace(Module):
    """An activation that may write to its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0).

    >>> gt.nn.ReLU()(gt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.relu(input, self.inplace)


class SiLU(_InPlace):
    """x · sigmoid(x).

    >>> gt.nn.SiLU()(gt.tensor([1.0]))
    tensor([0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """x · tanh(softplus(x)).

    >>> gt.nn.Mish()(gt.tensor([1.0]))
    tensor([0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.mish(input, self.inplace)


class SELU(_InPlace):
    """ELU scaled so that it keeps mean 0 and variance 1.

    >>> gt.nn.SELU()(gt.tensor([1.0]))
    tensor([1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.selu(input, self.inplace)


class Hardsigmoid(_InPlace):
    """x / 6 + 1/2, kept between 0 and 1.

    >>> gt.nn.Hardsigmoid()(gt.tensor([0.0]))
    tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """x · hardsigmoid(x).

    >>> gt.nn.Hardswish()(gt.tensor([3.0]))
    tensor([3.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardtanh(Module):
    """Kept between two bounds.

    >>> gt.nn.Hardtanh()(gt.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if max_val <= min_val:
            raise AssertionError(f"max_val must be larger than min_val, got {max_val} and {min_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6).

    >>> gt.nn.ReLU6()(gt.tensor([-1.0, 9.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """x above zero, `negative_slope` times x below.

    >>> gt.nn.LeakyReLU(0.5)(gt.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """x above zero, alpha · (exp(x) - 1) below.

    >>> gt.nn.ELU()(gt.tensor([2.0]))
    tensor([2.])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(ELU):
    """x above zero, alpha · (exp(x / alpha) - 1) below.

    >>> gt.nn.CELU(2.0)(gt.tensor([2.0]))
    tensor([2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.celu(input, self.alpha, self.inplace)


class GELU(Module):
    """x times the normal distribution function of x.

    >>> gt.nn.GELU()(gt.tensor([1.0]))
    tensor([0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return input.gelu(self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta · x)) / beta.

    >>> gt.nn.Softplus()(gt.tensor([0.0]))
    tensor([0.6931])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softsign(Module):
    """x / (1 + |x|).

    >>> gt.nn.Softsign()(gt.tensor([1.0]))
    tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.softsign(input)


class Hardshrink(Module):
    """x, but zero within ±lambd.

    >>> gt.nn.Hardshrink()(gt.tensor([0.25, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(Hardshrink):
    """x moved towards zero by lambd, and zero within ±lambd.

    >>> gt.nn.Softshrink()(gt.tensor([0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.softshrink(input, self.lambd)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> gt.nn.Tanhshrink()(gt.tensor([1.0]))
    tensor([0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.tanhshrink(input)


class Threshold(Module):
    """x above a threshold, `value` elsewhere.

    >>> gt.nn.Threshold(2.0, 9.0)(gt.tensor([1.0, 3.0]))
    tensor([9., 3.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """x above zero, a learned weight times x below.

    >>> gt.nn.PReLU()(gt.tensor([-4.0, 3.0])).tolist()
    [-1.0, 3.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(_core.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every weight as it was asked for."""
        from gt.nn.init import constant_

        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """Leaky ReLU with a random slope for every element in training.

    >>> gt.nn.RReLU().eval()(gt.tensor([-48.0, 3.0]))
    tensor([-11.,   3.])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class GLU(Module):
    """The first half times the sigmoid of the second.

    >>> gt.nn.GLU()(gt.tensor([4.0, 0.0]))
    tensor([2.])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Half of the input, gated by the other half."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSigmoid(Module):
    """log(sigmoid(x)).

    >>> gt.nn.LogSigmoid()(gt.tensor([0.0]))
    tensor([-0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.logsigmoid(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> gt.nn.Sigmoid()(gt.tensor([0.0]))
    tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> gt.nn.Tanh()(gt.tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.tanh(input)


class _AlongDim(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int)):
            raise TypeError(f"dim must be an int or None, got {type(dim)}")
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """Exponentials that sum to 1 along `dim`.

    >>> gt.nn.Softmax(dim=0)(gt.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Probabilities."""
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongDim):
    """The logarithm of softmax.

    >>> gt.nn.LogSoftmax(dim=0)(gt.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Logarithms of probabilities."""
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """Softmax of the negated input.

    >>> gt.nn.Softmin(dim=0)(gt.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Probabilities."""
        return F.softmin(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W).

    >>> gt.nn.Softmax2d()(gt.zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Probabilities of channels."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D: {tuple(input.shape)}")
        return input.softmax(-3)
