"""Programs at the edges of the surface, by family; see `programs.py` for what a program is."""

import edge_cases_checks
import edge_cases_handles
import edge_cases_optimizers

FAMILIES = [edge_cases_checks, edge_cases_handles, edge_cases_optimizers]


def programs(family) -> list[tuple[str, str]]:
    """The programs of a family, one a line; `\\n` stands for a line end. Each is its own name."""
    lines = [
        line.replace("\\n", "\n") for line in family.CASES.strip().splitlines() if line and not line.startswith("#")
    ]
    return [(line, line) for line in lines]
