"""Proposing: the stages that lead from a task to its candidates. All of them compute on NumPy arrays.

1. The beam search proposes configurations with log-probabilities; the mixture's other experts add theirs.
2. The ranker's trees predict the slowness of each, log(time / best time), and so do the translator's judge and the
   mixture's other experts. Their weighted mean counts (see `mixture.mixture`).
3. Evidence of the device, such as a journal's measurements, corrects the slownesses.
4. The proposals are ordered: a slowness of TAU makes a configuration e times less probable.
5. An estimator gives each candidate its confidence: an expected share of the best speed, with an interval.
The ranker, the judge, the evidence and the estimator are optional.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .candidate import Candidate, Confidence
from .mixture.mixture import UNLEARNED, Candidates, Mixture
from .sequence.beam import WIDTH, NextWord, search_numbers_many
from .trees.ranker import PROPOSALS, TAU, Ranker

HEARD = ("trees", "nearest")  # experts whose opinions the confidence hears, beside the mean of all


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Distinct configurations of a task, and the numbers that the stages compute for them."""

    task: Task
    numbers: Numbers  # (proposal,) index of the configuration in the task
    log_probabilities: Floats  # (proposal,) of the beam search, among all configurations of the task
    slowness: Floats  # (proposal,) expected log(time / best time); NaN where no trees know the kernel
    members: Floats | None = None  # (proposal, member) the same as each member of the ensemble predicts it
    opinions: Floats | None = None  # (proposal, expert of HEARD) by how much it expects more than `slowness`, or NaN
    nearness: float = 0.0  # how near the training problems are, from 0 to 1

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, candidates: Candidates, mixture: Mixture) -> Proposals:
        """The candidates with what a mixture says about them; they are not ordered yet."""
        mixed = mixture.mixed(candidates)
        opinions = np.full((len(HEARD), len(candidates.numbers)), np.nan)
        for row, name in zip(opinions, HEARD, strict=True):
            if name in mixed.opinions:
                row[:] = mixed.opinions[name] - mixed.slowness
        return cls(candidates.task, candidates.numbers, mixed.log_probabilities, mixed.slowness, mixed.members,
                   opinions.T, candidates.nearness)

    def select(self, rows: Numbers) -> Proposals:
        """The proposals with these indices, in this order."""
        return Proposals(self.task, self.numbers[rows], self.log_probabilities[rows], self.slowness[rows],
                         None if self.members is None else self.members[rows],
                         None if self.opinions is None else self.opinions[rows], self.nearness)

    def posterior(self) -> Floats:
        """Log-probabilities that take the slowness into account, (proposal,); the sum of probabilities is unchanged.

        They are those of the beam search if a slowness is unknown.
        """
        before = self.log_probabilities
        if not len(self) or np.isnan(self.slowness).any():
            return before
        after = before - self.slowness / TAU
        shifted: Floats = after + (np.logaddexp.reduce(before) - np.logaddexp.reduce(after))
        return shifted

    def ordered(self) -> Proposals:
        """The same proposals, most probable first, equal ones by their number; log-probabilities of `posterior`."""
        posterior = self.posterior()
        return replace(self, log_probabilities=posterior).select(np.lexsort((self.numbers, -posterior)))


class ConfigurationJudge(Protocol):
    """Estimates the slowness of whole configurations, up to a constant of their task."""

    def slowness(self, task: Task, numbers: Numbers) -> NDArray[np.float32]:
        """Estimate log(time / best time) of the configurations with these numbers: (configuration,)."""
        ...


class Evidence(Protocol):
    """Knowledge of the device that a checkpoint lacks, made once from measurements and used for many tasks."""

    def correct(self, proposals: Proposals) -> Proposals:
        """Correct the slownesses; proposals may also be added or removed, but not all of them."""
        ...


