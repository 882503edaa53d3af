"""Chosen tasks: the problems of a data set for which another tuner's choices are known, as tasks."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from seqtune.errors import KernelError
from seqtune.kernels import registry
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import ChosenTask, Task

from .copies import choice_weights
from .dataset import Dataset, configuration
from .record import Status

# Operation -> "module:attribute" of a function that adds the features which its tuners' files do not tell to a problem
COMPLETIONS: dict[str, str] = {"fused_moe": "seqtune.integrations.serving.formats.known_models:completed"}


def chosen_tasks(data: Dataset, held_out: bool | None = None) -> list[ChosenTask]:
    """The tasks with choices, sorted by problem and device: of the training part, the held-out part or (None) both.

    A task has one kernel, since tuners choose among the configurations of one. Choices that are not, or no longer, in
    their space are left out.
    """
    rows = data.rows.assign(weight=choice_weights(data))
    rows = rows[rows["status"] == Status.CHOSEN.value]
    if held_out is not None:
        rows = rows[rows["problem"].isin(data.held_out) == held_out]
    tasks = []
    for (key, name, kernel), part in rows.groupby(["problem", "device", "kernel"], sort=True, observed=True):
        problem, device = _completed(data.known_problems[str(key)]), data.devices[str(name)]
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


def _completed(problem: Problem) -> Problem:
    if problem.type not in COMPLETIONS:
        return problem
    completed: Problem = resolve(COMPLETIONS[problem.type])(problem)  # type: ignore[operator]
    return completed
