"""Programs at the edges of the surface, by family; see `programs.py` for what a program is."""

import edge_cases_autograd
import edge_cases_bounds
import edge_cases_calls
import edge_cases_checks
import edge_cases_corners
import edge_cases_dtypes
import edge_cases_gradients
import edge_cases_halves
import edge_cases_handles
import edge_cases_inplace
import edge_cases_layers
import edge_cases_linear
import edge_cases_mixed
import edge_cases_numbers
import edge_cases_optimizers
import edge_cases_refusals
import edge_cases_samples
import edge_cases_shapes
import edge_cases_slopes
import edge_cases_tensors
import edge_cases_training
import edge_cases_views

FAMILIES = [
    edge_cases_autograd,
    edge_cases_bounds,
    edge_cases_calls,
    edge_cases_checks,
    edge_cases_corners,
    edge_cases_dtypes,
    edge_cases_gradients,
    edge_cases_halves,
    edge_cases_handles,
    edge_cases_inplace,
    edge_cases_layers,
    edge_cases_linear,
    edge_cases_mixed,
    edge_cases_numbers,
    edge_cases_optimizers,
    edge_cases_refusals,
    edge_cases_samples,
    edge_cases_shapes,
    edge_cases_slopes,
    edge_cases_tensors,
    edge_cases_training,
    edge_cases_views,
]


def programs(family) -> list[tuple[str, str]]:
    """The programs of a family, one a line; `\\n` stands for a line end. Each is its own name."""
    lines = [
        line.replace("\\n", "\n") for line in family.CASES.strip().splitlines() if line and not line.startswith("#")
    ]
    return [(line, line) for line in lines]
