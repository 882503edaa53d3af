"""Chosen tasks: the problems of a data set for which another tuner's choices are known, as tasks.

A file that was copied to another device, as vendors and users do, is one tuning and counts once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

import numpy as np
import pandas as pd

from seqtune.errors import KernelError
from seqtune.kernels import registry
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import ChosenTask, Task

from .dataset import Dataset, configuration
from .record import Status
from .serving.known_models import completed

LEAST = 4  # problems that a copied table must have: fewer agree by chance


def chosen_tasks(data: Dataset, held_out: bool | None = None) -> list[ChosenTask]:
    """The tasks with choices, sorted by problem and device: of the training part, the held-out part or (None) both.

    A task has one kernel, since tuners choose among the configurations of one. Choices that are not, or no longer, in
    their space are left out.
    """
    rows = data.rows[data.rows["status"] == Status.CHOSEN.value]
    rows = rows.assign(weight=_copy_weights(data, rows))
    if held_out is not None:
        rows = rows[rows["problem"].isin(data.held_out) == held_out]
    tasks = []
    for (key, name, kernel), part in rows.groupby(["problem", "device", "kernel"], sort=True, observed=True):
        problem, device = completed(data.known_problems[str(key)]), data.devices[str(name)]
        try:
            declared = data.kernels[str(kernel)] if str(kernel) in data.kernels else registry.kernel(str(kernel))
            task = Task.of(problem, device, [declared])
        except KernelError:
            continue
        chosen: dict[int, float] = defaultdict(float)
        for text, weight in zip(part["configuration"], part["weight"], strict=True):
            number = task.find(configuration(str(kernel), str(text)))
            if number is not None:
                chosen[number] += float(weight)
        if chosen:
            tasks.append(ChosenTask(task, np.array([*chosen], np.int64), np.array([*chosen.values()])))
    return tasks


def _copy_weights(data: Dataset, rows: pd.DataFrame) -> list[float]:
    """The weight of each row: 1 divided by the number of tables with the same content.

    A table has the choices of one device and toolchain for problems that differ in their first size alone, such as the
    number of tokens.
    """
    tables: dict[tuple[Hashable, ...], set[tuple[int, str]]] = defaultdict(set)
    own: list[tuple[Hashable, ...]] = []
    forms = {key: _form(problem) for key, problem in data.known_problems.items()}
    for row in rows.itertuples(index=False):
        size, form = forms[str(row.problem)]
        table = (form, row.kernel, row.device, row.toolchain)
        tables[table].add((size, str(row.configuration)))
        own.append(table)
    contents = {table: (table[:2], frozenset(content)) for table, content in tables.items()}
    copies = Counter(contents.values())
    return [1 / copies[contents[table]] if len(tables[table]) >= LEAST else 1.0 for table in own]


def _form(problem: Problem) -> tuple[int, Hashable]:
    """The first size of a problem, and everything else."""
    first = operation(problem.type).sizes[0]
    return problem.size(first), (problem.type, *((name, value) for name, value in dict(problem).items()
                                                 if name != first))

