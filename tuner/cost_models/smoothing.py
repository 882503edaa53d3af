"""Smoothing: values of a task's configurations with the means of their neighbours mixed in.

What a compiler makes of one configuration depends on the architecture, and so do conflicts and the last wave's size.
The fastest configuration elsewhere was lucky in these; one among fast neighbours is likelier to be fast on another
device.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, Task

OWN = 0.5  # share of a configuration's own value; 0 to 0.7 give about the same on recorded spaces, 1 less


def smoothed(task: Task, values: Floats) -> Floats:
    """The values (number,) with the mean of each configuration and its neighbours mixed in; nan stays nan.

    Neighbours differ in one parameter, by one step to the next valid value. Those that are nan do not count.
    """
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0.0), known.astype(float)
    for space, part in task.parts():
        for first, second in steps(space):
            for here, there in ((first + part.start, second + part.start), (second + part.start, first + part.start)):
                total[here] += np.where(known[there], values[there], 0.0)  # a number occurs once in `here`
                count[here] += known[there]
    return np.where(known, OWN * values + (1 - OWN) * total / np.maximum(count, 1.0), np.nan)


def steps(space: SearchSpace) -> Iterator[tuple[Numbers, Numbers]]:
    """For each parameter, the pairs of rows that differ in it alone, by one step to the next valid value: (pair,)."""
    rows = space.rows
    weights: NDArray[np.uint64] = np.random.default_rng(0).integers(1, 2**63, (rows.shape[1],), dtype=np.uint64)
    hashes = (rows.astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64)  # wraps around
    for column in range(rows.shape[1]):
        others = hashes - rows[:, column].astype(np.uint64) * weights[column]  # equal where all other values are
        order = np.lexsort((rows[:, column], others))
        first, second = order[:-1], order[1:]
        near = ((rows[first] != rows[second]).sum(axis=1) == 1) & (rows[first, column] != rows[second, column])
        yield first[near], second[near]
