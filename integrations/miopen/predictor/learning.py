"""LabelLearning: trains and evaluates models of MIOpen's labels, as users request it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from seqtune.data.dataset import Dataset
from seqtune.errors import MisuseError
from seqtune.kernels.say import Say
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.kinds import EvaluationRequest, TrainingRequest
from seqtune.predictor.learning.options import TrainingOptions, label_options
from seqtune.predictor.training.progress import Progress
from seqtune.predictor.translator.threads import one_thread

from .evaluation import Row, choose, propose, score_labels, score_solvers
from .labels import TIMED, read_labels, read_solver_timings


class LabelLearning:
    """The learning from MIOpen's labels. `options` are those of a training (None: the usual ones) without a recipe."""

    def __init__(self, options: TrainingOptions | None = None) -> None:
        self.options = options

    def learns_from(self, data: Dataset) -> bool:
        """Whether the data set holds labels and times of MIOpen's solvers."""
        return data.holds_labels

    def train(self, data: Dataset, request: TrainingRequest,
              progress: Progress) -> tuple[Checkpoint, dict[str, Any]]:
        """Train a model and report on it; see `Learning.train`."""
        from .training import train

        options, recipe = self.options or label_options(), request.recipe
        options = recipe.options if recipe is not None else replace(
            options, seed=request.seed, refit=request.refit, epochs=request.epochs or options.epochs)
        model, report = train(data, replace(options, state=request.state, end_now=request.end_now), progress)
        named = {} if recipe is None else {"recipe": recipe.name}
        return replace(model, provenance={**model.provenance, **named}), report

    def retrain(self, model: Checkpoint, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Progress) -> tuple[Checkpoint, dict[str, Any]]:
        """Raise MisuseError: a model of labels is always trained from scratch."""
        raise MisuseError("a model of MIOpen's labels cannot be retrained: train one on old and new labels in one data "
                          "set (seqtune train)")

    def evaluate(self, model: Checkpoint, data: Dataset, request: EvaluationRequest, progress: Say,
                 note: Say) -> Sequence[Row]:
        """The scores on labels and timings that the model has not learned from. Raises MisuseError without any."""
        if request.methods is not None or request.queries is not None:
            raise MisuseError("--methods, --live and --problems are for data sets of measurements")
        assert model.labels is not None
        kernels, has_learned = model.kernels, model.labels.has_learned
        labels, timings = read_labels(data), read_solver_timings(data)
        unseen = {name: part for name, own in labels.items() if name in kernels
                  and len(part := own.for_kernel(kernels[name]).take(~has_learned(own.hashes)))}
        model.vocabulary.check(kernels[name] for name in unseen)
        timings = timings.take(~has_learned(timings.hashes ^ TIMED))
        if not unseen and not len(timings):
            raise MisuseError("nothing to evaluate on: the checkpoint has learned from every problem in these files")
        skipped = sum(map(len, labels.values())) - sum(map(len, unseen.values()))
        if skipped:
            note(f"{skipped} labels are not evaluated: their problems were learned from, or their solvers are unknown")
        with one_thread():
            rows = score_labels(partial(propose, model.next_word()), unseen, progress)
            progress("scoring the choice of solvers")
            return [*rows, *score_solvers(timings, partial(choose, model.translator))]
