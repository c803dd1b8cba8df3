"""Which operations run in which precision under autocast, and how they come to it.

CASTS-1: an operation that casts its arguments turns the mode off for what it is made of, as in PyTorch.
CASTS-2: float64 is never cast, nor is what is not a float; an explicit `dtype=` wins.
CASTS-3: the operations are replaced when autocast is first entered, everywhere in the package; a program that never does
         pays nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from gt import _core
from gt._core import Tensor
from gt.amp.mode import mode

# Products, in the lower dtype.
LOWER_METHODS = "__matmul__ __rmatmul__ matmul mm bmm mv addmm addmv addr addbmm baddbmm".split()
LOWER_FUNCTIONS = "einsum chain_matmul tensordot".split()
LOWER_NN = """linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d prelu
scaled_dot_product_attention""".split()

# Of those, what blocks that name the CPU leave as it is.
UNCHANGED_ON_CPU = frozenset("mv addmv addr bilinear".split())

# What loses too much in the lower dtype, in float32. Of the extension's table, the rows that say so.
FLOAT_METHODS = """__pow__ __rpow__ __rtruediv__ cumprod cumsum dist log_softmax logsumexp norm prod renorm softmax
sum""".split()
FLOAT_METHODS += [name for row in _core._rows() if row.autocast for name, _ in row.names]
FLOAT_FUNCTIONS = "cdist".split()
FLOAT_NN = """softmax log_softmax softmin softplus layer_norm group_norm rms_norm instance_norm local_response_norm normalize
cosine_similarity pairwise_distance pdist cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div
binary_cross_entropy binary_cross_entropy_with_logits poisson_nll_loss gaussian_nll_loss cosine_embedding_loss
hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss
soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss ctc_loss gumbel_softmax""".split()

# Of those, what is computed in float32 in blocks that name the CPU, too.
FLOAT_ON_CPU = frozenset(
    """cdist prod cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy
    binary_cross_entropy_with_logits poisson_nll_loss cosine_embedding_loss hinge_embedding_loss margin_ranking_loss
    multi_margin_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss ctc_loss""".split()
)

_NARROW = (_core.float16, _core.bfloat16)
_CASTABLE = (_core.float32, *_NARROW)


def _lowered(value: Any, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        return _cast(value, dtype) if value.dtype in _CASTABLE and value.dtype != dtype else value
    if isinstance(value, (list, tuple)) and any(isinstance(inner, Tensor) for inner in value):
        return type(value)(_lowered(inner, dtype) for inner in value)
    return value


def _cast(tensor: Tensor, dtype: Any) -> Tensor:
    """The tensor in another dtype; a leaf that collects gradients is cast once in a block (AUTOCAST-2)."""
    if not (mode.cache_enabled and tensor.requires_grad and tensor.is_leaf):
        return tensor.to(dtype)
    key = (id(tensor), tensor._version, _core.is_grad_enabled())
    held = mode.cache.get(key)
    if held is None or held[0] is not tensor or held[1].dtype != dtype:
        held = mode.cache[key] = (tensor, tensor.to(dtype))
    return held[1]


def _widened(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.float() if value.dtype in _NARROW else value
    if isinstance(value, (list, tuple)) and any(isinstance(inner, Tensor) for inner in value):
        return type(value)(_widened(inner) for inner in value)
    return value


def lower_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose float arguments take the lower dtype in an autocast block.

    >>> from gt.amp.casts import lower_precision
    >>> twice = lower_precision(lambda x: x * 2)
    >>> with gt.amp.autocast("bfloat16"):
    ...     twice(gt.ones(1)).dtype
    gt.bfloat16
    """
    unchanged_on_cpu = getattr(function, "__name__", "") in UNCHANGED_ON_CPU

    @wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        dtype = mode.dtype
        if dtype is None or (unchanged_on_cpu and mode.device == "cpu"):
            return function(*args, **kwargs)
        mode.dtype = None
        try:
            named = {name: _lowered(value, dtype) for name, value in kwargs.items()}
            return function(*[_lowered(value, dtype) for value in args], **named)
        finally:
            mode.dtype = dtype

    return inside


def full_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose float16 and bfloat16 arguments are float32 in an autocast block.

    >>> from gt.amp.casts import full_precision
    >>> twice = full_precision(lambda x: x * 2)
    >>> with gt.amp.autocast("bfloat16"):
    ...     twice(gt.ones(1, dtype=gt.bfloat16)).dtype
    gt.float32
    """
    on_cpu = getattr(function, "__name__", "") in FLOAT_ON_CPU

    @wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        dtype = mode.dtype
        if dtype is None or kwargs.get("dtype") is not None or (mode.device == "cpu" and not on_cpu):
            return function(*args, **kwargs)
        mode.dtype = None
        try:
            named = {name: _widened(value) for name, value in kwargs.items()}
            return function(*[_widened(value) for value in args], **named)
        finally:
            mode.dtype = dtype

    return inside


_installed = False
_EINSUM_EXAMPLE = """
>>> gt.einsum("i,i", gt.ones(2), gt.ones(2))
tensor(2.)
"""


def install() -> None:
    """Puts the casting versions in place, once (CASTS-3)."""
    global _installed
    if _installed:
        return
    import gt
    import gt.nn.functional as nn_functional

    # By identity, since a module may hold a function under another name, or have imported it from where it was made.
    replaced: dict[int, tuple[Any, Any]] = {}
    families = (
        (lower_precision, LOWER_METHODS, (Tensor, gt)),
        (lower_precision, LOWER_FUNCTIONS, (gt,)),
        (lower_precision, LOWER_NN, (nn_functional,)),
        (full_precision, FLOAT_METHODS, (Tensor, gt)),
        (full_precision, FLOAT_FUNCTIONS, (gt,)),
        (full_precision, FLOAT_NN, (nn_functional,)),
    )
    for casting, names, owners in families:
        for name in names:
            for owner in owners:
                original = getattr(owner, name, None)
                if original is None or id(original) in replaced:
                    continue
                made = casting(original)
                if owner is Tensor:
                    setattr(Tensor, name, made)
                else:
                    replaced[id(original)] = (original, made)
    for module_name, module in list(sys.modules.items()):
        if module_name == "gt" or (module_name.startswith("gt.") and module_name != "gt.amp.casts"):
            _replace_in(module, replaced)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == module_name:
                    _replace_in(value, replaced)
    # The extension's own has no example to show, and a function written in Python must have one.
    gt.einsum.__doc__ = f"{gt.einsum.__doc__}\n\n{_EINSUM_EXAMPLE}"
    _installed = True


def _replace_in(owner: Any, replaced: dict[int, tuple[Any, Any]]) -> None:
    """Gives a module, or a class that holds functions as static methods, the casting versions."""
    for name, value in list(vars(owner).items()):
        static = isinstance(value, staticmethod)
        original = value.__func__ if static else value
        if id(original) in replaced and replaced[id(original)][0] is original:
            made = replaced[id(original)][1]
            setattr(owner, name, staticmethod(made) if static else made)
