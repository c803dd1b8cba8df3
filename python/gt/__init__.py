"""GT: tensors that one script drives and many machines execute.

Write eager, PyTorch-like code; GT records it and runs it behind the script's back. Only reads wait.

>>> import gt
>>> x = gt.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])
"""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from gt import (
    _exit,
    _functions,
    _methods,
    autograd,
    backends,
    cuda,
    debug,
    errors,
    linalg,
    random,
    return_types,
    special,
    testing,
    utils,
    version,
)
from gt._accepted import (
    are_deterministic_algorithms_enabled,
    channels_last,
    compile,
    contiguous_format,
    get_float32_matmul_precision,
    get_num_interop_threads,
    preserve_format,
    set_default_device,
    set_float32_matmul_precision,
    set_num_interop_threads,
    strided,
    use_deterministic_algorithms,
)
from gt._core import (
    Generator,
    Tensor,
    arange,
    as_tensor,
    bfloat16,
    bool,
    can_cast,
    cat,
    default_generator,
    device,
    dtype,
    einsum,
    empty,
    empty_cache,
    empty_like,
    eye,
    float16,
    float32,
    float64,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    get_default_dtype,
    get_num_threads,
    get_rng_state,
    initial_seed,
    int8,
    int32,
    int64,
    is_tensor,
    linspace,
    manual_seed,
    meshgrid,
    ones,
    ones_like,
    promote_types,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    result_type,
    seed,
    set_default_dtype,
    set_flush_denormal,
    set_num_threads,
    set_rng_state,
    stack,
    synchronize,
    tensor,
    uint8,
    where,
    zeros,
    zeros_like,
)
from gt._functions import *
from gt._grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from gt._limits import finfo, iinfo
from gt._methods import *
from gt._missing import install as _install_missing
from gt._missing import missing as _missing
from gt._printing import get_printoptions, set_printoptions
from gt._session import connect, disconnect, gpu_workers
from gt._size import Size
from gt.errors import OutOfMemoryError, WorkerLost
from gt.version import __version__

if _TYPE_CHECKING:
    from gt import amp, data, models, nn, optim, serialization, signal
    from gt._pipeline import pipeline
    from gt._tuning import tune_batch_size
    from gt.amp import autocast, get_autocast_dtype, is_autocast_enabled, set_autocast_dtype
    from gt.serialization import load, save
    from gt.signal import (
        ShardConfig,
        SignalConfig,
        get_config,
        get_signal_config,
        load_config,
        register_config,
    )

_exit.install()
_install_missing(Tensor)

if _core._is_planned():
    from gt import _planned

    _planned.install()

float = float32
double = float64
half = float16
long = int64
int = int32

inf = _math.inf
nan = _math.nan
pi = _math.pi
e = _math.e
newaxis = None

asarray = as_tensor

__all__ = [
    "Generator",
    "OutOfMemoryError",
    "ShardConfig",
    "SignalConfig",
    "Size",
    "Tensor",
    "WorkerLost",
    "__version__",
    "amp",
    "arange",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "asarray",
    "autocast",
    "autograd",
    "backends",
    "bfloat16",
    "bool",
    "can_cast",
    "cat",
    "channels_last",
    "compile",
    "contiguous_format",
    "cuda",
    "data",
    "debug",
    "default_generator",
    "device",
    "disconnect",
    "double",
    "dtype",
    "e",
    "einsum",
    "empty",
    "empty_cache",
    "empty_like",
    "enable_grad",
    "errors",
    "eye",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "get_autocast_dtype",
    "get_config",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_printoptions",
    "get_rng_state",
    "get_signal_config",
    "connect",
    "gpu_workers",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int32",
    "int64",
    "int8",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_tensor",
    "linalg",
    "linspace",
    "load",
    "load_config",
    "long",
    "manual_seed",
    "meshgrid",
    "models",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "ones",
    "ones_like",
    "optim",
    "pi",
    "pipeline",
    "preserve_format",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "register_config",
    "result_type",
    "return_types",
    "save",
    "seed",
    "serialization",
    "set_autocast_dtype",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "signal",
    "special",
    "stack",
    "strided",
    "synchronize",
    "tensor",
    "testing",
    "tune_batch_size",
    "uint8",
    "use_deterministic_algorithms",
    "utils",
    "version",
    "where",
    "zeros",
    "zeros_like",
]
__all__ += ["GradScaler"]
__all__ += _functions.__all__
__all__ += _methods.__all__


# Loaded when they are asked for, so that a program that needs only tensors starts at once.
_LATER = {
    "amp": "",
    "data": "",
    "models": "",
    "nn": "",
    "optim": "",
    "serialization": "",
    "signal": "",
    "autocast": "amp",
    "get_autocast_dtype": "amp",
    "is_autocast_enabled": "amp",
    "set_autocast_dtype": "amp",
    "load": "serialization",
    "save": "serialization",
    "tune_batch_size": "_tuning",
    "GradScaler": "amp",
    "pipeline": "_pipeline",
}
_LATER |= dict.fromkeys(
    "ShardConfig SignalConfig get_config get_signal_config load_config register_config".split(),
    "signal",
)
_LATER |= dict.fromkeys(
    """
    BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
    """.split(),
    "_legacy_types",
)
# Functions of networks that PyTorch also has at its top, with the same arguments.
_LATER |= dict.fromkeys(
    """
    adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d bilinear celu conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity dropout group_norm layer_norm max_pool1d
    max_pool2d max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rms_norm rrelu selu
    threshold
    """.split(),
    "nn.functional",
)


# Dtypes of PyTorch's that GT does not have, so that the error says so.
_NOT_A_DTYPE = frozenset(
    "int16 short uint16 uint32 uint64 complex32 complex64 complex128 cfloat cdouble chalf quint8 qint8 qint32".split()
)


def __getattr__(name: str) -> _Any:
    if name in _NOT_A_DTYPE:
        raise AttributeError(
            f"GT has no dtype {name}: it has float32, float64, float16, bfloat16, int8, int32, int64, uint8 and bool"
        )
    if name not in _LATER:
        raise _missing("gt", name)
    import importlib

    home = _LATER[name]
    found = getattr(importlib.import_module(f"gt.{home}"), name) if home else importlib.import_module(f"gt.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
