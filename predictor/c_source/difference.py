"""Difference: by how much the first proposals of a C file differ from those of its checkpoint in Python.

What answers as the file does is a checkpoint too (`file.in_c`), so both are asked in Python, about the held-out
problems of a data set. Where it has none for the file's kernels, they are asked about random problems on its devices,
and the checkpoint's own estimate of the slowness counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.measured_tasks import counted, measured_tasks
from seqtune.errors import KernelError, ProblemError
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.sampler import draw_problem
from seqtune.kernels.task import MeasuredTask, Task

from ..checkpoint import Checkpoint

_Item = TypeVar("_Item")
COMPARED = 400  # problems: about six seconds


@dataclass(frozen=True)
class Difference:
    """The comparison of first proposals.

    The shares of the best speed are geometric means; they are NaN where no times are known.
    """

    what: str  # the kind of problems
    problems: int
    same: float  # share of the problems with the same first proposal
    python: float = math.nan
    c: float = math.nan

    def __str__(self) -> str:
        if not self.problems:
            return f"how much its answers differ from those in Python is not known: {self.what}"
        shares = "" if math.isnan(self.c) else (
            f"reach {self.c:.4f} of the best speed, those in Python {self.python:.4f}, and ")
        return (f"on {self.problems} {self.what} its first proposals {shares}are those in Python for "
                f"{100 * self.same:.0f} %")


def difference(checkpoint: Checkpoint, written: Checkpoint, kernels: Sequence[Kernel], data: Dataset) -> Difference:
    """Compare a checkpoint with the one that answers as its C file of these kernels does."""
    if data.holds_labels or checkpoint.labels is not None:
        return _compared("held-out problems", checkpoint, written, _sample(_held_out(checkpoint, data, kernels)))
    measured = _sample([task for task in measured_tasks(data, held_out=True) if _answers(written, task.task, kernels)])
    if measured:
        return _compared("measured held-out problems", checkpoint, written, [task.measured_only() for task in measured])
    return _compared("random problems, as the checkpoint estimates times,", checkpoint, written,
                     list(_random(written, data, kernels)))


def _compared(what: str, checkpoint: Checkpoint, written: Checkpoint,
              tasks: Sequence[Task] | Sequence[MeasuredTask]) -> Difference:
    if not tasks:
        return Difference("the data set has neither held-out problems nor devices of its kernels; name one that has "
                          "(--data)", 0, math.nan)
    same, logs = 0, []
    for task in tasks:
        plain = task.task if isinstance(task, MeasuredTask) else task
        first = [predictor.propose([plain], 1)[0][0].configuration for predictor in (checkpoint, written)]
        same += first[0] == first[1]
        logs.append(_logs(checkpoint, task, first))
    python, c = np.exp(np.mean(logs, axis=0)).tolist()
    return Difference(what, len(tasks), same / len(tasks), python, c)


def _logs(checkpoint: Checkpoint, task: Task | MeasuredTask, first: Sequence[Configuration]) -> tuple[float, float]:
    """The logarithms of the shares of the best speed that two configurations reach; NaN if they are not known."""
    if isinstance(task, MeasuredTask):
        numbers = [task.task.number(configuration) for configuration in first]
        seconds = counted(task.seconds[numbers], task.time(task.task.default), task.seconds)
        python, c = np.log(task.best / seconds).tolist()
        return python, c
    if checkpoint.labels is not None:
        return math.nan, math.nan
    python, c = checkpoint.expected(task, np.array([task.number(configuration) for configuration in first])).tolist()
    return 0.0, python - c


def _answers(checkpoint: Checkpoint, task: Task, kernels: Sequence[Kernel]) -> bool:
    names = {kernel.name for kernel in kernels}
    return all(kernel.name in names for kernel in task.kernels) and checkpoint.fits(task.kernels)


def _sample(items: Sequence[_Item]) -> list[_Item]:
    chosen = np.random.default_rng(0).permutation(len(items))[:COMPARED]
    return [items[index] for index in np.sort(chosen).tolist()]


def _held_out(checkpoint: Checkpoint, data: Dataset, kernels: Sequence[Kernel]) -> list[Task]:
    """The held-out problems on their devices, as tasks that the file answers."""
    frame = data.frame
    pairs = frame[frame["held_out"].astype(bool)][["problem", "device"]].drop_duplicates()
    tasks = []
    for problem, device in pairs.sort_values(["problem", "device"]).itertuples(index=False):
        try:
            task = checkpoint.task(parse_problem(str(problem)), data.devices[str(device)])
        except (KernelError, ProblemError):
            continue
        if _answers(checkpoint, task, kernels):
            tasks.append(task)
    return tasks


def _random(checkpoint: Checkpoint, data: Dataset, kernels: Sequence[Kernel]) -> Iterator[Task]:
    """Random problems of the kernels' operations on the data set's devices, at most COMPARED."""
    devices = [device for _, device in sorted(data.devices.items()) if device.backend in checkpoint.backends]
    operations = list(dict.fromkeys(kernel.operation for kernel in kernels))
    generator, found = np.random.default_rng(0), 0
    for number in range(20 * COMPARED if devices else 0):
        try:
            problem = draw_problem(operations[number % len(operations)], generator)
            task = None if problem is None else Task.of(problem, devices[int(generator.integers(len(devices)))])
        except (KernelError, ProblemError):  # no kernel solves it there, or the operation has no sampler
            continue
        if task is not None and _answers(checkpoint, task, kernels):
            yield task
            found += 1
            if found == COMPARED:
                return
