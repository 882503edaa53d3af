"""Constrained beam search: the most probable valid configurations, from anything that scores next words.

Grammar says which words may follow a prefix, by exact look-ahead in the search spaces: a prefix is a row range, so no
hypothesis can dead-end or become invalid, and one whose range has a single row is complete: the rest of its words are
forced and cost nothing. Probabilities are renormalised over the allowed words, so those of all configurations of a
problem sum to 1.

Never fewer than `count` where the spaces hold as many: a beam of width >= count keeps either all prefixes, or `width`
prefixes with at least one configuration each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

from ..candidate import Candidate
from .derived_quantities import Quantities, Settled
from .vocabulary import Vocabulary, Words

WIDTH = 8  # of the beam that answers a user, and that is judged; training's validation makes do with less

State = TypeVar("State")
Scores = NDArray[np.float32]  # (word,): log-probabilities up to a constant per hypothesis

LEAST = -1e9  # what a score that is no number counts as


class Allowed(NamedTuple):
    """Words that may follow hypotheses, or did."""

    after: NDArray[np.int64]  # (word,) number of the hypothesis
    words: Words  # (word,)
    settled: Quantities  # (word, derived) the kernel's derived quantities that are settled once the word is said

    def select(self, rows: list[int]) -> Allowed:
        """Those words alone."""
        return Allowed(self.after[rows], self.words[rows], self.settled[rows])


class NextWord(Protocol[State]):
    """What the beam asks: how probable is each allowed word after what was said so far? Hypotheses are numbered from 0.

    `start` opens one hypothesis per question, with nothing said. `advance` makes the next generation: hypothesis i is
    the old hypothesis `said.after[i]` with `said.words[i]` said; an old one may have several heirs or none. Both score
    the words allowed next, after the new hypotheses.
    """

    @property
    def vocabulary(self) -> Vocabulary: ...

    def start(self, questions: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[State, Scores]: ...

    def advance(self, state: State, said: Allowed, allowed: Allowed) -> tuple[State, Scores]: ...


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
        self._settled = [Settled(space, vocabulary) for space in self.spaces]
        self._derives = bool(vocabulary.derived)

    def __len__(self) -> int:
        """How many sentences there are."""
        return sum(map(len, self.spaces))

    def follow(self, prefix: Prefix) -> tuple[Words, list[Prefix]]:
        """The words allowed after a prefix that is not complete, and the prefixes that they make."""
        if prefix.space < 0:
            return np.array(self._kernels, dtype=np.int64), [
                Prefix(number, 0, len(space), 0) for number, space in enumerate(self.spaces)]
        steps = self.spaces[prefix.space].next_values(prefix.begin, prefix.end, prefix.column)
        words = self._places[prefix.space][prefix.column][[step.value_index for step in steps]]
        return words, [Prefix(prefix.space, step.begin, step.end, prefix.column + 1) for step in steps]

    def settled(self, prefixes: Sequence[Prefix]) -> Quantities:
        """What is settled by prefixes that follow the same one."""
        if not self._derives:
            return np.empty((len(prefixes), 0), np.float32)
        if prefixes[0].column == 0:
            return np.concatenate([self._settled[prefix.space].after(np.zeros(1, np.int64), -1) for prefix in prefixes])
        rows = np.array([prefix.begin for prefix in prefixes])
        return self._settled[prefixes[0].space].after(rows, prefixes[0].column - 1)

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
    word: int  # the last one: its number among those last allowed


def beam_search(words: NextWord[State], task: Task, width: int = 5, count: int = 5) -> list[Candidate]:
    """`count` distinct configurations of a task, most probable first; fewer only where there are no more.

    Raises CheckpointError for a kernel that the vocabulary lacks.
    """
    return beam_search_many(words, [task], width, count)[0]


def beam_search_many(words: NextWord[State], tasks: Sequence[Task], width: int = 5,
                     count: int = 5) -> list[list[Candidate]]:
    """`beam_search` for several tasks at once. Scores may differ in their last digits from those of a task alone."""
    width = max(width, count)
    grammars = [Grammar(words.vocabulary, task.spaces) for task in tasks]
    beams = [[_Hypothesis(0.0, Grammar.root, 0)] if len(grammar) else [] for grammar in grammars]
    stand: tuple[State, Allowed] | None = None  # of the source of words; the words last allowed
    while ahead := [(number, hypothesis) for number, beam in enumerate(beams) for hypothesis in beam
                    if not hypothesis.prefix.complete]:
        following = [grammars[number].follow(hypothesis.prefix) for number, hypothesis in ahead]
        lengths = [len(allowed) for allowed, _ in following]
        fresh = Allowed(
            np.repeat(np.arange(len(ahead)), lengths), np.concatenate([allowed for allowed, _ in following]),
            np.concatenate([grammars[number].settled(prefixes)
                            for (number, _), (_, prefixes) in zip(ahead, following, strict=True)]))
        if stand is None:
            state, scores = words.start([(tasks[number].problem, tasks[number].device) for number, _ in ahead], fresh)
        else:
            chosen = [hypothesis.word for _, hypothesis in ahead]
            state, scores = words.advance(stand[0], stand[1].select(chosen), fresh)
        stand, end = (state, fresh), 0
        so_far = np.repeat([hypothesis.cost for _, hypothesis in ahead], lengths)
        costs = (so_far + _costs(scores, lengths)).tolist()
        pools = [[hypothesis for hypothesis in beam if hypothesis.prefix.complete] for beam in beams]
        for (number, _), (_, prefixes) in zip(ahead, following, strict=True):
            begin, end = end, end + len(prefixes)
            pools[number] += map(_Hypothesis, costs[begin:end], prefixes, range(begin, end))
        beams = [sorted(pool)[:width] for pool in pools]
    return [[Candidate(grammar.configuration(hypothesis.prefix), -hypothesis.cost) for hypothesis in beam[:count]]
            for grammar, beam in zip(grammars, beams, strict=True)]


def _costs(scores: Scores, lengths: Sequence[int]) -> NDArray[np.float64]:
    """- log-probabilities among the words allowed after each hypothesis, which has so many."""
    given = scores.astype(np.float64)
    if not np.isfinite(given).all():
        given = np.nan_to_num(given, nan=LEAST, posinf=-LEAST, neginf=LEAST)
    starts = np.cumsum([0, *lengths[:-1]])
    given -= np.repeat(np.maximum.reduceat(given, starts), lengths)
    return np.asarray(np.repeat(np.log(np.add.reduceat(np.exp(given), starts)), lengths) - given)
