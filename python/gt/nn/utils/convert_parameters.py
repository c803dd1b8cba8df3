"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters joined into one vector.

    >>> gt.nn.utils.parameters_to_vector([gt.ones(2), gt.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    return _core.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Writes the parts of one vector to parameters.

    >>> p = gt.nn.Parameter(gt.ones(2))
    >>> gt.nn.utils.vector_to_parameters(gt.tensor([5.0, 6.0]), [p])
    >>> p.tolist()
    [5.0, 6.0]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected gt.Tensor, but got: {type(vec).__name__}")
    start = 0
    with no_grad():
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.copy_(vec[start:end].reshape(parameter.shape))
            start = end
