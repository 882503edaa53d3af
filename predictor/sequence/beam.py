"""Constrained beam search: the most probable valid configurations according to a source of next words.

A BatchGrammar gives the words that may follow prefixes, by exact look-ahead in the search spaces. A prefix is a range
of rows, so no hypothesis becomes invalid or ends without a configuration. A prefix whose range has one row is complete:
the rest of its words are forced and cost nothing. Probabilities are renormalised over the allowed words, so the
probabilities of all configurations of a problem sum to 1.

The search returns `count` configurations if the spaces have as many: a beam of width >= count keeps either all
prefixes, or `width` prefixes with at least one configuration each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from ..candidate import Candidate
from .grammar import BatchGrammar, Longer, Prefixes, Quantities, first_of_each
from .vocabulary import Vocabulary, Words

TASKS = 32  # of one batch, which is searched at once; more would leave the processor's caches
WIDTH = 8  # width of the beam in predictions and evaluations; validation during training uses a narrower one

State = TypeVar("State")
Scores = NDArray[np.float32]  # (word,): log-probabilities up to a constant per hypothesis

MIN_SCORE = -1e9  # replaces scores that are not numbers


class Allowed(NamedTuple):
    """Words after hypotheses: the words that may follow, or those that were chosen."""

    after: NDArray[np.int64]  # (word,) index of the hypothesis
    words: Words  # (word,)
    resolved: Quantities  # (word, derived) the derived quantities that are resolved once the word is added
    rows: Numbers | None = None  # (word,) index among the allowed words of the step before, if they were selected
    fresh: Numbers | None = None  # the derived quantities that last words may resolve, ascending; None: any

    @classmethod
    def of(cls, following: Longer) -> Allowed:
        """The last words of longer prefixes."""
        return cls(following.after, following.words, following.prefixes.resolved, None, following.fresh)

    def select(self, rows: Numbers | list[int]) -> Allowed:
        """The words at the given indices."""
        return Allowed(self.after[rows], self.words[rows], self.resolved[rows], np.asarray(rows), self.fresh)


class NextWord(Protocol[State]):
    """The interface of a source of next words: it scores each word that is allowed after a hypothesis.

    Hypotheses are numbered from 0. `start` begins one hypothesis without words for each query, a problem on a device.
    `advance` makes the next generation: hypothesis i is the old hypothesis `chosen.after[i]` followed by the word
    `chosen.words[i]`; an old hypothesis may have several successors or none. Both return a state for the next call and
    the scores of the words allowed after the new hypotheses.
    """

    @property
    def vocabulary(self) -> Vocabulary: ...

    def start(self, queries: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[State, Scores]: ...

    def advance(self, state: State, chosen: Allowed, allowed: Allowed) -> tuple[State, Scores]: ...


def beam_search(words: NextWord[State], task: Task, width: int = 5, count: int = 5) -> list[Candidate]:
    """Search `count` distinct configurations of a task, most probable first; fewer only if the task has no more.

    Raises CheckpointError for a kernel that the vocabulary lacks.
    """
    return beam_search_many(words, [task], width, count)[0]


def beam_search_many(words: NextWord[State], tasks: Sequence[Task], width: int = 5,
                     count: int = 5) -> list[list[Candidate]]:
    """Run `beam_search` for several tasks at once: with the same results, if no score depends on the other tasks."""
    return [[Candidate(task[number], log_probability) for number, log_probability
             in zip(numbers.tolist(), log_probabilities.tolist(), strict=True)]
            for task, (numbers, log_probabilities) in zip(tasks, search_numbers_many(words, tasks, width, count),
                                                          strict=True)]


def search_numbers_many(words: NextWord[State], tasks: Sequence[Task], width: int,
                        count: int) -> list[tuple[Numbers, Floats]]:
    """The numbers and log-probabilities of the configurations that `beam_search_many` proposes for each task."""
    filled, width = [task for task in tasks if len(task)], max(width, count)
    results = iter(_search(words, filled, width, count) if filled else ())
    return [next(results) if len(task) else (np.zeros(0, np.int64), np.zeros(0)) for task in tasks]


def _search(words: NextWord[State], tasks: Sequence[Task], width: int, count: int) -> list[tuple[Numbers, Floats]]:
    """The search for tasks that have configurations."""
    grammar = BatchGrammar(words.vocabulary, tasks)
    following = grammar.begin()
    allowed = Allowed.of(following)
    state, scores = words.start([(task.problem, task.device) for task in tasks], allowed)
    cost = _costs(scores, np.bincount(allowed.after))
    beam = _Beam(cost, following.prefixes, np.arange(len(cost))).best(grammar.task, width)
    column = 0  # of the parameter that is decided next
    while len(live := beam.live()):
        following = grammar.follow(beam.prefixes.select(live), column)
        chosen = allowed.select(beam.word[live])
        allowed = Allowed.of(following)
        state, scores = words.advance(state, chosen, allowed)
        cost = beam.cost[live][allowed.after] + _costs(scores, np.bincount(allowed.after))
        longer = _Beam(cost, following.prefixes, np.arange(len(cost)))
        beam = longer.joined(beam).best(grammar.task, width)
        column += 1
    return beam.results(grammar, len(tasks), count)


class _Beam(NamedTuple):
    """The hypotheses of all tasks, sorted by space."""

    cost: Floats  # (hypothesis,) - log-probability
    prefixes: Prefixes  # (hypothesis,)
    word: Numbers  # (hypothesis,) index of the last word among the words that were allowed

    def live(self) -> Numbers:
        """The indices of the hypotheses that are not complete."""
        return (self.prefixes.end - self.prefixes.begin > 1).nonzero()[0]

    def joined(self, before: _Beam) -> _Beam:
        """These hypotheses and the complete ones of the step before."""
        complete = (before.prefixes.end - before.prefixes.begin == 1).nonzero()[0]
        if not len(complete):
            return self
        kept = before.prefixes.select(complete)
        return _Beam(np.concatenate([before.cost[complete], self.cost]), kept.joined(self.prefixes),
                     np.concatenate([before.word[complete], self.word]))

    def order(self, task: Numbers) -> Numbers:
        """The order by task, cost, space and first row; `task` is that of each space."""
        return np.lexsort((self.prefixes.begin, self.prefixes.space, self.cost, task[self.prefixes.space]))

    def best(self, task: Numbers, width: int) -> _Beam:
        """The `width` best hypotheses of each task, sorted by space."""
        chosen = first_of_each(self.order(task), task[self.prefixes.space], width)
        if len(task) > 1:
            chosen = chosen[self.prefixes.space[chosen].argsort(kind="stable")]
        return _Beam(self.cost[chosen], self.prefixes.select(chosen), self.word[chosen])

    def results(self, grammar: BatchGrammar, tasks: int, count: int) -> list[tuple[Numbers, Floats]]:
        """The numbers and log-probabilities of the best `count` hypotheses of each task, which are complete."""
        task = grammar.task[self.prefixes.space]
        chosen = first_of_each(self.order(grammar.task), task, count)
        numbers, logs = (grammar.number[self.prefixes.space] + self.prefixes.begin)[chosen], -self.cost[chosen]
        ends = np.cumsum(np.bincount(task[chosen], minlength=tasks)).tolist()
        return [(numbers[begin:end], logs[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]


def _costs(scores: Scores, lengths: Numbers) -> Floats:
    """The negative log-probabilities of the words; `lengths` are the numbers of words after each hypothesis."""
    finite = scores.astype(np.float64)
    if not np.isfinite(finite).all():
        finite = np.nan_to_num(finite, nan=MIN_SCORE, posinf=-MIN_SCORE, neginf=MIN_SCORE)
    starts = lengths.cumsum() - lengths
    finite -= np.maximum.reduceat(finite, starts).repeat(lengths)
    costs: Floats = np.log(np.add.reduceat(np.exp(finite), starts)).repeat(lengths) - finite
    return costs
