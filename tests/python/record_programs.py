"""Records what PyTorch answers to `torch_cases.py`: `python tests/python/record_programs.py`, in an environment with torch.

Programs that PyTorch has no CPU kernel for are marked as left out. What GT answers to them, checked by hand, is in
`fixtures/programs_without_kernel.json`; it refuses those that are not listed there.
"""

import warnings

import torch
from programs import FIXTURES, record
from torch_cases import CASES


def has_kernel(program: str) -> bool:
    try:
        exec(program, {"T": torch, "nan": float("nan"), "inf": float("inf")})
    except (RuntimeError, NotImplementedError) as error:
        return "not implemented for" not in str(error) and "does not support" not in str(error)
    except Exception:
        return True
    return True


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    record(torch, CASES, FIXTURES / "programs.json", left_out=lambda program: not has_kernel(program))
