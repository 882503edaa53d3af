"""Answers to labels: what a method proposes for labelled questions, and what it says after the true prefixes.

Everything that is judged on labels is a Method: the beam over anything that scores next words, and the baselines that
propose whole configurations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Questions
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.membership import Membership
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

from ..candidate import Candidate
from ..sequence.beam import WIDTH, Allowed, Grammar, NextWord, Prefix, beam_search_many

if TYPE_CHECKING:
    from seqtune.data.labels import Labels

CHUNK = 128  # questions whose spaces are kept at once

Places = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Answers:
    """`proposed` (label, proposal, parameter), best first, -1 where there are fewer; `told` (label, parameter): whether
    the most probable value after the true prefix is right, None where a method cannot say."""

    proposed: Places
    told: NDArray[np.bool_] | None


class Method(Protocol):
    """Answers labels. Their questions are all that `proposed` may depend on."""

    def answer(self, labels: Labels, count: int) -> Answers: ...


class Ranker(Protocol):
    """Judges whole configurations of one kernel, so that what a beam proposes can be reordered."""

    def rank(self, kernel: Kernel, questions: Questions, places: Places) -> NDArray[np.float32]:
        """Log-odds or anything like it, up to a constant per question: (question, proposal) of places
        (question, proposal, parameter)."""
        ...


class Beam:
    """The constrained beam over any source of next words; a ranker may reorder what it proposes. It proposes no more
    than its width; one of width 1 is greedy.

    A reordered proposal's score is its log-probability plus `trust` times what the ranker says.
    """

    def __init__(self, words: NextWord[Any], width: int = WIDTH, ranker: Ranker | None = None,
                 trust: float = 1.0) -> None:
        self.words = words
        self.width = width
        self.ranker = ranker
        self.trust = trust

    def answer(self, labels: Labels, count: int) -> Answers:
        proposed = np.full((len(labels), count, labels.places.shape[1]), -1, np.int16)
        told = np.zeros(labels.places.shape, np.bool_)
        for rows, part, spaces in self._chunks(labels):
            few = self._proposed(part, spaces, count)
            proposed[rows, :few.shape[1]] = few
            told[rows] = self._told(part, spaces)
        return Answers(proposed, told)

    def propose(self, labels: Labels, count: int) -> Places:
        """The proposals alone."""
        proposed = np.full((len(labels), count, labels.places.shape[1]), -1, np.int16)
        for rows, part, spaces in self._chunks(labels):
            few = self._proposed(part, spaces, count)
            proposed[rows, :few.shape[1]] = few
        return proposed

    @staticmethod
    def _chunks(labels: Labels) -> Iterator[tuple[NDArray[np.int64], Labels, list[SearchSpace]]]:
        """Some labels at a time with their places and spaces, since a space can have twenty thousand rows."""
        order = _by_space(labels)
        for begin in range(0, len(labels), CHUNK):
            rows = order[begin:begin + CHUNK]
            part = labels.take(rows)
            yield rows, part, [SearchSpace(part.kernel, problem, device) for problem, device in part.questions.pairs()]

    def _proposed(self, labels: Labels, spaces: Sequence[SearchSpace], count: int) -> Places:
        count = min(count, self.width)
        most = self.width if self.ranker is not None else count
        found = beam_search_many(self.words, [Task(space.problem, space.device, (space,)) for space in spaces],
                                 self.width, most)
        places = np.full((len(labels), most, labels.places.shape[1]), -1, np.int16)
        scores = np.full((len(labels), most), -np.inf)
        for row, candidates in enumerate(found):
            for number, candidate in enumerate(candidates):
                places[row, number] = _places(labels.kernel, candidate)
                scores[row, number] = candidate.log_probability or 0.0
        if self.ranker is not None:
            scores += self.trust * self.ranker.rank(labels.kernel, labels.questions, places)
            best = np.argsort(-scores, axis=1, kind="stable")
            places = np.take_along_axis(places, best[:, :, None], axis=1)
        return places[:, :count]

    def _told(self, labels: Labels, spaces: Sequence[SearchSpace]) -> NDArray[np.bool_]:
        """Labels that are not in their space count as wrong from the first value that nothing allows."""
        told = np.zeros(labels.places.shape, np.bool_)
        rows = [row for row, space in enumerate(spaces) if len(space)]
        if not rows:
            return told
        vocabulary = self.words.vocabulary
        grammars = [Grammar(vocabulary, [spaces[row]]) for row in rows]
        prefixes = [Prefix(0, 0, len(spaces[row]), 0) for row in rows]
        kernel, choices = vocabulary.kernel(labels.kernel.name), vocabulary.places(labels.kernel.name)
        fresh = Allowed(np.arange(len(rows)), np.full(len(rows), kernel),
                        np.concatenate([grammar.settled([prefix])
                                        for grammar, prefix in zip(grammars, prefixes, strict=True)]))
        state, _ = self.words.start([(spaces[row].problem, spaces[row].device) for row in rows], fresh)
        said, lost = fresh, np.zeros(len(rows), np.bool_)
        for column, words in enumerate(choices):
            following = [grammar.follow(prefix) for grammar, prefix in zip(grammars, prefixes, strict=True)]
            lengths = [len(found) for found, _ in following]
            fresh = Allowed(np.repeat(np.arange(len(rows)), lengths), np.concatenate([found for found, _ in following]),
                            np.concatenate([grammar.settled(after) for grammar, (_, after)
                                            in zip(grammars, following, strict=True)]))
            state, scores = self.words.advance(state, said, fresh)
            chosen, end = [], 0
            for number, (allowed, after) in enumerate(following):
                begin, end = end, end + len(allowed)
                place = int(labels.places[rows[number], column])
                true = np.flatnonzero(allowed == words[place]) if place >= 0 else np.zeros(0, np.int64)
                lost[number] |= not len(true)
                next_one = 0 if lost[number] else int(true[0])
                told[rows[number], column] = not lost[number] and int(np.argmax(scores[begin:end])) == next_one
                prefixes[number] = after[next_one]
                chosen.append(begin + next_one)
            said = fresh.select(chosen)
        return told


def _by_space(labels: Labels) -> NDArray[np.int64]:
    """An order in which questions of equal spaces follow each other, as far as sizes tell: enumerations are cached."""
    values = labels.questions.problems.columns.values
    keys = [values[name][labels.questions.problem] for name in ("n", "to_w", "to_h", "to_c", "from_c", "dtype")]
    return np.asarray(np.lexsort((*keys, labels.questions.device)))


def _places(kernel: Kernel, candidate: Candidate) -> list[int]:
    return [parameter.values.index(value) for parameter, (_, value)
            in zip(kernel.parameters, candidate.configuration.settings, strict=True)]


def valid(kernel: Kernel, questions: Questions, places: Places) -> NDArray[np.bool_]:
    """Which configurations (question, parameter) lie in their spaces, told by the constraints over columns and not by
    enumeration."""
    found = np.zeros(len(questions), np.bool_)
    for number, device in enumerate(questions.devices):
        rows = np.flatnonzero((questions.device == number) & (places >= 0).all(axis=1))
        if not len(rows):
            continue
        settings = {parameter.name: np.array(parameter.values)[places[rows, column]]
                    for column, parameter in enumerate(kernel.parameters)}
        problems = questions.problems.columns.take(questions.problem[rows])
        member = Membership(kernel, problems, device, settings)
        found[rows] = [reason is None for reason in member.reasons]
    return found
