"""ChoiceLearning: trains and evaluates models of another tuner's choices, as users request it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seqtune.errors import MisuseError

from ...checkpoint import Checkpoint
from ...learning.kinds import EvaluationRequest, TrainingRequest
from ...say import Say

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset

    from .options import ChoiceOptions
    from .scores import LabelRow, SolverChoiceRow


class ChoiceLearning:
    """The learning of translators from the configurations that MIOpen chose, mixed with chains of boosted trees.

    `options` are those of a training, None for the usual ones; the request's seed, state and epochs count instead.
    """

    def __init__(self, options: ChoiceOptions | None = None) -> None:
        self.options = options

    def learns_from(self, data: Dataset) -> bool:
        """Whether the data set holds choices and times of MIOpen's solvers."""
        from seqtune.data.labels import holds_labels

        return holds_labels(data)

    def train(self, data: Dataset, request: TrainingRequest, progress: Callable[[Any], None] | None,
              say: Say) -> tuple[Checkpoint, dict[str, Any]]:
        """Train a model and report on it, see `Learning.train`.

        With `refit` the model is scored on the held-out problems, and then trained on them, too.
        """
        from .options import ChoiceOptions
        from .whole_training import train_model

        if request.recipe is not None:
            raise MisuseError("a recipe is for measured times, and this data set holds another tuner's choices")
        options = replace(self.options or ChoiceOptions(), seed=request.seed, state=request.state,
                          end_now=request.end_now)
        if request.epochs is not None:
            options = replace(options, epochs=request.epochs)
        return train_model(data, options, everything=request.refit, progress=progress, say=say)

    def retrain(self, model: Checkpoint, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Callable[[Any], None] | None, say: Say) -> tuple[Checkpoint, dict[str, Any]]:
        """Raise MisuseError: a model of choices is always trained from scratch."""
        raise MisuseError("a model of MIOpen's labels cannot be retrained: merge old and new labels into one data set "
                          "and use `seqtune train`")

    def evaluate(self, model: Checkpoint, data: Dataset, request: EvaluationRequest, progress: Say,
                 warn: Say) -> Sequence[LabelRow | SolverChoiceRow]:
        """Score the model: rows by device and solver for its configurations, then by device for its choice of solvers.

        Only labels and timings that the model has not learned from are scored. Raises MisuseError.
        """
        from .evaluation import evaluate_labels

        if request.methods is not None or request.queries is not None:
            raise MisuseError("--methods, --live and --problems are for data sets of measurements")
        return evaluate_labels(model, data, by_feature=request.by_feature, progress=progress, warn=warn)
