"""Average: the weighted mean of several sources of next words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .beam import Allowed, NextWord, Scores
from .vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Blend:
    """The state of an average: the states of its parts, and their weights."""

    states: tuple[Any, ...]
    weights: NDArray[np.float64]  # (hypothesis, part)
    named: bool  # whether the hypotheses have their kernels' words


class Average:
    """A source of next words: the weighted mean of the log-probabilities of several sources.

    A source that cannot score the words after a hypothesis gives NaN there and does not count. After the kernel's word,
    the weights in `by_kernel` (by the kernel's name, one for each part) replace the parts' own weights.
    """

    def __init__(self, parts: Sequence[tuple[NextWord[Any], float]],
                 by_kernel: Mapping[str, Sequence[float]] | None = None) -> None:
        self._parts = [part for part, _ in parts]
        self._usual = np.array([weight for _, weight in parts])
        self._weights = np.tile(self._usual, (len(self.vocabulary.targets), 1))  # (word, part)
        for name, weights in (by_kernel or {}).items():
            self._weights[self.vocabulary.kernel(name)] = weights

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary, which all parts share."""
        return self._parts[0].vocabulary

    def start(self, queries: Any, allowed: Allowed) -> tuple[Blend, Scores]:
        """Begin one hypothesis without words for each query, and score the words allowed first."""
        return _blend([part.start(queries, allowed) for part in self._parts],
                      np.tile(self._usual, (len(queries), 1)), allowed, False)

    def advance(self, state: Blend, words: Allowed, allowed: Allowed) -> tuple[Blend, Scores]:
        """Continue hypotheses with one more word each, and score the words allowed next."""
        weights = state.weights[words.after] if state.named else self._weights[words.words]
        return _blend([part.advance(inner, words, allowed)
                       for part, inner in zip(self._parts, state.states, strict=True)],
                      weights, allowed, True)


def _blend(results: Sequence[tuple[Any, Scores]], weights: NDArray[np.float64], allowed: Allowed,
           named: bool) -> tuple[Blend, Scores]:
    after = allowed.after
    borders = np.concatenate(([0], (after[1:] != after[:-1]).nonzero()[0] + 1, [len(after)]))
    starts, lengths = borders[:-1], borders[1:] - borders[:-1]
    total, counted = np.zeros(len(after)), np.zeros(len(after))
    for part, (_, scores) in enumerate(results):
        shifted = (scores - np.maximum.reduceat(scores, starts).repeat(lengths)).astype(np.float64)
        logs = shifted - np.log(np.add.reduceat(np.exp(shifted), starts)).repeat(lengths)
        weight, known = weights[after, part], logs == logs  # NaN is not equal to itself
        total += np.where(known, weight * logs, 0)
        counted += weight * known
    return Blend(tuple(state for state, _ in results), weights, named), np.asarray(
        total / np.maximum(counted, 1e-6), np.float32)
