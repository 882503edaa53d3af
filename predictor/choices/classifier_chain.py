"""KernelChain: boosted trees that predict the parameters in order, with one classifier for each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem

from ..sequence.beam import Allowed, Scores
from ..sequence.vocabulary import Vocabulary, Words
from ..trees.forest import Forest
from .inputs import Floats, few_tree_columns, tree_columns

if TYPE_CHECKING:
    from seqtune.data.labels import Labels

ANY = ""  # the device name of a chain that has learned from several devices
UNSEEN = -12.0  # log-probability of a value that training never saw


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """Options of the trees of a chain."""

    rounds: int = 150  # 100 lose 0.01 of exact predictions; 225, or deeper trees, gain nothing
    depth: int = 6
    rate: float = 0.08  # learning rate
    subsample: float = 0.8  # share of labels seen by a tree
    columns: float = 0.6  # share of features seen by a tree
    least_weight: float = 1.0  # smallest sum of second derivatives in a leaf
    threads: int = 2
    seed: int = 0


class Margins(Protocol):
    """A classifier that scores classes."""

    def margins(self, rows: Floats) -> Floats:
        """Score the classes of rows (row, feature), up to a constant per row: (row, class)."""
        ...


@dataclass(frozen=True, eq=False)
class _Booster:
    """Trees of xgboost, as a training grows them; `as_arrays` makes a Forest of them for a checkpoint."""

    booster: Any
    classes: int

    def margins(self, rows: Floats) -> Floats:
        margins = self.booster.inplace_predict(rows, predict_type="margin")
        return np.asarray(margins, np.float32).reshape(len(rows), self.classes)


@dataclass(frozen=True, eq=False)
class ParameterClassifier:
    """A classifier of one parameter's values, in the order of the values that training has seen."""

    seen: NDArray[np.int64]  # (class,) indices of those values, ascending
    trees: Margins | None  # None if there is only one class

    def logs(self, rows: Floats, values: int) -> Floats:
        """The log-probabilities of all values of the parameter for rows (row, feature): (row, value)."""
        result = np.full((len(rows), values), UNSEEN, np.float32)
        if self.trees is None:
            result[:, self.seen] = 0.0
            return result
        margins = np.ascontiguousarray(self.trees.margins(rows), np.float64)  # in another order, sums differ
        margins -= margins.max(axis=1, keepdims=True)
        result[:, self.seen] = np.maximum(margins - np.log(np.exp(margins).sum(axis=1, keepdims=True)), UNSEEN)
        return result


@dataclass(frozen=True, eq=False)
class KernelChain:
    """The classifiers of one kernel's parameters, in their order.

    Kernels with the same parameters can share classifiers, which then see the kernel's number in the group (`member`)
    as one more feature.
    """

    kernel: Kernel
    classifiers: tuple[ParameterClassifier, ...]
    member: int | None = None

    @classmethod
    def fit(cls, labels: Labels, options: ChainOptions | None = None) -> KernelChain:
        """Fit a chain to labels whose values are all known."""
        return cls(labels.kernel, _fit_all(labels.kernel, tree_columns(labels.queries), labels.value_indices, options))

    @classmethod
    def fit_shared(cls, group: Sequence[Labels], options: ChainOptions | None = None) -> list[KernelChain]:
        """Fit a chain for each kernel of a group with the same parameters; the chains share their classifiers."""
        columns = np.concatenate([_with_member(tree_columns(labels.queries), number)
                                  for number, labels in enumerate(group)])
        value_indices = np.concatenate([labels.value_indices for labels in group])
        classifiers = _fit_all(group[0].kernel, columns, value_indices, options)
        return [cls(labels.kernel, classifiers, number) for number, labels in enumerate(group)]

    def logs(self, columns: Floats, before: NDArray[Any]) -> Floats:
        """The log-probabilities of the next parameter's values after the values with indices `before` (row, parameter),
        for queries with features `columns`: (row, value)."""
        column = before.shape[1]
        features = columns if self.member is None else _with_member(columns, self.member)
        return self.classifiers[column].logs(with_values(features, self.kernel, before),
                                             len(self.kernel.parameters[column].values))


def chains_of(chains: Mapping[tuple[str, str], KernelChain], device: str, kernel: str) -> list[KernelChain]:
    """The chains of a kernel on a device: those of the device and of ANY, if they exist."""
    return [chains[group] for group in ((device, kernel), (ANY, kernel)) if group in chains]


def mean_logs(chains: Sequence[KernelChain], columns: Floats, before: NDArray[Any]) -> Floats:
    """The mean log-probabilities of one or several chains, see `KernelChain.logs`."""
    each = [chain.logs(columns, before) for chain in chains]
    mean: Floats = each[0] if len(each) == 1 else np.mean(each, axis=0)
    return mean


def as_arrays(classifiers: Sequence[ParameterClassifier]) -> tuple[ParameterClassifier, ...]:
    """Convert the trees of classifiers from xgboost's to plain arrays."""
    return tuple(replace(classifier, trees=Forest.of(classifier.trees.booster, classifier.trees.classes))
                 if isinstance(classifier.trees, _Booster) else classifier for classifier in classifiers)


def _with_member(columns: Floats, member: int) -> Floats:
    return np.concatenate([columns, np.full((len(columns), 1), member, np.float32)], axis=1)


def _fit_all(kernel: Kernel, columns: Floats, indices: NDArray[Any],
             options: ChainOptions | None) -> tuple[ParameterClassifier, ...]:
    options = options or ChainOptions()
    return tuple(_fit_one(with_values(columns, kernel, indices[:, :column]), indices[:, column], options)
                 for column in range(indices.shape[1]))


