"""Model: a trained predictor that is kept in a checkpoint folder, and the tables of models and of what they learn from.

A new kind of model is a class that follows `Model` and one line in MODELS; a new kind of data to learn from is a class
that follows `Learning` and one line in LEARNINGS; a predictor that is not trained is one class that follows
`TaskPredictor` and one line in UNTRAINED. The kind of a checkpoint is its config.json's `model_type`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from seqtune.errors import CheckpointError, MisuseError, shown
from seqtune.kernels.files import reason
from seqtune.kernels.lookup import resolve

from .say import Say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqtune.data.dataset import Dataset
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Kernel
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.row_index import Numbers
    from seqtune.kernels.task import Floats, Task
    from seqtune.tuner.measuring.deadline import Deadline

    from .candidate import Candidate
    from .experts.mean import Opinions
    from .largest import Excess
    from .proposing import Evidence
    from .sequence.vocabulary import Vocabulary
    from .trees.ranker import Ranker


# `model_type` in config.json -> "module:attribute" of a class that follows `Model`
MODELS: dict[str, str] = {"seqtune-translator": "seqtune.predictor.checkpoint:Checkpoint"}
# What a model learns from -> "module:attribute" of a class without arguments that follows `Learning`
LEARNINGS: dict[str, str] = {
    "times": "seqtune.predictor.learning.times.learning:TimesLearning",
    "choices": "seqtune.predictor.learning.choices.learning:ChoiceLearning",
}
# Name of a checkpoint shipped with seqtune -> the backends that it predicts for
SHIPPED: dict[str, tuple[str, ...]] = {"default": ("llvm", "opencl"), "gpu": ("cuda", "triton"), "miopen": ("miopen",)}


@dataclass(frozen=True, slots=True)
class Untrained:
    """A predictor that needs no checkpoint."""

    factory: str  # "module:attribute" of a class without arguments that follows `TaskPredictor`
    backends: tuple[str, ...]  # for which it answers where no shipped checkpoint knows a kernel
    note: str  # what a user should know about such an answer


SAFE_DEFAULT = "safe-default"
# Name that `--checkpoint` accepts -> a predictor without a checkpoint
UNTRAINED: dict[str, Untrained] = {
    "analytic": Untrained(
        "seqtune.predictor.analytic:AnalyticPredictor", ("cuda", "triton"),
        "estimated from data sheets by the analytic model; no measurement of this GPU was used"),
    SAFE_DEFAULT: Untrained(
        "seqtune.predictor.safe_defaults:SafeDefaults", (),
        "no shipped checkpoint was trained on kernels of this operation, so a safe default answers; its share of the "
        "best speed is unknown (--verify measures, seqtune tune searches)"),
}


class Predictor(Protocol):
    """The interface of every model and every baseline: propose configurations without measuring."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Propose at least one and at most `count` distinct configurations for each task, best first.

        The proposals for a task do not depend on the other tasks.
        """
        ...


class TaskPredictor(Predictor, Protocol):
    """A predictor that makes its own tasks, so that it answers a problem on a device: a Model, or one of UNTRAINED."""

    @property
    def backends(self) -> Collection[str]:
        """The backends of the devices that it answers for."""
        ...

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem on a device with the kernels that it knows. Raises KernelError."""
        ...

    def knows(self, kernels: Iterable[Kernel]) -> bool:
        """Return whether the predictor knows a kernel of one of these names, perhaps another version of the kernel."""
        ...

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Check that it can propose configurations of these kernels. Raises CheckpointError."""
        ...

    def on(self, device: Device, kernels: Iterable[Kernel] = ()) -> TaskPredictor:
        """The predictor that answers for these kernels on a device: itself, or a retrained checkpoint's layer."""
        ...

    def is_new(self, device: Device) -> bool:
        """Return whether the device is a GPU of whose chip it has learned from no measurement and no choice."""
        ...

    def lacks_times(self, kernels: Iterable[Kernel]) -> bool:
        """Return whether it knows one of these kernels from choices alone, so that it expects no share for them."""
        ...

    def lacks_times_on(self, device: Device) -> bool:
        """Return whether the device is a GPU of whose chip it has learned choices, and times only of other GPUs."""
        ...

    def excesses(self, task: Task) -> tuple[Excess, ...]:
        """Return the numbers in which a problem on a GPU exceeds all that it has learned from."""
        ...

    @property
    def ranker(self) -> Ranker | None:
        """The boosted trees that expect times, which measurements of a device correct; None if it has none."""
        ...

    @property
    def state(self) -> Mapping[str, NDArray[Any]]:
        """The tensors of its network by name; empty without a network."""
        ...

    def expected(self, task: Task, numbers: Numbers) -> Floats:
        """The slowness log(time / best) of configurations by all its parts, (configuration,); NaN if unknown."""
        ...

    def opinions(self, task: Task, numbers: Numbers) -> Opinions:
        """The opinions of its experts on configurations, and its own; a predictor may have no experts."""
        ...

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose as every predictor does. The evidence corrects the times that the ranker expects, if there is one."""
        ...

    def safe_default(self, task: Task, evidence: Evidence | None = None) -> Candidate:
        """The safe default of a task as a candidate, with a confidence if the predictor estimates it."""
        ...


class ResultRow(Protocol):
    """A row of an evaluation's table."""

    def to_json(self) -> dict[str, Any]:
        """The row as a flat JSON object."""
        ...


