"""LabelModel: the kind of model that learns from another tuner's choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

from seqtune.errors import MisuseError

from ..model import EvaluationRequest, TrainingRequest
from ..say import Say
from .checkpoint import LabelCheckpoint

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset

    from .scores import LabelRow, SolverChoiceRow


class LabelModel(LabelCheckpoint):
    """A translator trained on the configurations that MIOpen chose, mixed with chains of boosted trees."""

    @classmethod
    def of(cls, checkpoint: LabelCheckpoint) -> Self:
        """The model of a checkpoint."""
        return cls(**{field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)})

    @classmethod
    def learns_from(cls, data: Dataset) -> bool:
        """Whether the data set holds choices and times of MIOpen's solvers."""
        from seqtune.data.labels import holds_labels

        return holds_labels(data)

    @classmethod
    def train(cls, data: Dataset, request: TrainingRequest, progress: Callable[[Any], None] | None,
              say: Say) -> tuple[Self, dict[str, Any]]:
        """Train a model and report on it, see `Model.train`.

        With `refit` the model is judged on the held-out problems, and then trained on them, too.
        """
        from .label_options import LabelOptions
        from .whole_training import train_whole

        options = LabelOptions(seed=request.seed, state=request.state, end_now=request.end_now)
        if request.epochs is not None:
            options = replace(options, epochs=request.epochs)
        checkpoint, report = train_whole(data, options, everything=request.refit, progress=progress, say=say)
        return cls.of(checkpoint), report

    def retrain(self, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Callable[[Any], None] | None) -> tuple[Self, dict[str, Any]]:
        """Raise MisuseError: a label model is always trained from scratch."""
        raise MisuseError("a model of MIOpen's labels cannot be retrained: merge old and new labels into one data set "
                          "and use `seqtune train`")

    def evaluate(self, data: Dataset, request: EvaluationRequest, progress: Say,
                 warn: Say) -> Sequence[LabelRow | SolverChoiceRow]:
        """Score the model: rows by device and solver for its configurations, then by device for its choice of solvers.

        Only labels and timings that the model has not learned from are judged. Raises MisuseError.
        """
        from .label_evaluation import evaluate_labels

        if request.methods is not None or request.queries is not None:
            raise MisuseError("--methods, --live and --problems are for data sets of measurements")
        return evaluate_labels(self, data, by_feature=request.by_feature, progress=progress, warn=warn)
