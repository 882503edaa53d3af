"""TaskLearning: trains, retrains and evaluates models of measured times and tuners' choices, as users request it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from seqtune.errors import MisuseError
from seqtune.kernels.devices.accelerators import BACKENDS
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.leakage import leakage_note, sorted_briefs, split_leaked
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.say import Say
from seqtune.kernels.task import MeasuredTask, Task

from ...checkpoint import Checkpoint
from ...training.conditions import check_can_train
from ...training.progress import Progress
from ...translator.threads import one_thread
from ..kinds import EvaluationRequest, TrainingRequest

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.task import KnownTask

    from ...training.options import TrainingOptions
    from .agreement import AgreementRow
    from .evaluation import Measure
    from .shares import EvaluationRow

MANY = 5000  # records, whose problems take some seconds to find
MOST_RECORDS = 1_000_000  # learned from: all are in memory, with some KB of features for each configuration
OpenContest = Callable[[Device, Say], AbstractContextManager["Measure"]]
Options = TypeVar("Options", bound="TrainingOptions")


@dataclass(frozen=True)
class LearnedProblems:
    """The problems of a data set that a training learns from, and those that it keeps for an evaluation."""

    training: list[KnownTask]
    held_out: list[Problem]
    left_out: int  # problems that are not learned from, because they are near a held-out one
    near_training: tuple[str, ...]  # held-out problems that are not used for evaluation: in brief

    @classmethod
    def of(cls, data: Dataset, protect_held_out: bool) -> LearnedProblems:
        """Learn from no problem near a held-out one (`protect_held_out`), or else from all that are not held out."""
        from seqtune.data.chosen_tasks import chosen_tasks
        from seqtune.data.measured_tasks import measured_tasks

        from .examples import away_from, held_out_problems

        measured: list[KnownTask] = [*measured_tasks(data, held_out=False), *chosen_tasks(data, held_out=False)]
        held_out = held_out_problems(data)
        if not protect_held_out:
            held_out, near = split_leaked(held_out, (task.problem for task in measured))
            return cls(measured, held_out, 0, tuple(sorted_briefs(near)))
        training = away_from(held_out, measured)
        left_out = {task.problem for task in measured} - {task.problem for task in training}
        return cls(training, held_out, len(left_out), ())

    @property
    def measured(self) -> list[MeasuredTask]:
        """The training tasks with times."""
        return [task for task in self.training if isinstance(task, MeasuredTask)]

    @property
    def has_choices(self) -> bool:
        """Whether there are training tasks with choices and no times."""
        return len(self.training) > len(self.measured)


class TaskLearning:
    """The learning of translators from measured times and choices, with the rankers that order their proposals.

    `open_contest` opens what measures the proposals of a live evaluation (None: LiveContest, on the device).
    """

    def __init__(self, open_contest: OpenContest | None = None) -> None:
        self.open_contest = open_contest

    def learns_from(self, data: Dataset) -> bool:
        """Return whether the data set holds measurements or choices, whatever their device, but no tool's labels."""
        return not data.holds_labels

    def train(self, data: Dataset, request: TrainingRequest,
              progress: Progress) -> tuple[Checkpoint, dict[str, Any]]:
        """Train a model; see `Learning.train`.

        The options are those of the recipe. Without one they follow from the number of problems, and few measured
        problems are also cross-validated.
        """
        from .small.options import is_small
        from .small.sufficiency import check_sufficient
        from .small.training import train_small
        from .training import train_model

        _check_lengths(data)
        if len(data) >= MANY:
            progress(f"finding the problems of {len(data):,} records")
        learned = LearnedProblems.of(data, request.protect_held_out)
        if learned.near_training:
            progress(f"note: {leakage_note(learned.near_training)}")
        if learned.measured or not learned.has_choices:
            check_sufficient(learned.measured, data)
        options = _options(learned, request)
        if request.recipe is None and is_small(learned.training) and not learned.has_choices:
            model, report = train_small(learned.measured, learned.held_out, options, progress, request.force)
        else:
            model, report = train_model(learned.training, learned.held_out, options, progress)
        if request.recipe is not None:
            model = replace(model, provenance={**model.provenance, "recipe": request.recipe.name})
        report |= {"left_out": learned.left_out, "not_evaluated": list(learned.near_training)}
        return model, report

    def retrain(self, model: Checkpoint, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Progress) -> tuple[Checkpoint, dict[str, Any]]:
        """Adapt the model to new records; see `Learning.retrain`."""
        from .adaptation.retraining import RETRAINING, retrain

        _check_lengths(new, old)
        minutes = RETRAINING.minutes if request.deadline is None else request.deadline.seconds / 60
        options = _requested(replace(RETRAINING.within(minutes), seed=request.seed), request)
        adapted, report = retrain(model, new, old, options, progress, scratch, request.deadline)
        return adapted, report.to_json()

    def evaluate(self, model: Checkpoint, data: Dataset, request: EvaluationRequest, progress: Say,
                 note: Say) -> Sequence[EvaluationRow | AgreementRow]:
        """Evaluate methods on held-out problems: rows by device, method and number of measured proposals.

        Where the data set holds out problems with another tuner's choices, rows say how often methods agree with them.
        The request's queries are measured during the evaluation, all on one device; `note` receives the number of their
        problems that are, or nearly are, training problems, and the problems that are left out.
        """
        from seqtune.data.chosen_tasks import chosen_tasks

        from .agreement import agreement_rows, methods_of
        from .baselines import ANALYTIC
        from .evaluation import METHODS, METHODS_OF_GPUS, OLD_NAMES, check_methods, evaluate

        devices = data.devices.values() if request.queries is None else [device for _, device in request.queries]
        on_gpus = {device.backend for device in devices} <= set(BACKENDS)
        methods = ((METHODS_OF_GPUS if on_gpus else METHODS) if request.methods is None
                   else [OLD_NAMES.get(name, name) for name in request.methods])
        check_methods(methods)
        if ANALYTIC in methods and not on_gpus:
            raise MisuseError(f"the method {ANALYTIC} estimates times on GPUs alone; other devices are evaluated")
        if request.queries is not None:
            return _evaluate_live(model, data, methods, request.queries, progress, note, self.open_contest)
        data = data if request.protect_held_out else _without_leaked(data, note)
        chosen = chosen_tasks(data, held_out=True)
        if chosen:
            if request.methods is not None:
                raise MisuseError("--methods is for measurements; choices are compared with all methods")
            with one_thread():
                return agreement_rows(methods_of(model, chosen_tasks(data, held_out=False)), chosen)
        with one_thread():
            validated = None if _holds_out(data) else _cross_validated(model, data, methods, progress, note)
            return evaluate(data, model, methods, progress=progress) if validated is None else validated


