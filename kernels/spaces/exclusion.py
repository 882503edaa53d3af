"""Exclusion: finds the constraint that leaves a space empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from seqtune.errors import KernelError

from ..enumeration import enumerate_rows
from ..kernel import Constraint, Kernel
from ..row_index import Rows
from .row_cache import Names
from .value_tables import ValueTables

LARGEST_COUNTED = 500_000  # prefixes of one space: a tenth of a second


def count_rows(kernel: Kernel, names: Names, largest: int = LARGEST_COUNTED) -> Rows | None:
    """The valid configurations; None if there may be more than `largest` partial ones."""
    try:
        return enumerate_rows(kernel, names, largest)
    except KernelError:
        return None


def excluding_constraint(kernel: Kernel, names: Names,
                         count: Callable[[Kernel, Names], Rows | None] = count_rows) -> tuple[Constraint, bool] | None:
    """The constraint that leaves an empty space without a configuration, and whether it alone excludes all of them.

    Otherwise it excludes what the constraints before it leave. None if that is too much to count.
    """
    tables = ValueTables(kernel, dict(names))
    for constraint in kernel.constraints:
        holds = tables.evaluate(constraint.expression)
        if holds is not None and not np.any(holds):
            return constraint, True

    def is_empty(number: int) -> bool:
        """Whether the first `number` constraints leave no configuration, as far as that can be counted."""
        rows = count(replace(kernel, constraints=kernel.constraints[:number]), names)
        return rows is not None and not len(rows)

    fewest, most = 0, len(kernel.constraints)  # the number of constraints that leave nothing is between them
    while most - fewest > 1:
        middle = (fewest + most) // 2
        fewest, most = (fewest, middle) if is_empty(middle) else (middle, most)
    return (kernel.constraints[most - 1], False) if most and is_empty(most) else None
