"""Choices: the configurations of a problem that a GPU day measures, most useful first.

A pool of configurations is measured on many problems, so that each is compiled once and problems can be compared. For
one problem come first the safe default, then what is predicted for it, then the pool in an order of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seqtune.errors import CheckpointError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

ANCHORS = 12  # problems whose spaces the pool is drawn from
PREDICTED = 5  # proposals of a problem, and of an anchor for each family, in the pool


def proposals(task: Task, count: int, checkpoint: Path | None = None) -> tuple[Configuration, ...]:
    """The first `count` proposals of a checkpoint (None: of the backend's own predictor); empty without one."""
    from seqtune.predictor.answering import Answering
    from seqtune.predictor.model import answers_for

    try:
        name = answers_for(task.device.backend) if checkpoint is None else checkpoint
        return tuple(Answering.of(task, name).propose(count))
    except CheckpointError:
        return ()


def pool(problems: Sequence[Problem], device: Device, count: int, seed: int = 0) -> tuple[Configuration, ...]:
    """Choose `count` configurations, in equal numbers of every family and anchor, predicted ones and random ones."""
    generator = np.random.default_rng(seed)
    chosen: dict[Configuration, None] = {}
    tasks = [task for problem in problems[:ANCHORS] if (task := task_of(problem, device)) is not None]
    drawn: list[list[Configuration]] = []
    for task in tasks:
        chosen.update(dict.fromkeys(proposals(task, PREDICTED)))
        for space in task.spaces:
            rows = generator.choice(len(space), min(count, len(space)), replace=False)
            drawn.append([space[int(row)] for row in rows])
    for index in range(count):
        for column in drawn:
            if index < len(column) and len(chosen) < count:
                chosen.setdefault(column[index])
    return tuple(chosen)[:count]


def task_of(problem: Problem, device: Device) -> Task | None:
    """The task of a problem, None if no kernel solves it on the device."""
    try:
        return Task.of(problem, device)
    except KernelError:
        return None


def ordered(task: Task, candidates: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """The configurations to measure for a task: default, predicted, then the valid candidates in the task's order."""
    generator = np.random.default_rng(zlib.crc32(task.problem.key.encode()))
    valid: list[Configuration] = []
    for family in task.kernels:
        same = [candidate for candidate in candidates if candidate.kernel == family.name]
        numbers = task.numbers(family.name, [dict(candidate.settings) for candidate in same])
        valid += [candidate for candidate, number in zip(same, numbers.tolist(), strict=True) if number >= 0]
    order = generator.permutation(len(valid)).tolist()
    return tuple(dict.fromkeys([task.default, *proposals(task, PREDICTED), *(valid[index] for index in order)]))


def random_choices(task: Task, count: int) -> tuple[Configuration, ...]:
    """`count` random configurations of a task, the same in every run."""
    generator = np.random.default_rng(zlib.crc32(f"random {task.problem.key}".encode()))
    numbers = generator.choice(len(task), min(count, len(task)), replace=False)
    return tuple(task[int(number)] for number in numbers)