class GivenOptions(Protocol):
    """All options of a training from measured times: `predictor.learning.times.recipe.Recipe`."""

    @property
    def name(self) -> str:
        """The name of the file, for the checkpoint's provenance."""
        ...

    @property
    def options(self) -> Any:
        """The options, of the kind of models that is trained."""
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
    recipe: GivenOptions | None = None  # all options of a training from measured times; then `seed` is the recipe's


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A user's request for an evaluation. A kind of model raises MisuseError for an option that it does not offer."""

    methods: tuple[str, ...] | None = None  # names from the kind's methods; None: all of them
    queries: tuple[tuple[Problem, Device], ...] | None = None  # measured now; None: look up recorded times
    by_feature: bool = False  # also score each direction and each data type separately
    protect_held_out: bool = False  # use every held-out problem: no training learns from problems near it


class Model(TaskPredictor, Protocol):
    """A trained predictor with its vocabulary and the backends and kernels that it was trained for."""

    model_type: ClassVar[str]  # the name of its kind in MODELS
    vocabulary: Vocabulary
    provenance: Mapping[str, Any]  # data and options of the training
    metrics: Mapping[str, Any]  # results at the end of the training

    @property
    def learned_from(self) -> str:
        """The kind of data that it has learned from, in LEARNINGS."""
        ...

    @property
    def libraries(self) -> Collection[str]:
        """The libraries of the model's kernels: the part of their names before the dot."""
        ...

    @property
    def tables(self) -> Mapping[str, Sequence[str]]:
        """The rows, as text, of each kernel whose configurations come from a table; by the kernel's name."""
        ...

    @classmethod
    def load(cls, name: str | Path) -> Self:
        """Read the model from a folder, given by path or by name. Raises CheckpointError."""
        ...

    def save(self, path: str | Path) -> Path:
        """Write a checkpoint folder, whole or not at all. Raises CheckpointError."""
        ...


M = TypeVar("M", bound=Model)


class Learning(Protocol[M]):
    """The training, retraining and evaluation of models on one kind of data, as users request them."""

    def learns_from(self, data: Dataset) -> bool:
        """Return whether the data set is of this kind."""
        ...

    def train(self, data: Dataset, request: TrainingRequest, progress: Callable[[Any], None] | None,
              say: Say) -> tuple[M, dict[str, Any]]:
        """Train a model on the training part of a data set; return it and a report that JSON can hold."""
        ...

    def retrain(self, model: M, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Callable[[Any], None] | None, say: Say) -> tuple[M, dict[str, Any]]:
        """Adapt a model to new records; return the new one and a report that JSON can hold.

        Other devices keep their answers. With `scratch` the report also contains the results of a training on the new
        records alone. Raises MisuseError.
        """
        ...

    def evaluate(self, model: M, data: Dataset, request: EvaluationRequest, progress: Say,
                 warn: Say) -> Sequence[ResultRow]:
        """The rows of a table that compares a model with other methods on problems that it was not trained on."""
        ...


