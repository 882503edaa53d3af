"""Kinds of learning: what checkpoints learn from, and what a user requests of a training and an evaluation.

A new kind is a class that follows `Learning` and one line in LEARNINGS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from seqtune.errors import CheckpointError, MisuseError
from seqtune.kernels.lookup import resolve
from seqtune.kernels.say import Say

from ..predictors import SHIPPED, cached_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from seqtune.data.dataset import Dataset
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.deadline import Deadline

    from ..checkpoint import Checkpoint
    from ..training.progress import Progress
    from .recipe import Recipe

# What a checkpoint learns from -> "module:attribute" of a class without arguments that follows `Learning`
LEARNINGS: dict[str, str] = {
    "tasks": "seqtune.predictor.learning.tasks.learning:TaskLearning",
    "labels": "seqtune.integrations.miopen.predictor.learning:LabelLearning",
}


class ResultRow(Protocol):
    """A row of an evaluation's table."""

    def to_json(self) -> dict[str, Any]:
        """The row as a flat JSON object."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """A user's request for a training; where a number is None, the kind of model chooses it."""

    epochs: int | None = None
    extra_problems: int | None = None  # problems that a teacher labels, in addition to those of the data set
    refit: bool = False  # finally train again, on the validation problems too
    state: Path | None = None  # folder of an unfinished training, to resume it
    end_now: bool = False  # train no further than that state
    seed: int = 0
    deadline: Deadline | None = None  # of a retraining
    force: bool = False  # train on data that look like noise
    protect_held_out: bool = False  # do not learn from problems near a held-out one; else the held-out one is not used
    recipe: Recipe | None = None  # all options of a training; then `seed` is the recipe's


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A user's request for an evaluation. A kind of model raises MisuseError for an option that it does not offer."""

    methods: tuple[str, ...] | None = None  # names from the kind's methods; None: all of them
    queries: tuple[tuple[Problem, Device], ...] | None = None  # measured now; None: look up recorded times
    protect_held_out: bool = False  # use every held-out problem: no training learns from problems near it


class Learning(Protocol):
    """The training, retraining and evaluation of models on one kind of data, as users request them."""

    def learns_from(self, data: Dataset) -> bool:
        """Return whether the data set is of this kind."""
        ...

    def train(self, data: Dataset, request: TrainingRequest,
              progress: Progress) -> tuple[Checkpoint, dict[str, Any]]:
        """Train a model on the training part of a data set; return it and a report that JSON can hold."""
        ...

    def retrain(self, model: Checkpoint, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Progress) -> tuple[Checkpoint, dict[str, Any]]:
        """Adapt a model to new records; return the new one and a report that JSON can hold.

        Other devices keep their answers. With `scratch` the report also contains the results of a training on the new
        records alone. Raises MisuseError.
        """
        ...

    def evaluate(self, model: Checkpoint, data: Dataset, request: EvaluationRequest, progress: Say,
                 note: Say) -> Sequence[ResultRow]:
        """The rows of a table that compares a model with other methods on problems that it was not trained on."""
        ...


def learning_of(checkpoint: Checkpoint) -> Learning:
    """The training and evaluation of checkpoints on data like those that a checkpoint has learned from."""
    return _learning("tasks" if checkpoint.labels is None else "labels")


def _learning(name: str) -> Learning:
    learning_class: Any = resolve(LEARNINGS[name])
    learning: Learning = learning_class()
    return learning


def learner(data: Dataset) -> Learning:
    """The training of checkpoints on data of a data set's kind. Raises MisuseError if there is none."""
    for learning in map(_learning, LEARNINGS):
        if learning.learns_from(data):
            return learning
    raise MisuseError("no model learns from this data set: it holds neither measurements nor another tuner's choices")


def shipped_learner(data: Dataset) -> str:
    """The name of the shipped checkpoint that has learned from data of a data set's kind. Raises CheckpointError.

    Of several, it is the one for the backends of the data set's devices.
    """
    backends = {device.backend for device in data.devices.values()}
    for name in sorted(SHIPPED, key=lambda name: backends.isdisjoint(SHIPPED[name])):
        if learning_of(cached_checkpoint(name)).learns_from(data):
            return name
    raise CheckpointError("no shipped checkpoint learns from such a data set; train one and name it (--checkpoint)")
