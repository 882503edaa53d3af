"""Model: a trained predictor that is kept in a checkpoint folder, and the table of the kinds of models.

A new kind of model is one class that follows `Model` and one line in MODELS. The kind of a checkpoint is its
config.json's `model_type`; `load_model` looks it up here, and nothing else asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from seqtune.errors import CheckpointError, MisuseError
from seqtune.kernels.lookup import resolve

from .say import Say

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import Task

    from .candidate import Candidate
    from .sequence.vocabulary import Vocabulary

# `model_type` in config.json -> `module:attribute` of the class
MODELS: dict[str, str] = {
    "seqtune-translator": "seqtune.predictor.times.times_model:TimesModel",
    "seqtune-label-translator": "seqtune.predictor.labels.label_model:LabelModel",
}
# Checkpoints that are shipped with seqtune -> the backends that they speak for
SHIPPED: dict[str, tuple[str, ...]] = {"default": ("llvm", "opencl"), "miopen": ("miopen",)}

class Predictor(Protocol):
    """Proposes configurations without measuring: every model and every baseline."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """For each task at least one and at most `count` distinct configurations of it, best first.

        The proposals for a task do not depend on the other tasks.
        """
        ...


class ResultRow(Protocol):
    """One line of an evaluation's table."""

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What a user asks of a training; None leaves a number to the kind of model."""

    epochs: int | None = None
    extra: int | None = None  # problems that a teacher labels, in addition to those of the data set
    refit: bool = False  # in the end also learn from the problems that were set aside
    state: Path | None = None  # folder of an unfinished training, to resume it
    seed: int = 0


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What a user asks of an evaluation. A kind of model raises MisuseError for what it does not offer."""

    methods: tuple[str, ...] | None = None  # some of the kind's methods; None: all
    questions: tuple[tuple[Problem, Device], ...] | None = None  # measured on the spot instead of looked up
    baselines: bool = False  # also fit what is too slow to be fitted every time
    by_feature: bool = False  # also judge the parts of the data set that share a direction or a data type


class Model(Predictor, Protocol):
    """A trained predictor, with the words, backends and kernels that it speaks of."""

    vocabulary: Vocabulary
    provenance: Mapping[str, Any]  # what it was trained on
    metrics: Mapping[str, Any]  # how well it did then

    @property
    def backends(self) -> Collection[str]:
        """The backends of the devices that it was trained for."""
        ...

    @property
    def libraries(self) -> Collection[str]:
        """The libraries of its kernels: what stands before the dot in their names."""
        ...

    @property
    def tables(self) -> Mapping[str, Sequence[str]]:
        """The rows of those kernels whose configurations come from a table, as text by kernel."""
        ...

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem on a device in terms of the kernels that it speaks of. Raises KernelError."""
        ...

    @classmethod
    def load(cls, name: str | Path) -> Self:
        """From a folder, or by name. Raises CheckpointError."""
        ...

    def save(self, path: str | Path) -> Path:
        """Write a checkpoint folder, whole or not at all. Raises CheckpointError."""
        ...

    @classmethod
    def learns_from(cls, data: Dataset) -> bool:
        """Whether this kind of model can be trained and judged on the data set."""
        ...

    @classmethod
    def train(cls, data: Dataset, request: TrainingRequest, progress: Callable[[Any], None] | None,
              say: Say) -> tuple[Self, dict[str, Any]]:
        """A model trained on the training part of a data set, and a report for JSON."""
        ...

    def retrain(self, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Callable[[Any], None] | None) -> tuple[Self, dict[str, Any]]:
        """A model adapted to new records that does not forget the old ones, and a report for JSON.

        With `scratch` the report also compares a training on the new records alone. Raises MisuseError.
        """
        ...

    def evaluate(self, data: Dataset, request: EvaluationRequest, progress: Say, warn: Say) -> Sequence[ResultRow]:
        """The rows of a table that compares it with other methods on problems it did not learn from."""
        ...


def model_class(name: str) -> type[Model]:
    """The class of a kind of model. Raises CheckpointError where the table lacks it."""
    if name not in MODELS:
        raise CheckpointError(f"no model type {name!r:.60} is known here; there are {', '.join(MODELS)}")
    found: Any = resolve(MODELS[name])
    return found  # type: ignore[no-any-return]


def load_model(name: str | Path) -> Model:
    """The model in a checkpoint folder, which is given by path or by name. Raises CheckpointError."""
    from .checkpoint_folder import find, model_type

    folder = find(name)
    return model_class(model_type(folder)).load(folder)


def learner(data: Dataset) -> type[Model]:
    """The kind of model that learns from a data set. Raises MisuseError where none does."""
    for name in MODELS:
        kind = model_class(name)
        if kind.learns_from(data):
            return kind
    raise MisuseError("no model learns from this data set: it holds neither measurements nor another tuner's choices")


def shipped_for(backend: str) -> str:
    """The name of the shipped checkpoint that speaks for a backend. Raises CheckpointError."""
    for name, backends in SHIPPED.items():
        if backend in backends:
            return name
    raise CheckpointError(f"no shipped checkpoint speaks for {backend} devices; train one and name it (--checkpoint)")


def shipped_learner(data: Dataset) -> str:
    """The name of the shipped checkpoint whose kind of model learns from a data set. Raises CheckpointError."""
    from .checkpoint_folder import find, model_type

    for name in SHIPPED:
        if model_class(model_type(find(name))).learns_from(data):
            return name
    raise CheckpointError("no shipped checkpoint learns from such a data set; train one and name it (--checkpoint)")
