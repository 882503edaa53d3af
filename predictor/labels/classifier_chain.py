"""Chain: boosted trees that say one parameter after the other, each a classifier that sees the values before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Questions
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem

from ..sequence.beam import Allowed, Scores
from ..sequence.vocabulary import Vocabulary, Words
from ..trees.forest import Forest
from .inputs import Floats, tree_columns

if TYPE_CHECKING:
    from seqtune.data.labels import Labels

ANY = ""  # in place of a device's name: a chain that has learned from several
UNSEEN = -12.0  # log-probability of a value that never followed in training


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """How the trees grow."""

    rounds: int = 150  # a third fewer lose 0.01 exact; half as many more, or deeper ones, gain nothing
    depth: int = 6
    rate: float = 0.08
    subsample: float = 0.8
    columns: float = 0.6  # share of features seen by a tree
    least_weight: float = 1.0  # per leaf
    threads: int = 2
    seed: int = 0


class Margins(Protocol):
    """Scores of classes, (row, feature) -> (row, class), up to a constant per row."""

    def margins(self, rows: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class _Booster:
    """Trees as xgboost has them: quicker than a Forest for many rows."""

    booster: Any
    classes: int

    def margins(self, rows: Floats) -> Floats:
        found = self.booster.inplace_predict(rows, predict_type="margin")
        return np.asarray(found, np.float32).reshape(len(rows), self.classes)


@dataclass(frozen=True, eq=False)
class Link:
    """One parameter: the places of the values that training has seen, and what tells them apart (nothing for one)."""

    seen: NDArray[np.int64]
    trees: Margins | None

    def logs(self, rows: Floats, values: int) -> Floats:
        """Log-probabilities (row, value) of all the parameter's values."""
        found = np.full((len(rows), values), UNSEEN, np.float32)
        if self.trees is None:
            found[:, self.seen] = 0.0
            return found
        margins = self.trees.margins(rows)
        margins = margins - margins.max(axis=1, keepdims=True)
        found[:, self.seen] = np.maximum(margins - np.log(np.exp(margins).sum(axis=1, keepdims=True)), UNSEEN)
        return found


@dataclass(frozen=True, eq=False)
class KernelChain:
    """The links of one kernel, in the order of its parameters. Kernels with the same parameters can share their links,
    which then see the kernel's number among them (`member`) as one more feature."""

    kernel: Kernel
    links: tuple[Link, ...]
    member: int | None = None

    @classmethod
    def fit(cls, labels: Labels, options: ChainOptions | None = None) -> KernelChain:
        """On labels whose values are all known."""
        return cls(labels.kernel, _links(labels.kernel, tree_columns(labels.questions), labels.places, options))

    @classmethod
    def fit_kin(cls, kin: Sequence[Labels], options: ChainOptions | None = None) -> list[KernelChain]:
        """A chain for each of several kernels with the same parameters, which share their links."""
        columns = np.concatenate([_numbered(tree_columns(labels.questions), number)
                                  for number, labels in enumerate(kin)])
        links = _links(kin[0].kernel, columns, np.concatenate([labels.places for labels in kin]), options)
        return [cls(labels.kernel, links, number) for number, labels in enumerate(kin)]

    def logs(self, columns: Floats, before: NDArray[Any]) -> Floats:
        """Log-probabilities (row, value) of the next parameter's values after the places before (row, parameter)."""
        column = before.shape[1]
        seen = columns if self.member is None else _numbered(columns, self.member)
        return self.links[column].logs(with_values(seen, self.kernel, before),
                                       len(self.kernel.parameters[column].values))


def chains_of(chains: Mapping[tuple[str, str], KernelChain], device: str, kernel: str) -> list[KernelChain]:
    """Those that speak for a kernel on a device: its own and ANY's, where they are."""
    return [chains[group] for group in ((device, kernel), (ANY, kernel)) if group in chains]


def mean_logs(chains: Sequence[KernelChain], columns: Floats, before: NDArray[Any]) -> Floats:
    """Of one chain or several."""
    found: Floats = np.mean([chain.logs(columns, before) for chain in chains], axis=0)
    return found


def plain(links: Sequence[Link]) -> tuple[Link, ...]:
    """With the trees as plain arrays."""
    return tuple(replace(link, trees=Forest.of(link.trees.booster, link.trees.classes))
                 if isinstance(link.trees, _Booster) else link for link in links)


def _numbered(columns: Floats, member: int) -> Floats:
    return np.concatenate([columns, np.full((len(columns), 1), member, np.float32)], axis=1)


def _links(kernel: Kernel, columns: Floats, places: NDArray[Any], options: ChainOptions | None) -> tuple[Link, ...]:
    options = options or ChainOptions()
    return tuple(_link(with_values(columns, kernel, places[:, :column]), places[:, column], options)
                 for column in range(places.shape[1]))