def load_model(name: str | Path) -> Model:
    """Read the model in a checkpoint folder, given by path or by name. Raises CheckpointError."""
    from .checkpoint_folder import find, model_type

    folder = find(name)
    kind = model_type(folder)
    if kind not in MODELS:
        raise CheckpointError(f"no model type {kind!r:.60} is known here; there are {', '.join(MODELS)}")
    model_class: Any = resolve(MODELS[kind])
    model: Model = model_class.load(folder)
    return model


def cached_model(name: str | Path) -> Model:
    """The model of a checkpoint, kept until its files change. Raises CheckpointError."""
    from .checkpoint_folder import FORMER, MOST_LAYERS, find

    if not isinstance(name, str | Path):
        raise CheckpointError(f"checkpoint={shown(name)} is not the name or the path of a checkpoint")
    folder = find(name)
    layers = [folder.joinpath(*[FORMER] * depth) for depth in range(MOST_LAYERS)]
    try:
        stamps = tuple((path.name, path.stat().st_mtime_ns) for layer in layers if layer.is_dir()
                       for path in sorted(layer.iterdir()))
    except OSError as error:  # a link to nothing or to itself, or a folder that is replaced right now
        raise CheckpointError(f"{folder} is no checkpoint: cannot read {error.filename}: {reason(error)}") from None
    return _loaded(str(folder), stamps)


@lru_cache(maxsize=4)
def _loaded(folder: str, stamps: tuple[tuple[str, int], ...]) -> Model:
    return load_model(Path(folder))


def learning_of(model: Model) -> Learning[Any]:
    """The training and evaluation of models on data like those that a model has learned from."""
    return _learning(model.learned_from)


def _learning(name: str) -> Learning[Any]:
    learning_class: Any = resolve(LEARNINGS[name])
    learning: Learning[Any] = learning_class()
    return learning


def learner(data: Dataset) -> Learning[Any]:
    """The training of models on data of a data set's kind. Raises MisuseError if there is none."""
    for learning in map(_learning, LEARNINGS):
        if learning.learns_from(data):
            return learning
    raise MisuseError("no model learns from this data set: it holds neither measurements nor another tuner's choices")


def shipped_for(backend: str) -> str:
    """The name of the shipped checkpoint that predicts for a backend. Raises CheckpointError."""
    for name, backends in SHIPPED.items():
        if backend in backends:
            return name
    raise CheckpointError(f"no shipped checkpoint speaks for {backend} devices; train one and name it (--checkpoint)")


def answers_for(backend: str) -> str:
    """The name of the predictor that answers for a backend by default: a shipped checkpoint's, or one of UNTRAINED.

    Raises CheckpointError if there is none.
    """
    if not any(backend in backends for backends in SHIPPED.values()):
        for name, untrained in UNTRAINED.items():
            if backend in untrained.backends:
                return name
    return shipped_for(backend)


def untrained_predictor(name: str) -> TaskPredictor:
    """Make the predictor of UNTRAINED with this name."""
    factory: Any = resolve(UNTRAINED[name].factory)
    predictor: TaskPredictor = factory()
    return predictor


def shipped_learner(data: Dataset) -> str:
    """The name of the shipped checkpoint that has learned from data of a data set's kind. Raises CheckpointError.

    Of several, it is the one for the backends of the data set's devices.
    """
    backends = {device.backend for device in data.devices.values()}
    for name in sorted(SHIPPED, key=lambda name: backends.isdisjoint(SHIPPED[name])):
        if learning_of(cached_model(name)).learns_from(data):
            return name
    raise CheckpointError("no shipped checkpoint learns from such a data set; train one and name it (--checkpoint)")
