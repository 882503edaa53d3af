"""LabelPredictor: proposes configurations for labelled queries; and Beam, which does so with any source of next words.

A predictor that works word by word also tells whether its next value is right after the true values before it. The
baselines of `benchmarks/` that propose whole configurations are label predictors, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Queries
from seqtune.kernels.enumeration import column_of
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.membership import Membership
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

from ...sequence.beam import WIDTH, Allowed, NextWord, beam_search_many
from ...sequence.prefix_batch import BatchGrammar

if TYPE_CHECKING:
    from seqtune.data.labels import Labels

CHUNK = 128  # queries whose search spaces are in memory at once

ValueIndices = NDArray[np.int16]  # (..., parameter): index of each value in its parameter's values, -1 for none


@dataclass(frozen=True, eq=False)
class LabelPredictions:
    """The predictions of a label predictor for labelled queries."""

    proposed: ValueIndices  # (label, proposal, parameter), best first; -1 where there are fewer proposals
    correct: NDArray[np.bool_] | None  # (label, parameter): is the most probable value after the true ones right?
                                       # None for a predictor that does not work value by value


class LabelPredictor(Protocol):
    """A predictor of labels, such as a beam or a baseline."""

    def predict(self, labels: Labels, count: int) -> LabelPredictions:
        """Propose `count` configurations for the query of each label. The proposals depend on the queries alone."""
        ...


class Beam:
    """The constrained beam search over any source of next words. It proposes at most `width` configurations; with a
    width of 1 it is greedy.
    """

    def __init__(self, words: NextWord[Any], width: int = WIDTH) -> None:
        self.words = words
        self.width = width

    def predict(self, labels: Labels, count: int) -> LabelPredictions:
        proposed = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
        correct = np.zeros(labels.value_indices.shape, np.bool_)
        for rows, part, spaces in chunks(labels):
            indices = self._proposed(part, spaces, count)
            proposed[rows, :indices.shape[1]] = indices
            correct[rows] = self._correct(part, spaces)
        return LabelPredictions(proposed, correct)

    def propose(self, labels: Labels, count: int) -> ValueIndices:
        """Propose `count` configurations for each label, without teacher forcing: (label, proposal, parameter)."""
        proposed = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
        for rows, part, spaces in chunks(labels):
            indices = self._proposed(part, spaces, count)
            proposed[rows, :indices.shape[1]] = indices
        return proposed

    def _proposed(self, labels: Labels, spaces: Sequence[SearchSpace], count: int) -> ValueIndices:
        count = min(count, self.width)
        results = beam_search_many(self.words, [Task(space.problem, space.device, (space,)) for space in spaces],
                                   self.width, count)
        indices = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
        for row, candidates in enumerate(results):
            for rank, candidate in enumerate(candidates):
                indices[row, rank] = labels.kernel.indices(candidate.configuration.settings)
        return indices

    def _correct(self, labels: Labels, spaces: Sequence[SearchSpace]) -> NDArray[np.bool_]:
        """Whether each next value is right; a label outside of its space is wrong after its first impossible value."""
        correct = np.zeros(labels.value_indices.shape, np.bool_)
        rows = [row for row, space in enumerate(spaces) if len(space)]
        if not rows:
            return correct
        vocabulary = self.words.vocabulary
        grammar = BatchGrammar(vocabulary, [Task(spaces[row].problem, spaces[row].device, (spaces[row],))
                                            for row in rows])
        following = grammar.begin()
        chosen, prefixes = Allowed.of(following), following.prefixes
        state, _ = self.words.start([(spaces[row].problem, spaces[row].device) for row in rows], chosen)
        impossible = np.zeros(len(rows), np.bool_)
        for column, words in enumerate(vocabulary.value_words(labels.kernel.name)):
            following = grammar.follow(prefixes, column)
            state, scores = self.words.advance(state, chosen, Allowed.of(following))
            ends = np.searchsorted(following.after, np.arange(len(rows)), side="right").tolist()
            true_rows = []
            for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
                index = int(labels.value_indices[rows[number], column])
                matches = np.flatnonzero(following.words[begin:end] == words[index]) if index >= 0 else np.zeros(0, int)
                impossible[number] |= not len(matches)
                true = 0 if impossible[number] else int(matches[0])
                correct[rows[number], column] = (not impossible[number]
                                                 and int(np.argmax(scores[begin:end])) == true)
                true_rows.append(begin + true)
            chosen = Allowed.of(following).select(true_rows)
            prefixes = following.prefixes.select(np.array(true_rows))
        return correct


def chunks(labels: Labels) -> Iterator[tuple[NDArray[np.int64], Labels, list[SearchSpace]]]:
    """Chunks of labels: their row numbers, the labels, and their search spaces, which can have 20,000 rows each."""
    order = _by_space(labels)
    for begin in range(0, len(labels), CHUNK):
        rows = order[begin:begin + CHUNK]
        part = labels.take(rows)
        yield rows, part, [SearchSpace(part.kernel, problem, device) for problem, device in part.queries.pairs()]


def _by_space(labels: Labels) -> NDArray[np.int64]:
    """An order in which labels with the same search space mostly follow each other: enumerations are cached."""
    values = labels.queries.problems.columns.values
    keys = [values[name][labels.queries.problem] for name in ("n", "to_w", "to_h", "to_c", "from_c", "dtype")]
    return np.asarray(np.lexsort((*keys, labels.queries.device)))


def allowed_values(labels: Labels) -> NDArray[np.int64]:
    """The number of values that the look-ahead allows for each parameter after the true ones before it.

    (label, parameter); 0 where the true values before it, or the value itself, are outside of the search space.
    """
    counts = np.zeros(labels.value_indices.shape, np.int64)
    for rows, part, spaces in chunks(labels):
        for row, value_indices, space in zip(rows.tolist(), part.value_indices.tolist(), spaces, strict=True):
            begin, end = 0, len(space)
            for column, index in enumerate(value_indices):
                following = space.next_values(begin, end, column)
                chosen = next((value for value in following if value.value_index == index), None)
                if chosen is None:
                    break
                counts[row, column] = len(following)
                begin, end = chosen.begin, chosen.end
    return counts


def valid(kernel: Kernel, queries: Queries, indices: ValueIndices) -> NDArray[np.bool_]:
    """Whether each configuration `indices` (query, parameter) is in the search space of its query, (query,).

    Evaluates the constraints over columns, without enumerating the spaces.
    """
    result = np.zeros(len(queries), np.bool_)
    for number, device in enumerate(queries.devices):
        rows = np.flatnonzero((queries.device == number) & (indices >= 0).all(axis=1))
        if not len(rows):
            continue
        settings = {parameter.name: column_of(parameter)[indices[rows, column]]
                    for column, parameter in enumerate(kernel.parameters)}
        problems = queries.problems.columns.take(queries.problem[rows])
        member = Membership(kernel, problems, device, settings)
        result[rows] = [reason is None for reason in member.reasons]
    return result
