"""Lesson: one problem on one device as the translator sees it, from measurements or labelled by the teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqtune.data.measured_tasks import Data, measured_tasks
from seqtune.errors import KernelError, ProblemError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import MeasuredTask, Task

from ..sequence.vocabulary import Sentence, Vocabulary
from ..trees.cost_trees import Trees
from .targets import Tree
from .training_options import TrainingOptions


@dataclass(frozen=True, slots=True)
class Lesson:
    """One problem on one device as the translator sees it: the question, and every prefix of its answers."""

    source: Sentence
    tree: Tree
    sampled: bool  # nothing of it was measured
    anchored: float = 0.0  # how much of what is wanted an anchor says, where there is one


def vocabulary_of(found: Sequence[MeasuredTask]) -> Vocabulary:
    """The words that these tasks need."""
    return Vocabulary.build(*words_of(found))


def words_of(found: Sequence[MeasuredTask]) -> tuple[list[Kernel], list[Any], list[Problem]]:
    """Kernels, devices and recorded problems of the tasks, in order of first appearance."""
    kernels = {space.kernel.name: space.kernel for measured in found for space in measured.task.spaces}
    devices = {measured.device.key: measured.device for measured in found}
    return (list(kernels.values()), list(devices.values()),
            [measured.problem for measured in found if measured.problem.type == "recorded"])


def held_out_problems(data: Data) -> list[Problem]:
    """What no lesson may be near to."""
    return list({measured.problem: None for measured in measured_tasks(data, held_out=True)})


def make_teacher(fitting: Sequence[MeasuredTask], options: TrainingOptions) -> Trees | None:
    """Trees fitted on these tasks, where a teacher is wanted."""
    if not options.teacher:
        return None
    return Trees(fitting, replace(options.trees, threads=options.threads, seed=options.seed))


def make_lessons(fitting: Sequence[MeasuredTask], teacher: Trees | None, vocabulary: Vocabulary,
                 options: TrainingOptions, avoid: Sequence[Problem]) -> list[Lesson]:
    """Lessons from the measured tasks and, with a teacher, from sampled problems as well."""
    if teacher is None:
        known = [measured.measured_only() for measured in fitting]
        return [_lesson(measured, measured.seconds / measured.best - 1, vocabulary, options) for measured in known]
    lessons = [_lesson(measured, teacher.fill(measured, options.trust), vocabulary, options) for measured in fitting]
    for measured in _extra_tasks(fitting, options, avoid):
        if all(teacher.knows(space.kernel) for space in measured.task.spaces):
            lessons.append(_lesson(measured, teacher.fill(measured), vocabulary, options))
    return lessons


def _lesson(measured: MeasuredTask, slowness: Any, vocabulary: Vocabulary, options: TrainingOptions) -> Lesson:
    return Lesson(vocabulary.source(measured.problem, measured.device),
                  Tree(measured.task, slowness, vocabulary, options.tau), not measured.known.any())


def _extra_tasks(fitting: Sequence[MeasuredTask], options: TrainingOptions,
                 avoid: Sequence[Problem]) -> list[MeasuredTask]:
    """Unmeasured tasks of sampled problems: problem types and devices in the proportions of the measured tasks."""
    generator = np.random.default_rng([options.seed, 1])
    chosen = generator.integers(0, len(fitting), options.extra)
    found: list[MeasuredTask] = []
    for kind in sorted({measured.problem.type for measured in fitting}):
        models = [fitting[place] for place in chosen if fitting[place].problem.type == kind]
        try:
            problems = sample_problems(kind, len(models), options.seed + 1000, avoid)
        except ProblemError:
            continue  # a type that nothing samples
        for problem, model in zip(problems, models, strict=True):
            try:
                task = Task.of(problem, model.device)
            except KernelError:
                continue
            found.append(MeasuredTask(task, np.full(len(task), np.nan)))
    return found
