"""LearnedLabels: the parts of a checkpoint, beside its translator, that come from MIOpen's labels; none is trusted."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
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
from seqtune.predictor.sequence.beam import Allowed, NextWord, Scores
from seqtune.predictor.sequence.vocabulary import Vocabulary, Words
from seqtune.predictor.trees.forest import read_forest, read_packed

from ..formats.terms import as_convnd
from ..kernels.solver import PREFIX, SOLVERS, find_solver
from ..kernels.xdlops_tables import with_table
from .chains import ANY, TREE_FEATURES, Chain, Chains, Floats, ParameterClassifier, tree_columns
from .source_columns import Pair


@dataclass(frozen=True, eq=False)
class LabelState:
    """The state of a beam search."""

    translated: Any  # the translator's state
    columns: Floats  # (query, feature)
    owners: NDArray[np.int64]  # (hypothesis,) number of its query
    names: Sequence[tuple[str, str]]  # (hypothesis,) of its device and its kernel, "" before the kernel's word
    indices: NDArray[np.int64]  # (hypothesis, parameter so far) index of the chosen value


class LabelWords:
    """A source of next words (`NextWord`): the weighted mean of two log-probabilities, a translator's and the trees'.

    The trees' are the mean over the chains of the device and of ANY, or else of another device. They have no opinion on
    the kernel's word and on kernels without a chain. `weight` is theirs, from 0 to 1, and `weights` the same by kernel.
    """

    def __init__(self, translator: NextWord[Any], chains: Chains, weight: float, weights: Mapping[str, float]) -> None:
        self.vocabulary, self._translator, self._chains = translator.vocabulary, translator, chains
        self._fallbacks = {kernel: chain for (_, kernel), chain in chains.items()}
        self._weights = {kernel: weights.get(kernel, weight) for kernel in self._fallbacks}
        self._index_of: dict[str, tuple[Words, ...]] = {}  # by kernel, for each parameter: word -> value index or -1
        for kernel in self.vocabulary.kernels:
            inverse = [np.full(len(self.vocabulary.targets), -1, np.int64) for _ in kernel.parameters]
            for indices, words in zip(inverse, self.vocabulary.value_words(kernel.name), strict=True):
                indices[words] = np.arange(len(words))
            self._index_of[kernel.name] = tuple(inverse)

    def start(self, queries: Sequence[Pair], allowed: Allowed) -> tuple[LabelState, Scores]:
        """Start one empty hypothesis per query; the translator alone scores the kernels' words."""
        translated, scores = self._translator.start(queries, allowed)
        return LabelState(translated, tree_columns(queries), np.arange(len(queries)),
                          [(device.name, "") for _, device in queries], np.zeros((len(queries), 0), np.int64)), scores

    def advance(self, state: LabelState, chosen: Allowed, allowed: Allowed) -> tuple[LabelState, Scores]:
        """Extend hypotheses by one word each, and score the words allowed next."""
        translated, scores = self._translator.advance(state.translated, chosen, allowed)
        names, indices = [state.names[row] for row in chosen.after.tolist()], state.indices[chosen.after]
        said = list(zip(names, chosen.words.tolist(), strict=True))
        if names[0][1]:
            last = [self._index_of[kernel][indices.shape[1]][word] for (_, kernel), word in said]
            indices = np.concatenate([indices, np.array(last, np.int64)[:, None]], axis=1)
        else:
            names = [(device, self.vocabulary.targets[word].removeprefix("kernel:")) for (device, _), word in said]
        state = LabelState(translated, state.columns, state.owners[chosen.after], names, indices)
        return state, self._mixed(state, allowed, scores)

    def _mixed(self, state: LabelState, allowed: Allowed, scores: Scores) -> Scores:
        """The scores of the allowed words, of which the translator's are given."""
        starts = np.concatenate(([0], (allowed.after[1:] != allowed.after[:-1]).nonzero()[0] + 1))
        trees, weights = np.zeros(len(scores), np.float32), np.zeros(len(scores))
        for device, kernel in dict.fromkeys(state.names):
            if kernel in self._fallbacks:
                rows = np.array([row for row, names in enumerate(state.names) if names == (device, kernel)])
                number = np.full(len(state.names), -1)
                number[rows] = np.arange(len(rows))
                own = (number[allowed.after] >= 0).nonzero()[0]
                chains = [self._chains[group] for group in ((device, kernel), (ANY, kernel)) if group in self._chains]
                each = [chain.logs(state.columns[state.owners[rows]], state.indices[rows])
                        for chain in chains or [self._fallbacks[kernel]]]
                logs = each[0] if len(each) == 1 else np.mean(each, axis=0)
                values = self._index_of[kernel][state.indices.shape[1]][allowed.words[own]]
                trees[own], weights[own] = logs[number[allowed.after[own]], values], self._weights[kernel]
        return np.asarray((1 - weights) * _logs(scores, starts) + weights * _logs(trees, starts), np.float32)


def _logs(scores: Scores, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The log-probabilities (word,) of words; those after a hypothesis begin at each start."""
    lengths = np.diff(np.append(starts, len(scores)))
    shifted = (scores - np.maximum.reduceat(scores, starts).repeat(lengths)).astype(np.float64)
    return np.asarray(shifted - np.log(np.add.reduceat(np.exp(shifted), starts)).repeat(lengths))


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
