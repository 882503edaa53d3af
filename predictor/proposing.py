"""Proposing: the stages that lead from a task to its candidates. All of them compute on NumPy arrays.

1. The beam search proposes configurations with log-probabilities. Where an expert knows all configurations of a small
   task, it is not searched: all are proposed, equally probable.
2. Experts, such as the trees and the translator's judge, expect the slowness of each, log(time / best time). Their
   plain mean counts.
3. Evidence of the device, such as a journal's measurements, corrects the slownesses.
4. The proposals are ordered by their slowness, or, if it is unknown, by the beam search.
5. An estimator gives each candidate its confidence: an expected share of the best speed, with an interval.
The experts, the evidence and the estimator are optional.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .candidate import Candidate, Confidence
from .experts.expert import Expert, ask
from .sequence.beam import WIDTH, NextWord, search_numbers_many
from .trees.ranker import PROPOSALS, TAU

SMALL = 128  # configurations of a task that experts order whole: this takes less time than a beam search


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Distinct configurations of a task, and the numbers that the stages compute for them."""

    task: Task
    numbers: Numbers  # (proposal,) index of the configuration in the task
    log_probabilities: Floats  # (proposal,) before experts are asked, among all configurations of the task
    slowness: Floats  # (proposal,) expected log(time / best time); NaN if no expert knows it
    members: Floats | None = None  # (proposal, member) the same as each member of the experts expects it

    def __len__(self) -> int:
        return len(self.numbers)

    def select(self, rows: Numbers) -> Proposals:
        """The proposals with these indices, in this order."""
        return Proposals(self.task, self.numbers[rows], self.log_probabilities[rows], self.slowness[rows],
                         None if self.members is None else self.members[rows])

    def posterior(self) -> Floats:
        """Log-probabilities by the slowness: TAU slower is e times less probable. The sum of probabilities stays.

        They are those of the beam search if a slowness is unknown. Shape (proposal,).
        """
        before = self.log_probabilities
        if not len(self) or np.isnan(self.slowness).any():
            return before
        after = -self.slowness / TAU
        shifted: Floats = after + (np.logaddexp.reduce(before) - np.logaddexp.reduce(after))
        return shifted

    def ordered(self) -> Proposals:
        """The same proposals, most probable by `posterior` first, equal ones by their number."""
        return self.select(np.lexsort((self.numbers, -self.posterior())))


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
    experts: Sequence[Expert] = ()
    evidence: Evidence | None = None
    estimator: ConfidenceEstimator | None = None

    def proposals(self, task: Task, count: int) -> Proposals:
        """At least `count` proposals in order, if the task has as many configurations: the stages 1 to 4."""
        return self.proposals_of([task], count)[0]

    def proposals_of(self, tasks: Sequence[Task], count: int) -> list[Proposals]:
        """The proposals of several tasks, whose beams are searched together; no number depends on the other tasks."""
        width = max(PROPOSALS if self.experts else WIDTH, count)
        whole = [self._whole(task) for task in tasks]
        searched = [task for task, proposals in zip(tasks, whole, strict=True) if proposals is None]
        beams = iter(search_numbers_many(self.words, searched, width, width))
        return [self._ordered(self._judged(task, *next(beams)) if proposals is None else proposals)
                for task, proposals in zip(tasks, whole, strict=True)]

    def _whole(self, task: Task) -> Proposals | None:
        """All configurations of a small task with their slowness; None if it is large, or no expert knows it."""
        count = len(task)
        if not self.experts or not 0 < count <= SMALL:
            return None
        proposals = self._judged(task, np.arange(count), np.full(count, -math.log(count)))
        return None if np.isnan(proposals.slowness).any() else proposals

    def _judged(self, task: Task, numbers: Numbers, log_probabilities: Floats) -> Proposals:
        """The stage 2."""
        opinions = ask(self.experts, task, numbers)
        return Proposals(task, numbers, log_probabilities, opinions.slowness, opinions.members)

    def _ordered(self, proposals: Proposals) -> Proposals:
        """The stages 3 and 4."""
        return (proposals if self.evidence is None else self.evidence.correct(proposals)).ordered()

    def candidates(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """The first `count` proposals of each task as candidates: all stages, with the beams searched together."""
        return [self._first(proposals, count) for proposals in self.proposals_of(tasks, count)]

    def safe_default(self, task: Task) -> Candidate:
        """The safe default as a candidate: with the confidence that it has beside the proposals."""
        number = task.find(task.default)
        if self.estimator is None or number is None:
            return Candidate(task.default)
        proposals = self.proposals(task, PROPOSALS)
        if number not in proposals.numbers:
            beam = proposals.log_probabilities
            proposals = self._ordered(self._judged(task, np.append(proposals.numbers, number),
                                                   np.append(beam, beam.min(initial=0.0))))
        every = self._first(proposals, len(proposals))
        return next((candidate for candidate, own in zip(every, proposals.numbers.tolist(), strict=True)
                     if own == number), Candidate(task.default))

    def _first(self, proposals: Proposals, count: int) -> list[Candidate]:
        """The first proposals as candidates: stage 5."""
        confidences = None if self.estimator is None else self.estimator.confidences(proposals, count)
        first = zip(proposals.numbers.tolist()[:count], proposals.posterior().tolist(), strict=False)
        return [Candidate(proposals.task[number], log_probability, None if confidences is None else confidences[index])
                for index, (number, log_probability) in enumerate(first)]
