"""Chosen tasks: the problems of a data set for which another tuner's choices are known, as tasks."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError
from seqtune.kernels import registry
from seqtune.kernels.devices.accelerators import chip_of
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import ChosenTask, Task

from .dataset import Dataset, configuration
from .record import Status


def choice_weights(data: Dataset) -> NDArray[np.float64]:
    """The weight of each row, (row,): n equal choices for a problem on GPUs of one chip weigh 1 / n each.

    Projects copy a file of one GPU for its sibling (MI300X and MI325X, L40 and L40S). Such rows say one thing, not two.
    Choices are equal if kernel and configuration are, whatever the toolchain. Rows that are no choices weigh 1.
    """
    weights = np.ones(len(data))
    chosen = np.flatnonzero((data.rows["status"] == Status.CHOSEN.value).to_numpy())
    if not len(chosen):
        return weights
    rows = data.rows.iloc[chosen]
    chips = rows["device"].astype(str).map({key: chip_of(device) for key, device in data.devices.items()})
    keys = [chips.to_numpy(), *(rows[name].astype(str).to_numpy() for name in ("problem", "kernel", "configuration"))]
    weights[chosen] = 1 / rows.groupby(keys)["device"].transform("size").to_numpy(np.float64)
    return weights


def copies_note(data: Dataset) -> tuple[str, ...]:
    """A note for the user that counts the copies, if there are any."""
    rows = len(data)
    copies = round(rows - float(choice_weights(data).sum()))
    if not copies:
        return ()
    return (f"{copies} of {rows} choices repeat one of a GPU with the same chip; together they weigh once",)


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
