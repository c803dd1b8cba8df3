"""Records the public names of PyTorch that the compatibility page compares GT with. Needs torch:

python tests/python/record_torch_names.py
"""

import importlib
import inspect
import json
import re
from pathlib import Path

import torch

RECORDED = Path(__file__).parent / "fixtures" / "torch_names.json"
NAMESPACES = [
    "torch",
    "torch.Tensor",
    "torch.linalg",
    "torch.special",
    "torch.fft",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.autograd",
    "torch.utils.data",
    "torch.utils.checkpoint",
    "torch.amp",
    "torch.distributions",
    "torch.func",
    "torch.profiler",
]


def namespace(path):
    if path == "torch.Tensor":
        return torch.Tensor
    return importlib.import_module(path)


# Families that GT does not follow as a whole. The page names them in words instead of by member.
OUTSIDE = re.compile(
    r"quantize|q_scale|q_zero_point|q_per_channel|qscheme|int_repr|sparse|smm$|spmm|saddmm|mkldnn|cudnn|miopen|fbgemm|"
    r"^sym_|autocast_|^init_num|_autocast|^u?int[1-7]$|^qu?int|^bits|^bit$|^float[48]_|Storage$|"
    r"(Float|Double|Half|BFloat16|Byte|Char|Short|Int|Long|Bool)Tensor$|_(ipu|xla)_|vulkan|deterministic_debug|Pipe|"
    r"datapipe|_validation|^parse_|^import_ir|^typename$|^merge_type|^unify_type|native_|batch_norm_|^compiled_with|"
    r"^has_(lapack|mkl|openmp|spectral)|^slice_inverse|thread_safe_generator|torch_function|complex|^c(half|float|double)$|^(AVG|SUM|fork|wait|Optional|Literal|factory_kwargs)$|"
    r"fused_moving|hash_tensor|choose_qparams|int_or_pair|^(Scaling|Swizzle)Type$|DefaultDeviceType|scaled_(grouped_)?(mm|addmm)|"
    r"grouped_mm|^is_(conj|neg|ipu|xla|xpu|mps|distributed|anomaly_check|deterministic_alg.*warn)|_only_enabled$|resolve_(conj|neg)|"
    r"conj_physical|^x?[im]pu$|^mtia$|^SAC_|detach_variable|noop_context|check_backward_validity|"
    r"^prepare_multiprocessing|(?<!index)(?<!narrow)_copy$"
)
CLASSES = {
    "Tensor",
    "Size",
    "Generator",
    "Stream",
    "Event",
    "device",
    "dtype",
    "layout",
    "memory_format",
    "finfo",
    "iinfo",
}


def is_for_users(path, space, name):
    if name.startswith("_") or OUTSIDE.search(name):
        return False
    if path == "torch" and name.endswith("_"):
        return False  # the method of the same name is listed
    value = getattr(space, name)
    if inspect.ismodule(value):
        return False
    if path == "torch.Tensor":
        return name not in dir(object) and bool(getattr(value, "__doc__", None))
    if inspect.isclass(value) and path == "torch":
        return name in CLASSES
    listed = getattr(space, "__all__", ())
    if name in listed or listed and path not in ("torch", "torch.nn"):
        return name in listed
    home = getattr(value, "__module__", None) or path
    if inspect.isclass(value) or inspect.isfunction(value) and path != "torch":
        return home.startswith(path)
    return callable(value) and bool(value.__doc__) or isinstance(value, torch.dtype)


def main():
    names = {}
    for path in NAMESPACES:
        space = namespace(path)
        names[path] = sorted(name for name in dir(space) if is_for_users(path, space, name))
    RECORDED.write_text(json.dumps({"torch": torch.__version__.split("+")[0], "names": names}, indent=1) + "\n")
    print({path: len(found) for path, found in names.items()})


if __name__ == "__main__":
    main()
