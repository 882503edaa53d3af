"""Examples: what a training learns from, made of the tasks of a data set and of what a teacher estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from seqtune.data.measured_tasks import Data
from seqtune.errors import ProblemError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import ChosenTask, Floats, KnownTask, MeasuredTask

from ...sequence.vocabulary import Vocabulary
from ...training.options import TrainingOptions
from ...trees.cost_trees import Trees
from ...trees.ranker import Ranker
from .labelled_problems import LabelledProblems
from .sampled_problems import SampledProblems
from .targets import PrefixTree
from .training_example import TrainingExample


@dataclass(frozen=True)
class Examples:
    """The examples of a training: measured problems, and those that a teacher labels: with choices, or sampled."""

    measured: Sequence[TrainingExample]
    labelled: LabelledProblems | None = None

    def __len__(self) -> int:
        return len(self.measured) + self.labelled_count

    @property
    def labelled_count(self) -> int:
        """The number of problems that a teacher labels."""
        return 0 if self.labelled is None else len(self.labelled)


def vocabulary_of(tasks: Sequence[KnownTask]) -> Vocabulary:
    """The vocabulary with the words that these tasks need."""
    return Vocabulary.build(*words_of(tasks))


def words_of(tasks: Sequence[KnownTask]) -> tuple[list[Kernel], list[Any], list[Problem]]:
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


def away_from(held_out: Sequence[Problem], tasks: Sequence[KnownTask]) -> list[KnownTask]:
    """The tasks whose problems are not near a held-out one: they protect the held-out problems."""
    avoided = SimilarityIndex(held_out)
    return [measured for measured in tasks if not avoided.has_near(measured.problem)]


def make_teacher(fitting: Sequence[KnownTask], options: TrainingOptions, progress: Say = silent) -> Trees | None:
    """Fit the teacher's trees to these tasks; None if the options have no teacher."""
    if not options.teacher:
        return None
    return Trees(fitting, replace(options.trees, threads=options.threads, seed=options.seed), progress=progress)


def make_examples(fitting: Sequence[KnownTask], teacher: Trees | None, vocabulary: Vocabulary,
                  options: TrainingOptions, avoid: Sequence[Problem]) -> Examples:
    """Make training examples from the tasks and, with a teacher, from sampled problems not near `avoid`.

    Without a teacher, which says what is nearly as likely as a choice, choices are left out.
    """
    if teacher is None:
        narrowed = [measured.measured_only() for measured in fitting if isinstance(measured, MeasuredTask)]
        return Examples([_example(measured, measured.seconds / measured.best - 1, vocabulary, options)
                         for measured in narrowed])
    examples = [_example(measured, teacher.fill(measured), vocabulary, options)
                for measured in fitting if isinstance(measured, MeasuredTask)]
    return Examples(examples, labelled_problems(fitting, teacher, vocabulary, options, avoid))


def labelled_problems(fitting: Sequence[KnownTask], teacher: Trees, vocabulary: Vocabulary, options: TrainingOptions,
                      avoid: Sequence[Problem]) -> LabelledProblems | None:
    """The choices of the tasks, and `options.extra` sampled problems like theirs and not near `avoid`; None if none."""
    chosen = [task for task in fitting if isinstance(task, ChosenTask)]
    problems = _sampled(fitting, teacher, options, avoid) if options.extra else None
    count = len(chosen) + (0 if problems is None else options.extra)
    return LabelledProblems(problems, Ranker.of(teacher), vocabulary, options.tau, count, chosen) if count else None


def _sampled(fitting: Sequence[KnownTask], teacher: Trees, options: TrainingOptions,
             avoid: Sequence[Problem]) -> SampledProblems | None:
    """Endless problems like those of the tasks; None if there are none, such as of operations without a sampler."""
    problems = SampledProblems([(measured.problem, measured.device) for measured in fitting], avoid, teacher.models,
                               options.seed)
    try:
        problems.task(0)
    except ProblemError:
        return None
    return problems


def _example(measured: MeasuredTask, slowness: Floats, vocabulary: Vocabulary,
             options: TrainingOptions) -> TrainingExample:
    return TrainingExample(
        vocabulary.source(measured.problem, measured.device),
        PrefixTree(measured.task, slowness, vocabulary, options.tau, known=measured.known), measured.problem,
        measured.device)


def describe_tasks(tasks: Sequence[KnownTask]) -> dict[str, Any]:
    """The data of a training in few words, for its checkpoint: numbers of problems and measurements, and devices."""
    return {"problems": len({measured.problem.key for measured in tasks}),
            "devices": sorted({measured.device.name for measured in tasks}),
            "measurements": int(sum(measured.known.sum() for measured in tasks))}
