"""Batch norms folded into the layers before them, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from gt import _core
from gt._core import Tensor
from gt.nn.modules.module import Module
from gt.nn.parameter import Parameter

_M = TypeVar("_M", bound=Module)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution that does the batch norm behind it as well.

    >>> one = gt.ones(1)
    >>> weight, bias = gt.nn.utils.fuse_conv_bn_weights(gt.ones(1, 1, 1), None, one, one, 0.0, one * 2, None)
    >>> weight.item(), bias.item()
    (2.0, -2.0)
    """
    shift = _core.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = (_core.ones_like(bn_rm) if bn_w is None else bn_w) * (bn_rv + bn_eps).rsqrt()
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    bias = (shift - bn_rm) * scale
    bias = bias if bn_b is None else bias + bn_b
    weight = conv_w * scale.reshape(shape)
    return (
        Parameter(weight.detach().to(conv_w.dtype), conv_w.requires_grad),
        Parameter(bias.detach().to(conv_w.dtype), True if conv_b is None else conv_b.requires_grad),
    )


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a linear layer that does the batch norm behind it as well.

    >>> one = gt.ones(1)
    >>> gt.nn.utils.fuse_linear_bn_weights(gt.ones(1, 1), None, one, one, 0.0, one * 2, one)[1].item()
    -1.0
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(layer: Any, bn: Any, transpose: bool) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    made = copy.deepcopy(layer)
    made.weight, made.bias = fuse_conv_bn_weights(
        made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return made


def fuse_conv_bn_eval(conv: _M, bn: Module, transpose: bool = False) -> _M:
    """A convolution that computes what a convolution and a batch norm in evaluation compute.

    >>> conv, norm = gt.nn.Conv2d(1, 1, 1).eval(), gt.nn.BatchNorm2d(1).eval()
    >>> x = gt.ones(1, 1, 2, 2)
    >>> gt.allclose(gt.nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)))
    True
    """
    made: _M = _fused(conv, bn, transpose)
    return made


def fuse_linear_bn_eval(linear: _M, bn: Module) -> _M:
    """A linear layer that computes what a linear layer and a batch norm in evaluation compute.

    >>> linear, norm = gt.nn.Linear(2, 2).eval(), gt.nn.BatchNorm1d(2).eval()
    >>> x = gt.ones(1, 2)
    >>> gt.allclose(gt.nn.utils.fuse_linear_bn_eval(linear, norm)(x), norm(linear(x)))
    True
    """
    made: _M = _fused(linear, bn, False)
    return made