def with_values(columns: Floats, kernel: Kernel, indices: NDArray[Any]) -> Floats:
    """Append the values of the first parameters, given as indices (row, parameter), to the features of queries."""
    known = columns.shape[1]
    features = np.empty((len(columns), known + indices.shape[1]), np.float32)
    features[:, :known] = columns
    if indices.shape[1]:
        features[:, known:] = _value_numbers(kernel)[np.arange(indices.shape[1]), indices]
    return features


@lru_cache(maxsize=256)
def _value_numbers(kernel: Kernel) -> Floats:
    """The values of each parameter as numbers, (parameter, value), padded; words are numbered in their order."""
    longest = max((len(parameter.values) for parameter in kernel.parameters), default=0)
    numbers = np.zeros((len(kernel.parameters), longest), np.float32)
    for row, parameter in zip(numbers, kernel.parameters, strict=True):
        row[:len(parameter.values)] = parameter.values if parameter.is_numeric else range(len(parameter.values))
    return numbers


def _fit_one(columns: Floats, indices: NDArray[Any], options: ChainOptions) -> ParameterClassifier:
    from seqtune.tuner.cost_models.boosting import Boosting

    seen, wanted = np.unique(indices, return_inverse=True)
    if len(seen) == 1:
        return ParameterClassifier(seen.astype(np.int64), None)
    classes = max(2, len(seen))
    boosting = Boosting("multi:softprob", options.rounds, options.depth, options.rate, options.subsample,
                        options.columns, options.least_weight, threads=options.threads, seed=options.seed,
                        more={"num_class": classes, "base_score": 0.5})
    return ParameterClassifier(seen.astype(np.int64), _Booster(boosting.grow(columns, wanted), classes))


@dataclass(frozen=True, eq=False)
class ChainState:
    """The state of a beam search over chains."""

    columns: Floats  # (query, feature)
    devices: tuple[str, ...]  # (query,) name of the device
    owners: NDArray[np.int64]  # (hypothesis,) number of its query
    kernels: tuple[str, ...]  # (hypothesis,) name of its kernel, "" before the kernel's word
    indices: NDArray[np.int64]  # (hypothesis, parameter so far) index of the chosen value


class ChainWords:
    """Chains, by the names of device and kernel, as a source of next words (`NextWord`) of the beam search.

    The scores for a device are the mean over its own chain and ANY's. A device without either gets the scores of
    another device. Scores are NaN (no opinion) for the kernel's word and for kernels without a chain.
    """

    def __init__(self, chains: Mapping[tuple[str, str], KernelChain], vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._chains = chains
        self._fallbacks = {kernel: chain for (_, kernel), chain in chains.items()}
        self._index_of: dict[str, tuple[Words, ...]] = {}  # by kernel, for each parameter: word -> value index or -1
        for kernel in vocabulary.kernels:
            inverse = []
            for words in vocabulary.value_words(kernel.name):
                indices = np.full(len(vocabulary.targets), -1, np.int64)
                indices[words] = np.arange(len(words))
                inverse.append(indices)
            self._index_of[kernel.name] = tuple(inverse)

    def start(self, queries: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[ChainState, Scores]:
        """Start one empty hypothesis per query; there is no opinion on the kernel's word."""
        state = ChainState(few_tree_columns(queries), tuple(device.name for _, device in queries),
                           np.arange(len(queries)), ("",) * len(queries), np.zeros((len(queries), 0), np.int64))
        return state, np.full(len(allowed.words), np.nan, np.float32)

    def advance(self, state: ChainState, chosen: Allowed, allowed: Allowed) -> tuple[ChainState, Scores]:
        """Extend hypotheses by one word each, and score the words allowed next."""
        indices = state.indices[chosen.after]
        if state.kernels[0]:
            kernels = tuple([state.kernels[row] for row in chosen.after.tolist()])
            column = indices.shape[1]
            last = [self._index_of[kernel][column][word] for kernel, word in zip(kernels, chosen.words, strict=True)]
            indices = np.concatenate([indices, np.array(last, np.int64)[:, None]], axis=1)
        else:
            names = self.vocabulary.targets
            kernels = tuple(names[word].removeprefix("kernel:") for word in chosen.words)
        new = ChainState(state.columns, state.devices, state.owners[chosen.after], kernels, indices)
        return new, self._scores(new, allowed)

    def _scores(self, state: ChainState, allowed: Allowed) -> Scores:
        scores = np.full(len(allowed.words), np.nan, np.float32)
        column = state.indices.shape[1]
        groups: dict[tuple[str, str], list[int]] = {}
        for row, (owner, kernel) in enumerate(zip(state.owners.tolist(), state.kernels, strict=True)):
            groups.setdefault((state.devices[owner], kernel), []).append(row)
        for (device, kernel), rows in groups.items():
            if kernel not in self._fallbacks:
                continue
            chains = chains_of(self._chains, device, kernel) or [self._fallbacks[kernel]]
            logs = mean_logs(chains, state.columns[state.owners[rows]], state.indices[rows])
            if len(groups) == 1:
                scores[:] = logs[allowed.after, self._index_of[kernel][column][allowed.words]]
                break
            row_of = np.full(len(state.owners), -1)
            row_of[rows] = np.arange(len(rows))
            scored = (row_of[allowed.after] >= 0).nonzero()[0]
            scores[scored] = logs[row_of[allowed.after[scored]],
                                  self._index_of[kernel][column][allowed.words[scored]]]
        return scores
