"""Average: several sources of next words as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Questions

from .beam import Allowed, NextWord, Scores
from .vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Blend:
    """Where an average stands: what its parts say, and how much they count. (hypothesis, part)"""

    states: tuple[Any, ...]
    weights: NDArray[np.float64]
    named: bool  # whether the kernels' words have been said


class Average:
    """Several sources of next words as one: the weighted mean of their log-probabilities.

    A source without an opinion on what follows a hypothesis scores NaN there, and doesn't count. Once the kernel is
    named, its own weights (`by_kernel`, of all parts in their order) replace the parts' usual ones.
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
        """That of all parts."""
        return self._parts[0].vocabulary

    def start(self, questions: Any, allowed: Allowed) -> tuple[Blend, Scores]:
        """One empty hypothesis per question."""
        questions = Questions.of(questions)
        return _blend([part.start(questions, allowed) for part in self._parts],
                      np.tile(self._usual, (len(questions), 1)), allowed, False)

    def advance(self, state: Blend, said: Allowed, allowed: Allowed) -> tuple[Blend, Scores]:
        """New hypotheses: each an old one with one more word."""
        weights = state.weights[said.after] if state.named else self._weights[said.words]
        return _blend([part.advance(one, said, allowed) for part, one in zip(self._parts, state.states, strict=True)],
                      weights, allowed, True)


def _blend(found: Sequence[tuple[Any, Scores]], weights: NDArray[np.float64], allowed: Allowed,
           named: bool) -> tuple[Blend, Scores]:
    starts = np.flatnonzero(np.concatenate(([True], allowed.after[1:] != allowed.after[:-1])))
    lengths = np.diff(np.append(starts, len(allowed.after)))
    total, counted = np.zeros(len(allowed.after)), np.zeros(len(allowed.after))
    for part, (_, scores) in enumerate(found):
        shifted = scores - np.repeat(np.maximum.reduceat(scores, starts), lengths)
        logs = shifted - np.repeat(np.log(np.add.reduceat(np.exp(shifted), starts)), lengths)
        weight = weights[allowed.after, part]
        total += np.where(np.isnan(logs), 0, weight * logs)
        counted += weight * ~np.isnan(logs)
    return Blend(tuple(state for state, _ in found), weights, named), np.asarray(
        total / np.maximum(counted, 1e-6), np.float32)
