"""Proposing: the stages that lead from a task to its candidates. All of them compute on NumPy arrays.

1. The beam search proposes configurations with log-probabilities. Where an expert knows all configurations of a small
   task, it is not searched: all are proposed, equally probable.
2. Experts, such as the trees and the translator's judge, expect the slowness of each, log(time / best time). Their
   plain mean counts.
3. Evidence of the device, such as a journal's measurements, corrects the slownesses.
4. The candidates are ordered by their slowness, or, if it is unknown, by the beam search.
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
class Candidates:
    """Distinct configurations of a task, and the numbers that the stages compute for them."""

    task: Task
    numbers: Numbers  # (candidate,) index of the configuration in the task
    log_probabilities: Floats  # (candidate,) before experts are asked, among all configurations of the task
    slowness: Floats  # (candidate,) expected log(time / best time); NaN if no expert knows it
    members: Floats | None = None  # (candidate, member) the same as each member of the experts expects it

    def __len__(self) -> int:
        return len(self.numbers)

    def select(self, rows: Numbers) -> Candidates:
        """The candidates with these indices, in this order."""
        return Candidates(self.task, self.numbers[rows], self.log_probabilities[rows], self.slowness[rows],
                         None if self.members is None else self.members[rows])

    def posterior(self) -> Floats:
        """Log-probabilities by the slowness: TAU slower is e times less probable. The sum of probabilities stays.

        They are those of the beam search if a slowness is unknown. Shape (candidate,).
        """
        before = self.log_probabilities
        if not len(self) or np.isnan(self.slowness).any():
            return before
        after = -self.slowness / TAU
        shifted: Floats = after + (np.logaddexp.reduce(before) - np.logaddexp.reduce(after))
        return shifted

    def ordered(self) -> Candidates:
        """The same candidates, most probable by `posterior` first, equal ones by their number."""
        return self.select(np.lexsort((self.numbers, -self.posterior())))


class Evidence(Protocol):
    """Knowledge of the device that a checkpoint lacks, made once from measurements and used for many tasks."""

    def correct(self, candidates: Candidates) -> Candidates:
        """Correct the slownesses; candidates may also be added or removed, but not all of them."""
        ...


class ConfidenceEstimator(Protocol):
    """Estimates how fast candidates are, compared with the best configuration of their task."""

    def confidences(self, candidates: Candidates, count: int | None = None) -> Sequence[Confidence] | None:
        """The confidence of the first `count` candidates (None: of all), None if unknown.

        The candidates are ordered, and more than users get.
        """
        ...


@dataclass(frozen=True, eq=False)
class Proposer:
    """The stages with their models."""

    words: NextWord[Any]
    experts: Sequence[Expert] = ()
    evidence: Evidence | None = None
    estimator: ConfidenceEstimator | None = None

    def scored(self, task: Task, count: int) -> Candidates:
        """At least `count` candidates in order, if the task has as many configurations: the stages 1 to 4."""
        return self.scored_many([task], count)[0]

    def scored_many(self, tasks: Sequence[Task], count: int) -> list[Candidates]:
        """The candidates of several tasks, whose beams are searched together; no number depends on the other tasks."""
        width = max(PROPOSALS if self.experts else WIDTH, count)
        whole = [self._whole(task) for task in tasks]
        searched = [task for task, candidates in zip(tasks, whole, strict=True) if candidates is None]
        beams = iter(search_numbers_many(self.words, searched, width, width))
        return [self._ordered(self._judged(task, *next(beams)) if candidates is None else candidates)
                for task, candidates in zip(tasks, whole, strict=True)]

    def _whole(self, task: Task) -> Candidates | None:
        """All configurations of a small task with their slowness; None if it is large, or no expert knows it."""
        count = len(task)
        if not self.experts or not 0 < count <= SMALL:
            return None
        candidates = self._judged(task, np.arange(count), np.full(count, -math.log(count)))
        return None if np.isnan(candidates.slowness).any() else candidates

    def _judged(self, task: Task, numbers: Numbers, log_probabilities: Floats) -> Candidates:
        """The stage 2."""
        opinions = ask(self.experts, task, numbers)
        return Candidates(task, numbers, log_probabilities, opinions.slowness, opinions.members)

    def _ordered(self, candidates: Candidates) -> Candidates:
        """The stages 3 and 4."""
        return (candidates if self.evidence is None else self.evidence.correct(candidates)).ordered()

    def candidates(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """The first `count` candidates of each task with their confidence: all stages, the beams searched together."""
        return [self._first(candidates, count) for candidates in self.scored_many(tasks, count)]

    def safe_default(self, task: Task) -> Candidate:
        """The safe default with the confidence that it has beside the candidates of a predictor."""
        number = task.find(task.default)
        if self.estimator is None or number is None:
            return Candidate(task.default)
        candidates = self.scored(task, PROPOSALS)
        if number not in candidates.numbers:
            beam = candidates.log_probabilities
            candidates = self._ordered(self._judged(task, np.append(candidates.numbers, number),
                                                   np.append(beam, beam.min(initial=0.0))))
        every = self._first(candidates, len(candidates))
        return next((candidate for candidate, own in zip(every, candidates.numbers.tolist(), strict=True)
                     if own == number), Candidate(task.default))

    def _first(self, candidates: Candidates, count: int) -> list[Candidate]:
        """The first candidates with their confidence: stage 5."""
        confidences = None if self.estimator is None else self.estimator.confidences(candidates, count)
        first = zip(candidates.numbers.tolist()[:count], candidates.posterior().tolist(), strict=False)
        return [Candidate(candidates.task[number], log_probability, None if confidences is None else confidences[index])
                for index, (number, log_probability) in enumerate(first)]
