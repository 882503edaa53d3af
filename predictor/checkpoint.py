"""Checkpoint: a trained translator with its vocabulary and its trees, stored in a folder.

The folder contains config.json (dimensions), model.safetensors (weights), seqtune.json (format, vocabulary, kernels,
provenance, metrics) and, if there is a ranker, trees.safetensors; of a training with few measurements also
processes.safetensors. A translator that has learned another tool's labels has weights in 16 bits, tables of kernels'
configurations, a filter of the learned problems and, in trees.zlib, trees that choose values. A retrained checkpoint
answers for some devices only; the subfolder `former` contains the whole checkpoint that answers for all others, which
may be a retrained one as well. Checkpoints of earlier versions also had a mixture of experts, which is not read, and a
confidence model that was fitted to its answers.
The content is not trusted: see `seqtune.predictor.checkpoint_folder`. Reading a checkpoint and predicting from it
import neither torch nor transformers. Raises CheckpointError.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from safetensors.numpy import save as save_arrays

from seqtune.errors import CheckpointError, MisuseError, SeqtuneWarning
from seqtune.kernels.devices.accelerators import ACCELERATORS, BACKENDS, chip_of, find
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .candidate import Candidate
from .checkpoint_folder import FORMER, MODEL_TYPE, MOST_LAYERS, About, CheckpointFolder, facts
from .confidence.model import ConfidenceModel
from .experts.expert import Expert, Opinions, ask
from .experts.process import Processes
from .labels import LearnedLabels, read_labels
from .largest import NONE_LEARNED, Largest
from .proposing import ConfidenceEstimator, Evidence, Proposer
from .sequence import beam
from .sequence.beam import NextWord
from .sequence.vocabulary import Vocabulary
from .translator.numpy_judge import NumpyJudge
from .translator.numpy_layers import Dimensions, Tensors
from .translator.numpy_translator import NumpyTranslator
from .translator.word_vectors import described_arrays, shapes
from .trees.forest import read_arrays
from .trees.ranker import Ranker

if TYPE_CHECKING:
    from .translator.translator import Translator

PROCESSES = "processes.safetensors"
NEW_GPU = "it has learned from no measurement or choice on a GPU of this chip"
CHOICES_ON_CHIP = "it has learned choices and no times on GPUs of this chip: expected shares rest on other GPUs"
CHOICES_OF_KERNELS = "it has learned choices and no times of these kernels, so no share of the best speed is expected"
LEARNED = "learned"  # the tensor of the filter of learned problems


@dataclass(eq=False)
class Checkpoint:
    """A trained translator with its vocabulary, and the ranker that orders its proposals.

    `provenance` describes the data and options of the training, `metrics` its results; both are JSON objects.

    A retrained checkpoint keeps the `former` one, from which the retraining began, so that no answer for another device
    changes. This checkpoint is the newest layer, the former one the next. `propose` asks the layer that answers for a
    task; `ranker`, `expected` and the other members belong to the newest layer, and `on` returns the layer of a device.
    """

    size: Dimensions
    state: Tensors  # the translator's tensors by name
    vocabulary: Vocabulary
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)
    metrics: Mapping[str, JsonValue] = field(default_factory=dict)
    seed: int = 0
    ranker: Ranker | None = None
    estimator: ConfidenceEstimator | None = None  # only a ConfidenceModel is saved
    former: Checkpoint | None = None
    retrained_for: frozenset[str] = frozenset()  # keys of the devices; empty without a former checkpoint
    labels: LearnedLabels | None = None  # another tool's; None: it was trained on measured times or choices
    largest: Largest = NONE_LEARNED
    processes: Processes | None = None  # of a training with few measurements

    @classmethod
    def of_translator(cls, translator: Translator, vocabulary: Vocabulary,
                      provenance: Mapping[str, JsonValue] | None = None,
                      metrics: Mapping[str, JsonValue] | None = None, seed: int = 0, ranker: Ranker | None = None,
                      estimator: ConfidenceEstimator | None = None) -> Self:
        """Make a model of a trained translator."""
        return cls(translator.size, translator.arrays(), vocabulary, provenance or {}, metrics or {}, seed, ranker,
                   estimator)

    @classmethod
    def load(cls, name: str | Path = "default") -> Self:
        """Read a checkpoint from a folder, or by name: a shipped one, or one in the user's data folder.

        Raises CheckpointError.
        """
        return cls._read(name, MOST_LAYERS)

    @classmethod
    def _read(cls, name: str | Path, layers: int) -> Self:
        """Read a checkpoint that has at most this number of layers."""
        folder = CheckpointFolder.open(name)
        about, vocabulary = folder.about, folder.vocabulary
        if folder.size.quantities and {
                name for kernel in about.kernels for name, _ in kernel.derived} - set(vocabulary.derived):
            raise CheckpointError(f"{folder.path}: its vocabulary lacks a derived quantity of its own kernels")
        state = _weights(folder)
        labels = None if about.choices is None else read_labels(
            folder.path, about.choices, state.pop(LEARNED), vocabulary)
        ranker = Ranker.read(folder.path / "trees.safetensors", about.trees,
                             about.tree_features) if about.trees else None
        processes = Processes.read(
            about.processes, read_arrays(folder.path / PROCESSES), [kernel.name for kernel in about.kernels]
        ) if about.processes else None
        if about.retrained_for and layers == 1:
            raise CheckpointError(f"{folder.path} has a former checkpoint, too; seqtune writes {MOST_LAYERS} layers at "
                                  "most")
        former = cls._read(folder.path / FORMER, layers - 1) if about.retrained_for else None
        if about.confidence is not None:
            warnings.warn(f"{folder.path} was trained by an earlier version: its answers are now the plain mean of its "
                          "experts, without expected shares; train it again to have these", SeqtuneWarning,
                          stacklevel=3)
        return cls(folder.size, state, vocabulary, about.provenance, about.metrics, about.seed, ranker,
                   about.estimator, former, frozenset(about.retrained_for), labels, about.largest, processes)

    def save(self, path: str | Path) -> Path:
        """Write the checkpoint as a whole or not at all; return the path. Raises CheckpointError.

        A folder that is not a checkpoint is not overwritten.
        """
        config = {**asdict(self.size), "model_type": MODEL_TYPE, "architectures": ["TranslatorModel"]}
        estimator = self.estimator if isinstance(self.estimator, ConfidenceModel) else None
        about = About(**facts(self.vocabulary, self.provenance, self.metrics, self.seed),
                       trees={} if self.ranker is None else self.ranker.about,
                       processes=() if self.processes is None else self.processes.about,
                       estimator=estimator, largest=self.largest,
                       tree_features="ratios" if self.ranker is None else self.ranker.listed,
                       retrained_for=tuple(sorted(self.retrained_for)),
                       choices=None if self.labels is None else self.labels.about())
        tensors: dict[str, NDArray[Any]] = dict(self.state)
        if self.labels is not None:
            described = described_arrays(self.vocabulary)
            tensors = {name: array if name in described else array.astype(np.float16)
                       for name, array in tensors.items()} | {LEARNED: self.labels.seen}
        with CheckpointFolder.writing(path, config, about) as fresh:
            (fresh / "model.safetensors").write_bytes(save_arrays(tensors, metadata={"format": "pt"}))
            if self.labels is not None:
                self.labels.write(fresh)
            if self.ranker is not None:
                (fresh / "trees.safetensors").write_bytes(save_arrays(self.ranker.arrays()))
            if self.processes is not None:
                (fresh / PROCESSES).write_bytes(save_arrays(self.processes.arrays()))
            if self.former is not None:
                self.former.save(fresh / FORMER)
        return Path(path)

    @property
    def layers(self) -> tuple[Checkpoint, ...]:
        """This checkpoint and all former ones, the newest first."""
        return (self,) if self.former is None else (self, *self.former.layers)

    def on(self, device: Device, kernels: Iterable[Kernel] = ()) -> Checkpoint:
        """The layer that answers for a device: the newest one that was retrained for it, or else the oldest.

        A layer that lacks the device's backend or one of these kernels is passed over; then the newest other one
        answers. If every layer lacks something, the result is this checkpoint; `check_kernels` names what is missing.
        """
        if self.former is None:
            return self
        layers, kernels = self.layers, tuple(kernels)
        retrained = [layer for layer in layers if device.key in layer.retrained_for]
        able = (layer for layer in (*retrained, layers[-1], *layers)
                if device.backend in layer.vocabulary.backends and not layer.vocabulary.differences(kernels))
        return next(able, self)

    def former_for(self, devices: Iterable[Device]) -> Checkpoint:
        """The checkpoint that goes on answering for all devices but these, without layers that answer for none.

        Raises MisuseError if it has as many layers as a former checkpoint can have.
        """
        former = self._without(frozenset(device.key for device in devices))
        if len(former.layers) >= MOST_LAYERS:
            raise MisuseError(f"this checkpoint was retrained {MOST_LAYERS - 1} times, each time for other devices; "
                              "more is not possible: train one on the records of all of them (seqtune train)")
        return former

    def _without(self, keys: frozenset[str]) -> Checkpoint:
        """This checkpoint without the layers that were retrained for none but these devices."""
        if self.former is None:
            return self
        former = self.former._without(keys | self.retrained_for)
        if self.retrained_for <= keys:
            return former
        return self if former is self.former else replace(self, former=former)

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends of the devices that the layers' translators were trained for."""
        return tuple(dict.fromkeys(backend for layer in self.layers for backend in layer.vocabulary.backends))

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries of the kernels in the layers' vocabularies."""
        return tuple(dict.fromkeys(library for layer in self.layers for library in layer.vocabulary.libraries))

    @property
    def tables(self) -> Mapping[str, Sequence[str]]:
        """The rows of the labels' kernels whose configurations come from a table, by the tool's name of the kernel."""
        return {} if self.labels is None else self.labels.tables

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels of the labels by name, with the table rows of training. Raises CheckpointError."""
        return {} if self.labels is None else self.labels.kernels(self.vocabulary)

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Check that the vocabulary of a layer contains the kernels. Raises CheckpointError."""
        wanted = tuple(kernels)
        if self.former is None or not self.fits(wanted):
            self.vocabulary.check(wanted)

    def fits(self, kernels: Sequence[Kernel]) -> bool:
        """Return whether the vocabulary of a layer contains all these kernels as they are."""
        return any(not layer.vocabulary.differences(kernels) for layer in self.layers)

    def knows(self, kernels: Iterable[Kernel]) -> bool:
        """Return whether a layer was trained with a kernel of one of these names."""
        return any(kernel.name in self._kernel_names for kernel in kernels)

    @cached_property
    def _kernel_names(self) -> frozenset[str]:
        return frozenset(kernel.name for layer in self.layers for kernel in layer.vocabulary.kernels)

    def is_new(self, device: Device) -> bool:
        """Return whether the device is a GPU of whose chip, by the provenance, this layer has learned nothing."""
        return (device.backend in BACKENDS and device.key not in self.retrained_for
                and device.name not in self._trained_on and chip_of(device) not in _chips(self._trained_on))

    def notes(self, task: Task) -> tuple[str, ...]:
        """Lines that say on what an answer does not rest: the GPU's chip, times of the kernels, or such sizes."""
        notes, device = [NEW_GPU] if self.is_new(task.device) else [], task.device
        if isinstance(self.estimator, ConfidenceModel):
            if self.estimator.lacks_times(task.kernels):
                notes.append(CHOICES_OF_KERNELS)
            elif device.backend in BACKENDS and not notes:
                timed = frozenset(known.partition(" ")[0] for known in self.estimator.devices)
                if device.name not in timed and chip_of(device) not in _chips(timed):
                    notes.append(CHOICES_ON_CHIP)
        beyond = self.largest.note(task) if device.backend in BACKENDS else ""
        return (*notes, beyond) if beyond else tuple(notes)

    @cached_property
    def _trained_on(self) -> frozenset[str]:
        """The names of the devices in the training data."""
        about = self.provenance.get("trained_on")
        names = about.get("devices") if isinstance(about, dict) else None
        return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem with the registered kernels, except new ones that no layer was trained with.

        Where all are new they stay, and `check_kernels` names them. With labels, the task is in the terms of their
        tool, with the kernels that apply, or with all where none does. Raises KernelError, ProblemError.
        """
        if self.labels is not None:
            return self.labels.task(problem, device, self.kernels.values())
        task = Task.of(problem, device)
        known = [kernel for kernel in task.kernels if kernel.name in self._kernel_names]
        return task if len(known) in (0, len(task.kernels)) else Task.of(problem, device, known)

    def next_word(self) -> NextWord[Any]:
        """The source of next words for the beam search: the translator, mixed with trees of labels if it has any."""
        return self._words

    @cached_property
    def translator(self) -> NumpyTranslator:
        """The translator alone."""
        return NumpyTranslator(self.size, self.state, self.vocabulary)

    @cached_property
    def _words(self) -> NextWord[Any]:
        return self.translator if self.labels is None else self.labels.mixed(self.translator)

    @cached_property
    def judge(self) -> NumpyJudge | None:
        """The translator's judge of whole configurations; None if it was trained without one."""
        return NumpyJudge(self.state, self.translator) if self.size.judge else None

    @cached_property
    def network(self) -> Translator:
        """The translator as a torch module in evaluation mode, as training needs it; it does not share the state."""
        from .translator.translator import Translator

        return Translator.of_arrays(self.size, self.state)

    @cached_property
    def experts(self) -> tuple[Expert, ...]:
        """The trees, the judge and the processes, as far as it has them; their plain mean counts."""
        return tuple(expert for expert in (self.ranker, self.judge, self.processes) if expert is not None)

    def expected(self, task: Task, numbers: Numbers) -> Floats:
        """The slowness log(time / best) of configurations by the experts together, (configuration,).

        It is NaN if no expert knows all of them. Without trees of a kernel the judge's least is 0.
        """
        return self.opinions(task, numbers).slowness

    def opinions(self, task: Task, numbers: Numbers) -> Opinions:
        """The opinions of the experts on configurations, and their mean."""
        return ask(self.experts, task, numbers)

    def proposer(self, evidence: Evidence | None = None) -> Proposer:
        """The stages of a prediction; `evidence` knows what was measured on the tasks' device."""
        return Proposer(self.next_word(), self.experts, evidence, self.estimator)

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose configurations of each task, ordered by the experts and the evidence.

        Tasks of a layer are searched together, which changes no number.
        """
        answered: dict[Checkpoint, list[int]] = {}  # the indices of the tasks that each layer answers
        for index, task in enumerate(tasks):
            answered.setdefault(self.on(task.device, task.kernels), []).append(index)
        candidates: dict[int, list[Candidate]] = {}
        for layer, indices in answered.items():
            proposer = layer.proposer(evidence)
            for begin in range(0, len(indices), beam.TASKS):
                part = indices[begin:begin + beam.TASKS]
                candidates.update(zip(part, proposer.candidates([tasks[index] for index in part], count), strict=True))
        return [candidates[index] for index in range(len(tasks))]

    def safe_default(self, task: Task, evidence: Evidence | None = None) -> Candidate:
        """The safe default of a task as a candidate, with the confidence of the layer that answers for the task."""
        return self.on(task.device, task.kernels).proposer(evidence).safe_default(task)


@lru_cache(maxsize=64)
def _chips(names: frozenset[str]) -> frozenset[str]:
    """The chips of the GPUs with these names of devices that the table of accelerators knows."""
    return frozenset(ACCELERATORS[key].chip for key in map(find, names) if key is not None)


def _weights(folder: CheckpointFolder) -> dict[str, NDArray[Any]]:
    """Read a Translator's state from the folder, and the filter of LEARNED problems if it has learned labels.

    Every shape is compared before a tensor is read.
    """
    described, labels = described_arrays(folder.vocabulary), folder.about.choices
    wanted = {name: (list(shape), "I64" if name == "target.groups" else "F16" if labels and name not in described
                     else "F32") for name, shape in shapes(folder.size).items()}
    if labels is not None:
        if labels.learned & (labels.learned - 1):
            raise CheckpointError(f"{folder.path}: `learned` is {labels.learned} bytes, not a power of two")
        wanted[LEARNED] = [labels.learned], "U8"
    arrays = folder.tensors(wanted)
    for name, array in described.items():
        if not np.allclose(arrays[name], array, atol=1e-4):
            raise CheckpointError(f"{folder.weights}: its codes of target words differ from its vocabulary")
    return {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in arrays.items()}
