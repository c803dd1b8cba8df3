"""Working with gradients, parameters and modules as a whole."""

from typing import Any

from gt._missing import missing
from gt.nn.utils import packed_sequence, rnn
from gt.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from gt.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

# Loaded when they are asked for: they need modules, which need `rnn` from here.
_LATER = {
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "remove_spectral_norm": "singular_value",
    "remove_weight_norm": "weight_length",
    "skip_init": "init",
    "spectral_norm": "singular_value",
    "weight_norm": "weight_length",
}
_MODULES = ("fusion", "init", "parametrizations", "parametrize", "stateless")

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "packed_sequence",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]
__all__ += [*_LATER, *_MODULES]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"gt.nn.utils.{name}")
    if name not in _LATER:
        raise missing("gt.nn.utils", name)
    return getattr(import_module(f"gt.nn.utils.{_LATER[name]}"), name)
