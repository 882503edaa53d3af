"""Labels: the parts of a checkpoint that has learned what another tool's tuner chose, and their fields in seqtune.json.

The tool itself reads and uses them: LABELS names its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from seqtune.errors import CheckpointError
from seqtune.kernels.lookup import resolve

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Kernel
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import Task

    from .sequence.beam import NextWord
    from .sequence.vocabulary import Vocabulary

# Library of the kernels that the labels configure -> "module:attribute" of a class that follows `LearnedLabels`
LABELS: dict[str, str] = {"miopen": "seqtune.integrations.miopen.predictor.learned:LearnedLabels"}


class _About(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class ChainAbout(_About):
    """The chain of one kernel on one device."""

    device: str = Field(max_length=200)
    kernel: str = Field(max_length=200)
    trees: int = Field(ge=0, le=1000)  # the number of the trees, which kernels of a group can share
    member: int | None = Field(ge=0, le=1000)  # the kernel's number in its group
    seen: tuple[tuple[int, ...], ...] = Field(max_length=100)  # by parameter: the indices of the values in the labels


class TreesAbout(_About):
    """The chains, and their weight against the translator; `weights` is the same by kernel, where it differs."""

    chains: tuple[ChainAbout, ...] = Field(max_length=1000)
    weight: float = Field(ge=0, le=1)
    weights: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(max_length=1000)


class LabelsAbout(_About):
    """The parts of a checkpoint that come from labels, beside its translator."""

    learned: int = Field(ge=1, le=64 << 20)  # bytes of the filter of learned problems
    tables: dict[str, Annotated[tuple[str, ...], Field(max_length=1000)]] = Field(max_length=100)
    trees: TreesAbout | None = None


class LearnedLabels(Protocol):
    """The parts of a checkpoint, beside its translator, that come from labels."""

    @property
    def seen(self) -> NDArray[np.uint8]:
        """A filter of the learned problems' hashes."""
        ...

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The rows of the kernels whose configurations come from a table, as text by the tool's name of the kernel."""
        ...

    @property
    def has_trees(self) -> bool:
        """Whether trees choose values beside the translator."""
        ...

    def without_trees(self) -> LearnedLabels:
        """The same with the translator alone."""
        ...

    def has_learned(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each hash is one of a learned problem, (hash,); at most one other in fifty seems to be."""
        ...

    def kernels(self, vocabulary: Vocabulary) -> Mapping[str, Kernel]:
        """The kernels with parameters in a vocabulary by name, with the rows of tables. Raises CheckpointError."""
        ...

    def task(self, problem: Problem, device: Device, kernels: Iterable[Kernel]) -> Task:
        """The task in the tool's terms, with the kernels that apply, or with all. Raises KernelError, ProblemError."""
        ...

    def mixed(self, translator: NextWord[Any]) -> NextWord[Any]:
        """The translator's next words, mixed with those of the trees, if there are any."""
        ...

    def about(self) -> LabelsAbout:
        """The fields of seqtune.json that describe it."""
        ...

    def write(self, folder: Path) -> None:
        """Write the trees, if there are any, into a checkpoint's folder."""
        ...


def read_labels(folder: Path, about: LabelsAbout, seen: NDArray[np.uint8], vocabulary: Vocabulary) -> LearnedLabels:
    """Read the parts from a checkpoint's folder by the tool of its kernels. Raises CheckpointError."""
    reference = next((LABELS[name] for name in vocabulary.libraries if name in LABELS), None)
    if reference is None:
        raise CheckpointError(f"{folder} has learned labels of {', '.join(vocabulary.libraries):.80}, which no tool "
                              "here reads")
    reader: Any = resolve(reference)
    labels: LearnedLabels = reader.read(folder, about, seen, vocabulary)
    return labels
