"""TrainingExample: one problem on one device, with times that were measured or estimated by the teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqtune.data.measured_tasks import Data
from seqtune.errors import KernelError, ProblemError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.tuner.cost_models.machine_ratios import jittered
from seqtune.tuner.measuring.deadline import Deadline

from ..sequence.vocabulary import Sentence, Vocabulary
from ..trees.cost_trees import Trees
from .options import TrainingOptions
from .targets import PrefixTree

FORM = ("layout", "dtype", "bias", "activation", "tolerance")  # what samplers of operations do not, or rarely, vary


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """One problem on one device: the source sentence, and the wanted next words after every prefix."""

    source: Sentence
    tree: PrefixTree
    sampled: bool  # whether nothing was measured
    problem: Problem
    device: Device
    anchored: float = 0.0  # the anchor's share in the wanted probabilities, if there is an anchor

    def drawn(self, vocabulary: Vocabulary, generator: np.random.Generator) -> Sentence:
        """The source with other measured rates of the device, as another measurement might give."""
        return vocabulary.with_ratios(self.source, self.problem, jittered(self.device, generator))


def vocabulary_of(tasks: Sequence[MeasuredTask]) -> Vocabulary:
    """The vocabulary with the words that these tasks need."""
    return Vocabulary.build(*words_of(tasks))


def words_of(tasks: Sequence[MeasuredTask]) -> tuple[list[Kernel], list[Any], list[Problem]]:
    """The kernels, devices and recorded problems of the tasks, in order of first appearance."""
    kernels = {space.kernel.name: space.kernel for measured in tasks for space in measured.task.spaces}
    devices = {measured.device.key: measured.device for measured in tasks}
    return (list(kernels.values()), list(devices.values()),
            [measured.problem for measured in tasks if measured.problem.type == "recorded"])


def held_out_problems(data: Data) -> list[Problem]:
    """The held-out problems of a data set, sorted by their keys."""
    return problems_of(data, held_out=True)


def problems_of(data: Data, held_out: bool) -> list[Problem]:
    """The problems of the training part, or of the held-out part, of a data set, sorted by their keys."""
    frame = data.frame
    keys = frame["problem"][frame["held_out"].astype(bool) == held_out].unique()
    return [parse_problem(key) for key in sorted(map(str, keys))]


def away_from(held_out: Sequence[Problem], tasks: Sequence[MeasuredTask]) -> list[MeasuredTask]:
    """The tasks whose problems are not near a held-out one: they protect the held-out problems."""
    avoided = SimilarityIndex(held_out)
    return [measured for measured in tasks if not avoided.has_near(measured.problem)]


def make_teacher(fitting: Sequence[MeasuredTask], options: TrainingOptions) -> Trees | None:
    """Fit the teacher's trees to these tasks; None if the options have no teacher."""
    if not options.teacher:
        return None
    return Trees(fitting, replace(options.trees, threads=options.threads, seed=options.seed))


def make_examples(fitting: Sequence[MeasuredTask], teacher: Trees | None, vocabulary: Vocabulary,
                  options: TrainingOptions, avoid: Sequence[Problem],
                  deadline: Deadline | None = None) -> list[TrainingExample]:
    """Make training examples from the measured tasks and, with a teacher, from sampled problems not near `avoid`.

    After the deadline there are no further sampled problems.
    """
    if teacher is None:
        narrowed = [measured.measured_only() for measured in fitting]
        return [_example(measured, measured.seconds / measured.best - 1, vocabulary, options) for measured in narrowed]
    examples = [_example(measured, teacher.fill(measured, options.trust), vocabulary, options) for measured in fitting]
    for measured in _extra_tasks(fitting, options, avoid):
        if deadline is not None and deadline.is_over:
            break
        if all(teacher.knows(space.kernel) for space in measured.task.spaces):
            examples.append(_example(measured, teacher.fill(measured), vocabulary, options))
    return examples


def _example(measured: MeasuredTask, slowness: Floats, vocabulary: Vocabulary,
             options: TrainingOptions) -> TrainingExample:
    return TrainingExample(
        vocabulary.source(measured.problem, measured.device),
        PrefixTree(measured.task, slowness, vocabulary, options.tau, known=measured.known),
        not measured.known.any(), measured.problem, measured.device)


def _extra_tasks(fitting: Sequence[MeasuredTask], options: TrainingOptions,
                 avoid: Sequence[Problem]) -> list[MeasuredTask]:
    """Sample `options.extra` problems, with operations and devices in the proportions of the measured tasks.

    The tasks have no measurements. A sampled problem takes the form (FORM) of a measured one. Those that no kernel
    solves, or that are near one of `avoid` in that form, are left out.
    """
    avoided = SimilarityIndex(avoid)
    generator = np.random.default_rng([options.seed, 1])
    chosen = generator.integers(0, len(fitting), options.extra)
    tasks: list[MeasuredTask] = []
    for operation in sorted({measured.problem.type for measured in fitting}):
        models = [fitting[index] for index in chosen if fitting[index].problem.type == operation]
        try:
            problems = sample_problems(operation, len(models), options.seed + 1000, avoid)
        except ProblemError:
            continue  # an operation without a sampler
        for drawn, model in zip(problems, models, strict=True):
            try:
                problem = _in_form_of(drawn, model.problem)
                task = Task.of(problem, model.device)
            except (KernelError, ProblemError):
                continue
            if avoided.has_near(problem):
                continue
            tasks.append(MeasuredTask(task, np.full(len(task), np.nan)))
    return tasks


def _in_form_of(problem: Problem, model: Problem) -> Problem:
    """The problem with the form of another one of its operation. Raises ProblemError if there is no such problem."""
    features = dict(problem)
    form = {name: value for name, value in dict(model).items() if name in FORM and name in features}
    return Problem.make(problem.type, **{**features, **form})


def describe_tasks(tasks: Sequence[MeasuredTask]) -> dict[str, Any]:
    """The data of a training in few words, for its checkpoint: numbers of problems and measurements, and devices."""
    return {"problems": len({measured.problem.key for measured in tasks}),
            "devices": sorted({measured.device.name for measured in tasks}),
            "measurements": int(sum(measured.known.sum() for measured in tasks))}