def with_values(columns: Floats, kernel: Kernel, places: NDArray[Any]) -> Floats:
    """Columns of questions with those of the values in these places of the first parameters."""
    found = [columns]
    for column in range(places.shape[1]):
        values = kernel.parameters[column].values
        numbers = values if all(isinstance(value, int) for value in values) else range(len(values))
        found.append(np.array(list(numbers), np.float32)[places[:, column]][:, None])
    return np.concatenate(found, axis=1)


def _link(columns: Floats, places: NDArray[Any], options: ChainOptions) -> Link:
    from seqtune.tuner.cost_models.boosting import Boosting

    seen, wanted = np.unique(places, return_inverse=True)
    if len(seen) == 1:
        return Link(seen.astype(np.int64), None)
    classes = max(2, len(seen))
    boosting = Boosting("multi:softprob", options.rounds, options.depth, options.rate, options.subsample,
                        options.columns, options.least_weight, threads=options.threads, seed=options.seed,
                        more={"num_class": classes, "base_score": 0.5})
    return Link(seen.astype(np.int64), _Booster(boosting.grow(columns, wanted), classes))


@dataclass(frozen=True, eq=False)
class ChainState:
    """Per hypothesis: its question and the places said so far; the kernel's name once it is said."""

    columns: Floats  # (question, feature)
    devices: NDArray[Any]  # (question,) the device's name
    owners: NDArray[np.int64]
    kernels: tuple[str, ...]
    places: NDArray[np.int64]  # (hypothesis, parameter so far)


class ChainWords:
    """Chains as a `NextWord` of the beam search, by the names of device and kernel.

    A device with a chain of its own is told the mean of that and ANY's; one without, what ANY is told, or else another
    device. Chains have no opinion (NaN) on which kernel is best, nor on kernels without any.
    """

    def __init__(self, chains: Mapping[tuple[str, str], KernelChain], vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._chains = chains
        self._others = {kernel: chain for (_, kernel), chain in chains.items()}
        self._place: dict[str, tuple[Words, ...]] = {}  # per kernel and parameter: word -> place, -1 for others
        for kernel in vocabulary.kernels:
            inverse = []
            for words in vocabulary.places(kernel.name):
                places = np.full(len(vocabulary.targets), -1, np.int64)
                places[words] = np.arange(len(words))
                inverse.append(places)
            self._place[kernel.name] = tuple(inverse)

    def start(self, questions: Sequence[tuple[Problem, Device]] | Questions,
              allowed: Allowed) -> tuple[ChainState, Scores]:
        """One empty hypothesis per question."""
        asked = Questions.of(questions)
        state = ChainState(tree_columns(asked), np.array([device.name for device in asked.devices])[asked.device],
                           np.arange(len(questions)), ("",) * len(questions), np.zeros((len(questions), 0), np.int64))
        return state, np.full(len(allowed.words), np.nan, np.float32)

    def advance(self, state: ChainState, said: Allowed, allowed: Allowed) -> tuple[ChainState, Scores]:
        """New hypotheses: each an old one with one more word."""
        places = state.places[said.after]
        if state.kernels[0]:
            kernels = tuple(state.kernels[row] for row in said.after)
            column = places.shape[1]
            last = [self._place[kernel][column][word] for kernel, word in zip(kernels, said.words, strict=True)]
            places = np.concatenate([places, np.array(last, np.int64)[:, None]], axis=1)
        else:
            names = self.vocabulary.targets
            kernels = tuple(names[word].removeprefix("kernel:") for word in said.words)
        new = ChainState(state.columns, state.devices, state.owners[said.after], kernels, places)
        return new, self._scores(new, allowed)

    def _scores(self, state: ChainState, allowed: Allowed) -> Scores:
        found = np.full(len(allowed.words), np.nan, np.float32)
        column = state.places.shape[1]
        groups: dict[tuple[str, str], list[int]] = {}
        for row, (owner, kernel) in enumerate(zip(state.owners, state.kernels, strict=True)):
            groups.setdefault((str(state.devices[owner]), kernel), []).append(row)
        for (device, kernel), rows in groups.items():
            if kernel not in self._others:
                continue
            mine = chains_of(self._chains, device, kernel) or [self._others[kernel]]
            logs = mean_logs(mine, state.columns[state.owners[rows]], state.places[rows])
            number = np.full(len(state.owners), -1)
            number[rows] = np.arange(len(rows))
            asked = np.flatnonzero(number[allowed.after] >= 0)
            found[asked] = logs[number[allowed.after[asked]], self._place[kernel][column][allowed.words[asked]]]
        return found
