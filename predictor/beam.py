"""Constrained beam search: the most probable valid configurations, from anything that scores next words.

Grammar says which words may follow a prefix, by exact look-ahead in the search spaces: a prefix is a row range, so no
hypothesis can dead-end or become invalid, and one whose range has a single row is complete: the rest of its words are
forced and cost nothing. Probabilities are renormalised over the allowed words, so those of all configurations of a
problem sum to 1.

Never fewer than `count` where the spaces hold as many: a beam of width >= count keeps either all prefixes, or `width`
prefixes with at least one configuration each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.vocabulary import Vocabulary, Words

State = TypeVar("State")
Scores = NDArray[np.float32]  # (hypothesis, target word): log-probabilities up to a constant per hypothesis

LEAST = -1e9  # what a score that is no number counts as


class NextWord(Protocol[State]):
    """What the beam asks: how probable is each word after what was said so far? Hypotheses are numbered from 0.

    `start` opens one hypothesis per question, with nothing said. `advance` makes the next generation: hypothesis i is
    the old hypothesis `parents[i]` with `words[i]` said; an old one may have several heirs or none.
    """

    @property
    def vocabulary(self) -> Vocabulary: ...

    def start(self, questions: Sequence[tuple[Problem, Device]]) -> tuple[State, Scores]: ...

    def advance(self, state: State, parents: Words, words: Words) -> tuple[State, Scores]: ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A predicted configuration and its log-probability among all valid configurations of the problem."""

    configuration: Configuration
    log_probability: float

    @property
    def probability(self) -> float:
        """In [0, 1]."""
        return math.exp(min(0.0, self.log_probability))


class Prefix(NamedTuple):
    """A beginning of a sentence: the rows [begin, end) of one space share it. `column` words follow the kernel's."""

    space: int  # -1 before the kernel's word
    begin: int
    end: int
    column: int

    @property
    def complete(self) -> bool:
        """Whether one configuration alone is left."""
        return self.space >= 0 and self.end - self.begin == 1


class Grammar:
    """The sentences of one problem: a kernel's word, then the words of a row of its space. Empty spaces have none."""

    root = Prefix(-1, 0, 0, 0)

    def __init__(self, vocabulary: Vocabulary, spaces: Sequence[SearchSpace]) -> None:
        self.spaces = [space for space in spaces if len(space)]
        self._kernels = [vocabulary.kernel(space.kernel.name) for space in self.spaces]
        self._places = [vocabulary.places(space.kernel.name) for space in self.spaces]

    def __len__(self) -> int:
        """How many sentences there are."""
        return sum(map(len, self.spaces))

    def follow(self, prefix: Prefix) -> tuple[Words, list[Prefix]]:
        """The words allowed after a prefix that is not complete, and the prefixes that they make."""
        if prefix.space < 0:
            return np.array(self._kernels, dtype=np.int64), [
                Prefix(number, 0, len(space), 0) for number, space in enumerate(self.spaces)]
        steps = self.spaces[prefix.space].steps(prefix.begin, prefix.end, prefix.column)
        words = self._places[prefix.space][prefix.column][[step.place for step in steps]]
        return words, [Prefix(prefix.space, step.begin, step.end, prefix.column + 1) for step in steps]

    def configuration(self, prefix: Prefix) -> Configuration:
        """What a complete prefix says."""
        assert prefix.complete
        return self.spaces[prefix.space][prefix.begin]

    def random(self, generator: np.random.Generator) -> Configuration:
        """A sentence decoded word by word, each drawn uniformly from the allowed ones."""
        prefix = self.root
        while not prefix.complete:
            following = self.follow(prefix)[1]
            prefix = following[int(generator.integers(len(following)))]
        return self.configuration(prefix)


class _Hypothesis(NamedTuple):
    cost: float  # - log-probability; then space and first row break ties
    prefix: Prefix
    parent: int  # hypothesis of the model that said all but the last word, which is:
    word: int


def beam_search(model: NextWord[State], spaces: Sequence[SearchSpace], width: int = 5,
                count: int = 5) -> list[Candidate]:
    """`count` distinct valid configurations of one problem, most probable first; fewer only where there are no more.

    `spaces` are those of every kernel family that solves the problem. Raises CheckpointError for a kernel that the
    vocabulary lacks.
    """
    return beam_search_many(model, [spaces], width, count)[0]


def beam_search_many(model: NextWord[State], problems: Sequence[Sequence[SearchSpace]], width: int = 5,
                     count: int = 5) -> list[list[Candidate]]:
    """`beam_search` for several problems at once, each given by its spaces (at least one)."""
    if not problems:
        return []
    width = max(width, count)
    grammars = [Grammar(model.vocabulary, spaces) for spaces in problems]
    state, scores = model.start([(spaces[0].problem, spaces[0].device) for spaces in problems])
    beams: list[list[_Hypothesis]] = [[_Hypothesis(0.0, Grammar.root, 0, 0)] if len(grammar) else []
                                      for grammar in grammars]
    rows = [[number] if len(grammar) else [] for number, grammar in enumerate(grammars)]
    while True:
        beams = [_extended(grammar, beam, scores[own], width)
                 for grammar, beam, own in zip(grammars, beams, rows, strict=True)]
        parents: list[int] = []
        words: list[int] = []
        for number, beam in enumerate(beams):
            ahead = [hypothesis for hypothesis in beam if not hypothesis.prefix.complete]
            parents += [rows[number][hypothesis.parent] for hypothesis in ahead]
            words += [hypothesis.word for hypothesis in ahead]
            rows[number] = list(range(len(parents) - len(ahead), len(parents)))
        if not parents:
            break
        state, scores = model.advance(state, np.array(parents, dtype=np.int64), np.array(words, dtype=np.int64))
    return [[Candidate(grammar.configuration(hypothesis.prefix), -hypothesis.cost) for hypothesis in beam[:count]]
            for grammar, beam in zip(grammars, beams, strict=True)]


def _extended(grammar: Grammar, beam: list[_Hypothesis], scores: Scores, width: int) -> list[_Hypothesis]:
    """The best `width` of: complete hypotheses as they are, and every continuation of the open ones.

    `scores` has a row for each open hypothesis of the beam, in order.
    """
    pool: list[_Hypothesis] = []
    row = 0
    for hypothesis in beam:
        if hypothesis.prefix.complete:
            pool.append(hypothesis)
            continue
        words, following = grammar.follow(hypothesis.prefix)
        costs = _costs(scores[row, words]) + hypothesis.cost
        pool += [_Hypothesis(cost, prefix, row, word)
                 for cost, prefix, word in zip(costs.tolist(), following, words.tolist(), strict=True)]
        row += 1
    return sorted(pool)[:width]


def _costs(scores: Scores) -> NDArray[np.float64]:
    """- log-probabilities among the allowed words."""
    given = np.nan_to_num(scores.astype(np.float64), nan=LEAST, posinf=-LEAST, neginf=LEAST)
    given -= given.max()
    return np.asarray(np.log(np.exp(given).sum()) - given)