def _check_lengths(*data: Dataset) -> None:
    """Raise MisuseError if a data set has more records than a training holds in memory."""
    records = max(map(len, data))
    if records > MOST_RECORDS:
        raise MisuseError(f"the data set has {records:,} records; a training holds all of them in memory, at most "
                          f"{MOST_RECORDS:,}; learn from fewer")


def _options(learned: LearnedProblems, request: TrainingRequest) -> TrainingOptions:
    """The options of the recipe; without one those that suit the kind and the number of the problems."""
    from ...training.options import TrainingOptions, choice_options
    from .small.options import is_small, small_options

    if request.recipe is not None:
        return replace(request.recipe.options, state=request.state, end_now=request.end_now)
    options = TrainingOptions(seed=request.seed) if learned.measured else choice_options(request.seed)
    options = replace(options, refit=request.refit, state=request.state, end_now=request.end_now)
    is_mixed = learned.has_choices and bool(learned.measured)
    if is_small(learned.training) and not is_mixed:
        options = small_options(learned.training, options)
    return _requested(options, request)


def _requested(options: Options, request: TrainingRequest) -> Options:
    return replace(options, epochs=options.epochs if request.epochs is None else request.epochs,
                   extra=options.extra if request.extra_problems is None else request.extra_problems)


def _cross_validated(model: Checkpoint, data: Dataset, methods: Sequence[str], progress: Say,
                     note: Say) -> Sequence[EvaluationRow] | None:
    """The rows of a cross-validation of a model's training; None if it was another training or a large one."""
    from seqtune.data.measured_tasks import measured_tasks

    from .evaluation import COUNTS
    from .shares import OURS
    from .small.folds import folds_of
    from .small.options import is_small, options_of

    training = measured_tasks(data, held_out=False)
    options = options_of(model, training) if is_small(training) else None
    if options is None:
        return None
    check_can_train()
    from .small.cross_validation import cross_validate

    wanted = methods if OURS in methods else [OURS, *methods]
    validated = cross_validate(folds_of(training, model.seed), options, progress, wanted, COUNTS)
    if validated is None:
        raise KeyboardInterrupt
    note(f"the data set holds out no problem, so the training of this checkpoint is repeated: "
         f"{validated.description}")
    return [row for row in validated.rows() if row.method in methods]


def _evaluate_live(model: Checkpoint, data: Dataset, methods: Sequence[str],
                   queries: Sequence[tuple[Problem, Device]], progress: Say, note: Say,
                   open_contest: OpenContest | None) -> Sequence[EvaluationRow]:
    from .evaluation import LiveContest, evaluate

    for problem, device in queries:
        Task.of(problem, device)  # raises KernelError before anything is measured
    near_training = _trained_on(data, [problem for problem, _ in queries])
    if near_training:
        note(f"{len(near_training)} of {len(set(queries))} problems are, or nearly are, training problems of the "
             "data set: the baselines have learned from them, and so has a checkpoint that was trained on it")

    def skip(problem: Problem, reason: str) -> None:
        near_training.discard(problem)
        note(f"left out: {reason}")

    with one_thread(), (open_contest or LiveContest)(queries[0][1], progress) as measure:
        rows = evaluate(data, model, methods, measure=measure, queries=queries, on_skip=skip, progress=progress)
    return [replace(row, trained_on=len(near_training)) for row in rows]


def _without_leaked(data: Dataset, note: Say) -> Dataset:
    """The data set without the rows of held-out problems near a training problem, which `note` names.

    Raises MisuseError if these are all held-out problems.
    """
    from .examples import held_out_problems, problems_of

    usable, near = split_leaked(held_out_problems(data), problems_of(data, held_out=False))
    if not near:
        return data
    reason = leakage_note(sorted_briefs(near), " of the data set")
    if not usable:
        raise MisuseError(f"nothing to evaluate on: {reason}; hold out others (seqtune export --hold-out PROBLEMS)")
    note(reason)
    return replace(data, rows=data.rows[~data.rows["problem"].isin([problem.key for problem in near])])


def _holds_out(data: Dataset) -> bool:
    """Return whether the data set holds out a problem of its rows."""
    return bool(data.rows["problem"].isin(data.held_out).any())


def _trained_on(data: Dataset, problems: Sequence[Problem]) -> set[Problem]:
    """The problems that are, or nearly are, training problems of the data set."""
    training = [problem for problem in data.problems() if problem.key not in data.held_out]
    return {problem for problem in problems if any(near(problem, other) for other in training)}
