"""LearnedLabels: the parts of a checkpoint, beside its translator, that come from MIOpen's labels; none is trusted."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from seqtune.errors import CheckpointError, FormatError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.labels import ChainAbout, LabelsAbout, TreesAbout
from seqtune.predictor.sequence.beam import NextWord
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.trees.forest import read_forest, read_packed

from ..formats.terms import as_convnd
from ..kernels.solver import PREFIX, SOLVERS, find_solver
from ..kernels.xdlops_tables import with_table
from .chains import TREE_FEATURES, Chain, Chains, ParameterClassifier
from .words import LabelWords

FILE = "trees.zlib"


@dataclass(frozen=True, eq=False)
class LearnedLabels:
    """The problems that were learned from, tables of solvers, and chains of trees that choose values."""

    seen: NDArray[np.uint8]  # a filter of the learned problems' hashes, see `filter_of`
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by solver: the rows of its table as text
    chains: Chains | None = None
    weight: float = 0.5  # of the trees; one that validation labels choose for each kernel gains nothing
    weights: Mapping[str, float] = field(default_factory=dict)  # the same by kernel, where it differs

    @classmethod
    def read(cls, folder: Path, about: LabelsAbout, seen: NDArray[np.uint8], vocabulary: Vocabulary) -> LearnedLabels:
        """Read the parts from a checkpoint's folder. Raises CheckpointError."""
        labels, path = cls(seen, about.tables), folder / FILE
        kernels, shared, chains = labels.kernels(vocabulary), dict[Any, tuple[ParameterClassifier, ...]](), Chains()
        if about.trees is None:
            return labels
        arrays = read_packed(path)
        for chain in about.trees.chains:
            kernel = kernels.get(chain.kernel)
            if kernel is None or len(chain.seen) != len(kernel.parameters):
                raise CheckpointError(f"{path}: the trees of {chain.kernel:.60} do not fit its parameters")
            sizes = tuple(len(parameter.values) for parameter in kernel.parameters)
            key = chain.trees, chain.member is None, chain.seen, sizes
            if key not in shared:
                shared[key] = tuple(_classifier(path, arrays, chain, column, size) for column, size in enumerate(sizes))
            chains[chain.device, chain.kernel] = Chain(kernel, shared[key], chain.member)
        return replace(labels, chains=chains, weight=about.trees.weight, weights=about.trees.weights)

    @property
    def has_trees(self) -> bool:
        """Whether trees choose values beside the translator."""
        return self.chains is not None

    def without_trees(self) -> LearnedLabels:
        """The same with the translator alone."""
        return replace(self, chains=None)

    def write(self, folder: Path) -> None:
        """Write the trees, if there are any, into a checkpoint's folder."""
        if self.chains is not None:
            (folder / FILE).write_bytes(zlib.compress(save({
                f"{number}/{column}/{part}": array for number, classifiers in enumerate(self._shared())
                for column, classifier in enumerate(classifiers) if classifier.trees is not None
                for part, array in classifier.trees.arrays().items()}), 6))

    def about(self) -> LabelsAbout:
        """The fields of seqtune.json that describe it."""
        shared = self._shared()
        chains = tuple(ChainAbout(device=device, kernel=kernel, trees=shared.index(own.classifiers), member=own.member,
                                  seen=tuple(tuple(part.seen.tolist()) for part in own.classifiers))
                       for (device, kernel), own in (self.chains or {}).items())
        trees = TreesAbout(chains=chains, weight=self.weight, weights=dict(self.weights)) if chains else None
        return LabelsAbout(learned=len(self.seen), tables=dict(self.tables), trees=trees)

    def _shared(self) -> list[tuple[ParameterClassifier, ...]]:
        """The distinct classifiers of all chains: kernels of a group share them."""
        return list(dict.fromkeys(chain.classifiers for chain in (self.chains or {}).values()))

    def mixed(self, translator: NextWord[Any]) -> NextWord[Any]:
        """The translator's next words, mixed with those of the trees, if there are any."""
        return translator if self.chains is None else LabelWords(translator, self.chains, self.weight, self.weights)

    def has_learned(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each hash is one of a learned problem, (hash,); at most one other in fifty seems to be."""
        positions = _bit_positions(hashes, len(self.seen))
        return np.asarray(((self.seen[positions >> 3] >> (positions & 7).astype(np.uint8)) & 1).all(axis=1))

    def kernels(self, vocabulary: Vocabulary) -> Mapping[str, Kernel]:
        """The solvers with parameters in a vocabulary by name, with the rows of tables. Raises CheckpointError."""
        kernels = {}
        for declared in vocabulary.kernels:
            name = declared.name.removeprefix(PREFIX)
            if name in SOLVERS and declared.parameters:
                try:
                    kernels[declared.name] = with_table(find_solver(name), self.tables).kernel
                except (FormatError, KernelError) as error:
                    raise CheckpointError(f"the table of {name} is damaged: {error}") from None
        return kernels

    def task(self, problem: Problem, device: Device, kernels: Iterable[Kernel]) -> Task:
        """The task in MIOpen's terms, with the kernels that apply, or with all. Raises KernelError, ProblemError."""
        problem = as_convnd(problem)
        solving = tuple(kernel for kernel in kernels if kernel.why_not(problem, device) is None)
        return Task.of(problem, device, solving or None)


def filter_of(hashes: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """A Bloom filter of hashes, in one or two bytes each; its length is a power of two."""
    hashes = np.unique(hashes)
    bits = np.zeros(1 << max(6, int(len(hashes) - 1).bit_length()), np.uint8)
    positions = _bit_positions(hashes, len(bits)).ravel()
    np.bitwise_or.at(bits, positions >> 3, (1 << (positions & 7)).astype(np.uint8))
    return bits


def _bit_positions(hashes: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """The positions of a hash's six bits, (hash, bit), computed from the two halves of the remixed hash."""
    mixed = hashes[:, None] * np.uint64(0x9E3779B97F4A7C15)
    first, second = mixed >> np.uint64(32), (mixed & np.uint64(0xFFFFFFFF)) | np.uint64(1)
    return ((first + np.arange(6, dtype=np.uint64) * second) % np.uint64(8 * size)).astype(np.int64)


def _classifier(path: Path, arrays: Mapping[str, NDArray[Any]], chain: ChainAbout, column: int,
                values: int) -> ParameterClassifier:
    seen = chain.seen[column]
    if list(seen) != sorted(set(seen)) or not seen or seen[0] < 0 or seen[-1] >= values:
        raise CheckpointError(f"{path}: the trees of {chain.kernel:.60} choose values that the kernel does not have")
    features = TREE_FEATURES + (chain.member is not None) + column
    return ParameterClassifier(np.array(seen, np.int64), None if len(seen) == 1 else read_forest(
        path, arrays, f"{chain.trees}/{column}/", len(seen), features))
