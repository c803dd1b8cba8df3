"""Filling parameters with their first values, in place and outside of autograd."""

from __future__ import annotations

import math
import warnings
from typing import Any

from gt import _core
from gt._core import Generator, Tensor
from gt._grad_mode import no_grad
from gt._missing import names_missing_in as _names_missing_in

_FIXED_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """How much to scale weights so that a nonlinearity keeps the variance.

    >>> gt.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _FIXED_GAINS:
        return _FIXED_GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output sees, and how many outputs an input."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans


def _fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _fans(tensor)
    return fan_in if mode == "fan_in" else fan_out


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform on [a, b).

    >>> bool((gt.nn.init.uniform_(gt.empty(9), 2, 3) >= 2).all())
    True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with a mean and a standard deviation.

    >>> gt.nn.init.normal_(gt.empty(2, 3)).shape
    gt.Size([2, 3])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, drawn again outside of [a, b].

    >>> bool((gt.nn.init.trunc_normal_(gt.empty(99)).abs() <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    # By the inverse of the distribution function: uniform between its values at the bounds.
    low, high = _normal_cdf((a - mean) / std), _normal_cdf((b - mean) / std)
    with no_grad():
        tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
        tensor.erfinv_()
        tensor.mul_(std * math.sqrt(2.0)).add_(mean)
        return tensor.clamp_(min=a, max=b)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere.

    >>> gt.nn.init.constant_(gt.empty(2), 3)
    tensor([3., 3.])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """One everywhere.

    >>> gt.nn.init.ones_(gt.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zero everywhere.

    >>> gt.nn.init.zeros_(gt.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix.

    >>> gt.nn.init.eye_(gt.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}")
    with no_grad():
        return tensor.copy_(_core.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights that give the input back, as far as there are channels.

    >>> gt.nn.init.dirac_(gt.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"Only tensors with 3, 4, or 5 dimensions are supported, got shape {tuple(tensor.shape)}")
    if tensor.shape[0] % groups:
        raise ValueError(f"dim 0 must be divisible by groups, got {tensor.shape[0]} and {groups}")
    per_group = tensor.shape[0] // groups
    same = min(per_group, tensor.shape[1])
    middle = tuple(n // 2 for n in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(same):
                tensor[(group * per_group + channel, channel, *middle)] = 1
        return tensor


def _refuse_zero_fans(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform between ±gain·√(6 / (fan_in + fan_out)).

    >>> bool((gt.nn.init.xavier_uniform_(gt.empty(3, 3)).abs() <= 1).all())
    True
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with the standard deviation gain·√(2 / (fan_in + fan_out)).

    >>> gt.nn.init.xavier_normal_(gt.empty(3, 3)).shape
    gt.Size([3, 3])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform between ±gain·√(3 / fan).

    >>> bool((gt.nn.init.kaiming_uniform_(gt.empty(3, 6)).abs() <= 1).all())
    True
    """
    if _refuse_zero_fans(tensor):
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with the standard deviation gain / √fan.

    >>> gt.nn.init.kaiming_normal_(gt.empty(3, 6)).shape
    gt.Size([3, 6])
    """
    if _refuse_zero_fans(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A random matrix with orthonormal rows or columns, whichever are fewer.

    >>> w = gt.nn.init.orthogonal_(gt.empty(2, 5))
    >>> gt.allclose(w @ w.T, gt.eye(2), atol=1e-5)
    True
    """
    if tensor.dim() < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, got shape {tuple(tensor.shape)}")
    if tensor.numel() == 0:
        return tensor
    rows, cols = tensor.shape[0], tensor.numel() // tensor.shape[0]
    tall = _core.randn(max(rows, cols), min(rows, cols), dtype=_core.float64, generator=generator)
    with no_grad():
        made = _orthonormal_columns(tall)
        made = made.t() if rows < cols else made
        return tensor.copy_((made * gain).reshape(tensor.shape))


def _orthonormal_columns(tall: Tensor) -> Tensor:
    """Columns made orthonormal one after the other (Gram-Schmidt, twice, which is enough in float64)."""
    basis: Tensor | None = None
    for i in range(tall.shape[1]):
        column = tall[:, i : i + 1]
        if basis is not None:
            for _ in range(2):
                column = column - basis.matmul(basis.t().matmul(column))
        column = column / column.norm()
        basis = column if basis is None else _core.cat([basis, column], 1)
    assert basis is not None
    return basis


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal, with a share of each column set to zero.

    >>> (gt.nn.init.sparse_(gt.empty(10, 2), 0.3) == 0).sum(0)
    tensor([3, 3])
    """
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        # The rank of a random number within its column is a random permutation of the rows.
        rank = _core.rand(rows, cols, generator=generator).argsort(0).argsort(0)
        return tensor.masked_fill_(rank < zeros, 0)


def _old_name(name: str, new: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"nn.init.{name} is now deprecated in favor of nn.init.{name}_.", FutureWarning, stacklevel=2)
        return new(*args, **kwargs)  # type: ignore[no-any-return]

    call.__name__ = name
    call.__doc__ = f"The old name of `{name}_`."
    return call


uniform = _old_name("uniform", uniform_)
normal = _old_name("normal", normal_)
constant = _old_name("constant", constant_)
eye = _old_name("eye", eye_)
dirac = _old_name("dirac", dirac_)
xavier_uniform = _old_name("xavier_uniform", xavier_uniform_)
xavier_normal = _old_name("xavier_normal", xavier_normal_)
kaiming_uniform = _old_name("kaiming_uniform", kaiming_uniform_)
kaiming_normal = _old_name("kaiming_normal", kaiming_normal_)
orthogonal = _old_name("orthogonal", orthogonal_)
sparse = _old_name("sparse", sparse_)

__path__: list[str] = []
__getattr__ = _names_missing_in("gt.nn.init")