class ConfidenceEstimator(Protocol):
    """Estimates how fast proposals are, compared with the best configuration of their task."""

    def confidences(self, proposals: Proposals, count: int | None = None) -> Sequence[Confidence] | None:
        """The confidence of the first `count` proposals (None: of all), None if unknown.

        The proposals are ordered, and more than users get.
        """
        ...


@dataclass(frozen=True, eq=False)
class Proposer:
    """The stages with their models."""

    words: NextWord[Any]
    ranker: Ranker | None = None
    evidence: Evidence | None = None
    estimator: ConfidenceEstimator | None = None
    judge: ConfigurationJudge | None = None
    mixture: Mixture = UNLEARNED

    def proposals(self, task: Task, count: int) -> Proposals:
        """At least `count` proposals in order, if the task has as many configurations: the stages 1 to 4."""
        return self.proposals_of([task], count)[0]

    def proposals_of(self, tasks: Sequence[Task], count: int) -> list[Proposals]:
        """The proposals of several tasks, whose beams are searched together; no number depends on the other tasks."""
        width = max(WIDTH if self.ranker is None and self.judge is None else PROPOSALS, count)
        return [self._ordered(candidates) for candidates in self.consulted(tasks, width)]

    def consulted(self, tasks: Sequence[Task], width: int) -> list[Candidates]:
        """The candidates of several tasks with the experts' opinions: those of a beam of this width and further ones.
        """
        joined = [self.mixture.joined(task, *beam) for task, beam
                  in zip(tasks, search_numbers_many(self.words, tasks, width, width), strict=True)]
        expected: Sequence[NDArray[np.float32] | None] = (
            [None] * len(tasks) if self.ranker is None
            else self.ranker.members_of(tasks, [candidates.numbers for candidates in joined]))
        return [self._judged(replace(candidates, members=None if members is None else members.astype(np.float64)))
                for candidates, members in zip(joined, expected, strict=True)]

    def asked(self, candidates: Candidates) -> Candidates:
        """The candidates with the opinions of trees and judge."""
        if self.ranker is not None:
            members = self.ranker.members(candidates.task, candidates.numbers)
            candidates = replace(candidates, members=members.astype(np.float64))
        return self._judged(candidates)

    def _judged(self, candidates: Candidates) -> Candidates:
        if self.judge is None or not len(candidates.numbers):
            return candidates
        return replace(candidates, judge=self.judge.slowness(candidates.task, candidates.numbers).astype(np.float64))

    def _ordered(self, candidates: Candidates) -> Proposals:
        """The stages 2 to 4."""
        proposals = Proposals.of(candidates, self.mixture)
        return (proposals if self.evidence is None else self.evidence.correct(proposals)).ordered()

    def candidates(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """The first `count` proposals of each task as candidates: all stages, with the beams searched together."""
        return [self._first(proposals, count) for proposals in self.proposals_of(tasks, count)]

    def safe_default(self, task: Task) -> Candidate:
        """The safe default as a candidate: with the confidence that it has beside the proposals."""
        number = task.find(task.default)
        if self.estimator is None or number is None:
            return Candidate(task.default)
        (candidates,) = self.consulted([task], PROPOSALS)
        if number not in candidates.numbers:
            beam = candidates.log_probabilities
            candidates = self.asked(replace(candidates, numbers=np.append(candidates.numbers, number),
                                            log_probabilities=np.append(beam, beam.min(initial=0.0))))
        proposals = self._ordered(candidates)
        every = self._first(proposals, len(proposals))
        return next((candidate for candidate, own in zip(every, proposals.numbers.tolist(), strict=True)
                     if own == number), Candidate(task.default))

    def _first(self, proposals: Proposals, count: int) -> list[Candidate]:
        """The first proposals as candidates: stage 5."""
        confidences = None if self.estimator is None else self.estimator.confidences(proposals, count)
        first = zip(proposals.numbers.tolist()[:count], proposals.log_probabilities.tolist(), strict=False)
        return [Candidate(proposals.task[number], log_probability, None if confidences is None else confidences[index])
                for index, (number, log_probability) in enumerate(first)]
