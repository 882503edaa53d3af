"""Checkpoint: a trained translator with its vocabulary and ranker, stored in a folder.

The folder contains config.json (dimensions), model.safetensors (weights), seqtune.json (format, vocabulary, kernels,
provenance, metrics) and, if there is a ranker, trees.safetensors. Its content is not trusted: see
`seqtune.predictor.checkpoint_folder`. Reading a checkpoint does not import transformers. Raises CheckpointError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, JsonValue
from safetensors.numpy import save as save_arrays
from safetensors.torch import save
from torch.overrides import TorchFunctionMode

from seqtune.errors import CheckpointError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

from ..candidate import Candidate
from ..checkpoint_folder import MODEL_TYPE, About, CheckpointFolder, facts
from ..confidence.confidence_model import ConfidenceModel
from ..sequence.vocabulary import Vocabulary
from ..trees.cost_trees import FeatureList
from ..trees.ranker import Ranker
from .decoding import TranslatorWords
from .proposing import ConfidenceEstimator, Evidence, Proposer
from .translator import Translator, described

_DTYPES = {torch.float32: "F32", torch.int64: "I64"}


class _About(About):
    """The fields of seqtune.json."""

    trees: dict[str, tuple[Annotated[int, Field(ge=1, le=256)], Annotated[int, Field(ge=1, le=100)]]] = Field(
        default={}, max_length=10_000)
    confidence: ConfidenceModel | None = None
    tree_features: FeatureList = "facts"  # checkpoints without the field were trained with the facts of devices


@dataclass
class Checkpoint:
    """A translator with its vocabulary and the ranker of its proposals.

    `provenance` describes the data and options of the training, `metrics` its results; both are JSON objects.
    """

    model: Translator
    vocabulary: Vocabulary
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)
    metrics: Mapping[str, JsonValue] = field(default_factory=dict)
    seed: int = 0
    ranker: Ranker | None = None
    estimator: ConfidenceEstimator | None = None  # only a ConfidenceModel is saved

    @classmethod
    def load(cls, name: str | Path = "default") -> Checkpoint:
        """Read a checkpoint from a folder, or by name: a shipped one, or one in the user's data folder.

        Raises CheckpointError.
        """
        folder = CheckpointFolder.open(name, _About)
        about, vocabulary = folder.about, folder.vocabulary
        if {name for kernel in about.kernels for name, _ in kernel.derived} - set(vocabulary.derived):
            raise CheckpointError(f"{folder.path}: its vocabulary lacks a derived quantity of its own kernels")
        model = _weights(folder)
        ranker = Ranker.read(folder.path / "trees.safetensors", about.trees,
                             about.tree_features) if about.trees else None
        return cls(model, vocabulary, about.provenance, about.metrics, about.seed, ranker, about.confidence)

    def save(self, path: str | Path) -> Path:
        """Write the checkpoint as a whole or not at all; return the path. Raises CheckpointError.

        A folder that is not a checkpoint is not overwritten.
        """
        config = {**asdict(self.model.size), "model_type": MODEL_TYPE, "architectures": ["TranslatorModel"]}
        confidence = self.estimator if isinstance(self.estimator, ConfidenceModel) else None
        about = _About(**facts(self.vocabulary, self.provenance, self.metrics, self.seed),
                       trees={} if self.ranker is None else self.ranker.about,
                       confidence=confidence, tree_features="ratios" if self.ranker is None else self.ranker.listed)
        with CheckpointFolder.writing(path, config, about) as fresh:
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
            (fresh / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
            if self.ranker is not None:
                (fresh / "trees.safetensors").write_bytes(save_arrays(self.ranker.arrays()))
        return Path(path)

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends of the devices that the translator was trained for."""
        return self.vocabulary.backends

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries of the vocabulary's kernels."""
        return self.vocabulary.libraries

    @property
    def tables(self) -> Mapping[str, Sequence[str]]:
        """The rows of kernels whose configurations come from a table; this kind of model has none."""
        return {}

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Check that the vocabulary contains the kernels. Raises CheckpointError."""
        self.vocabulary.check(kernels)

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem with all kernels that are registered for the device. Raises KernelError."""
        return Task.of(problem, device)

    def next_word(self) -> TranslatorWords:
        """The source of next words for the beam search."""
        return TranslatorWords(self.model, self.vocabulary)

    def proposer(self, evidence: Evidence | None = None) -> Proposer:
        """The stages of a prediction; `evidence` knows what was measured on the tasks' device."""
        return Proposer(self.next_word(), self.ranker, evidence, self.estimator)

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose the beam's most probable configurations of each task, ordered by the ranker and the evidence.

        Tasks are searched one after another: in a batch, the last digits of a score depend on the other tasks.
        """
        proposer = self.proposer(evidence)
        return [proposer.candidates(task, count) for task in tasks]


class Undrawn(TorchFunctionMode):
    """A mode that leaves new weights as they are: drawing them on the meta device imports torch._dynamo (0.8 s)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def _weights(folder: CheckpointFolder[_About]) -> Translator:
    """Read a Translator's weights from the folder. Every shape is compared before a tensor is read."""
    with torch.device("meta"), Undrawn():
        model = Translator(folder.size)
    arrays = folder.tensors({name: (list(tensor.shape), _DTYPES[tensor.dtype])
                             for name, tensor in model.state_dict().items()})
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()}, assign=True)
    for name, expected in described(folder.vocabulary).items():
        if not torch.allclose(model.get_buffer(name), expected, atol=1e-4):
            raise CheckpointError(f"{folder.weights}: its codes of target words differ from its vocabulary")
    return model.eval()
