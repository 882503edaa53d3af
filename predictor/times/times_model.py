"""TimesModel: the kind of model that learns from measured times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

from seqtune.errors import MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.task import Task

from ..model import EvaluationRequest, TrainingRequest
from ..networks.threads import one_thread
from ..say import Say
from .checkpoint import Checkpoint

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset

    from .evaluation import Row
    from .training_options import TrainingOptions


class TimesModel(Checkpoint):
    """A translator trained on measured times, with the ranker that orders its proposals."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Self:
        """The model of a checkpoint."""
        return cls(**{field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)})

    @classmethod
    def learns_from(cls, data: Dataset) -> bool:
        """Measurements, whatever their device."""
        from seqtune.data.labels import holds_labels

        return not holds_labels(data)

    @classmethod
    def train(cls, data: Dataset, request: TrainingRequest, progress: Callable[[Any], None] | None,
              say: Say) -> tuple[Self, dict[str, Any]]:
        """As `Model.train`. `progress` is told after every epoch."""
        from .training import train
        from .training_options import TrainingOptions

        options = TrainingOptions(seed=request.seed, refit=request.refit, state=request.state)
        checkpoint, report = train(data, _requested(options, request), progress)
        return cls.of(checkpoint), report

    def retrain(self, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Callable[[Any], None] | None) -> tuple[Self, dict[str, Any]]:
        """As `Model.retrain`."""
        from .retraining import RETRAINING, retrain

        options = _requested(replace(RETRAINING, seed=request.seed), request)
        checkpoint, report = retrain(self, new, old, options, progress, scratch)
        return self.of(checkpoint), report

    def evaluate(self, data: Dataset, request: EvaluationRequest, progress: Say, warn: Say) -> Sequence[Row]:
        """Rows by device, method and number measured: the share of the best known speed on held-out problems.

        Questions of the request are measured on the spot, all on one device; `warn` is told how many of their problems
        are, or nearly are, training problems, and which are left out.
        """
        from .evaluation import METHODS, check_methods, evaluate

        if request.baselines or request.by_feature:
            raise MisuseError("--baselines and --by are for another tuner's choices; for measurements name --methods")
        methods = METHODS if request.methods is None else request.methods
        check_methods(methods)
        if request.questions is not None:
            return self._evaluate_live(data, methods, request.questions, progress, warn)
        with one_thread():
            return evaluate(data, self, methods, progress=progress)

    def _evaluate_live(self, data: Dataset, methods: Sequence[str], questions: Sequence[tuple[Problem, Device]],
                       progress: Say, warn: Say) -> Sequence[Row]:
        from .evaluation import evaluate
        from .live import LiveMeasure

        for problem, device in questions:
            Task.of(problem, device)  # raises KernelError before anything is measured
        seen = _trained_on(data, [problem for problem, _ in questions])
        if seen:
            warn(f"{len(seen)} of {len(set(questions))} problems are, or nearly are, training problems of the data "
                 "set: the baselines have learned from them, and so has a checkpoint that was trained on it")

        def skip(problem: Problem, reason: str) -> None:
            seen.discard(problem)
            warn(f"left out: {reason}")

        with one_thread(), LiveMeasure(questions[0][1], progress) as measure:
            rows = evaluate(data, self, methods, measure=measure, questions=questions, on_skip=skip, progress=progress)
        return [replace(row, trained_on=len(seen)) for row in rows]


def _requested(options: TrainingOptions, request: TrainingRequest) -> TrainingOptions:
    return replace(options, epochs=options.epochs if request.epochs is None else request.epochs,
                   extra=options.extra if request.extra is None else request.extra)


def _trained_on(data: Dataset, asked: Sequence[Problem]) -> set[Problem]:
    """The problems that the data set trains on, or on near twins of theirs."""
    training = [problem for problem in data.problems() if problem.key not in data.held_out]
    return {problem for problem in asked if any(near(problem, other) for other in training)}
