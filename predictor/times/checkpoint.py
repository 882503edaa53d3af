"""Checkpoint: a folder with a trained translator, its vocabulary and where it came from.

config.json (dimensions), model.safetensors (weights), seqtune.json (format, vocabulary, kernels, provenance, metrics),
and trees.safetensors where a ranker puts the translator's proposals in order.
Reading one imports no transformers. Nothing in it is trusted: only safetensors are read, sizes are bounded, and every
tensor's shape is compared with the configuration before anything is loaded. Raises CheckpointError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from safetensors.numpy import save as save_arrays
from safetensors.torch import save
from torch.overrides import TorchFunctionMode

from seqtune.errors import CheckpointError
from seqtune.kernels.space import SearchSpace

from ..checkpoint_folder import (
    MODEL_TYPE,
    WordLists,
    check_digests,
    check_size,
    find,
    make_vocabulary,
    read_json,
    read_size,
    read_tensors,
    replacing,
    seal,
    word_lists,
)
from ..networks.dimensions import Dimensions
from ..sequence.beam import WIDTH, Candidate, beam_search
from ..sequence.vocabulary import Declaration, Vocabulary
from ..trees.ranker import PROPOSALS, Ranker
from .decoding import TranslatorWords
from .translator import Translator, described

FORMAT: Literal[1] = 1
_DTYPES = {torch.float32: "F32", torch.int64: "I64"}


class _About(BaseModel):
    """seqtune.json."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[1]
    vocabulary: WordLists
    kernels: tuple[Declaration, ...] = Field(max_length=10_000)
    trees: dict[str, tuple[Annotated[int, Field(ge=1, le=256)], Annotated[int, Field(ge=1, le=100)]]] = Field(
        default={}, max_length=10_000)
    sha256: dict[str, str] = Field(default={}, max_length=10)  # of the files beside; none in those of before
    provenance: dict[str, JsonValue]
    metrics: dict[str, JsonValue]
    seed: int


@dataclass
class Checkpoint:
    """A translator with its vocabulary, and what puts its proposals in order. `provenance` says what it was trained on,
    `metrics` how well it did."""

    model: Translator
    vocabulary: Vocabulary
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)
    metrics: Mapping[str, JsonValue] = field(default_factory=dict)
    seed: int = 0
    ranker: Ranker | None = None

    @classmethod
    def load(cls, name: str | Path = "default") -> Checkpoint:
        """From a folder, or by name: shipped with seqtune or kept in the user's data folder. Raises CheckpointError."""
        folder = find(name)
        about = read_json(folder / "seqtune.json", _About)
        vocabulary = make_vocabulary(about.vocabulary, about.kernels, folder / "seqtune.json")
        if {name for kernel in about.kernels for name, _ in kernel.derived} - set(vocabulary.derived):
            raise CheckpointError(f"{folder}: its vocabulary lacks a derived quantity of its own kernels")
        size = read_size(folder)
        model = _weights(folder / "model.safetensors", size, vocabulary)
        check_digests(folder, about.sha256)
        ranker = Ranker.read(folder / "trees.safetensors", about.trees) if about.trees else None
        return cls(model, vocabulary, about.provenance, about.metrics, about.seed, ranker)

    def save(self, path: str | Path) -> Path:
        """Whole or not at all. A folder that is no checkpoint is not overwritten."""
        config = {**asdict(self.model.size), "model_type": MODEL_TYPE, "architectures": ["TranslatorModel"]}
        about = _About(
            format=FORMAT, kernels=self.vocabulary.kernels, provenance=dict(self.provenance),
            metrics=dict(self.metrics), seed=self.seed, vocabulary=word_lists(self.vocabulary),
            trees={} if self.ranker is None else self.ranker.about)
        with replacing(Path(path)) as fresh:
            (fresh / "config.json").write_text(json.dumps(config, indent=1) + "\n")
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
            (fresh / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
            if self.ranker is not None:
                (fresh / "trees.safetensors").write_bytes(save_arrays(self.ranker.arrays()))
            seal(fresh, about)
        return Path(path)

    def next_word(self) -> TranslatorWords:
        """What the beam search asks."""
        return TranslatorWords(self.model, self.vocabulary)

    def propose(self, spaces: Sequence[SearchSpace], count: int) -> list[Candidate]:
        """The beam's most probable configurations of these spaces (of one problem), put in order by the ranker."""
        width = max(WIDTH if self.ranker is None else PROPOSALS, count)
        found = beam_search(self.next_word(), spaces, width, width)
        return (found if self.ranker is None else self.ranker.reorder(spaces, found))[:count]


class Undrawn(TorchFunctionMode):
    """Leaves new weights as they are: drawing random ones on the meta device would import torch._dynamo (0.8 s)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def _weights(path: Path, size: Dimensions, vocabulary: Vocabulary) -> Translator:
    """A Translator of those dimensions with the weights of the file, every shape compared before any is read."""
    check_size(path.parent, size, vocabulary)
    with torch.device("meta"), Undrawn():
        model = Translator(size)
    found = read_tensors(path, {name: (list(tensor.shape), _DTYPES[tensor.dtype])
                                for name, tensor in model.state_dict().items()})
    model.load_state_dict({name: torch.from_numpy(array) for name, array in found.items()}, assign=True)
    for name, wanted_tensor in described(vocabulary).items():
        if not torch.allclose(model.get_buffer(name), wanted_tensor, atol=1e-4):
            raise CheckpointError(f"{path}: its target words do not mean what its vocabulary says")
    return model.eval()
