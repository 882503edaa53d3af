"""Choosing: which candidates ship, with the rule that the shapes teach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.say import Say
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.dispatcher import Choices, Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact, fact_columns, facts_of
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.guards import Guard
from seqtune.predictor.dispatch.learning import Learner
from seqtune.predictor.dispatch.matrix import WORST, Matrix
from seqtune.predictor.dispatch.members import MemberSet, choose_members, knee
from seqtune.tuner.measuring.deadline import Deadline

from ...errors import MisuseError
from .sizes import ObjectSizes

MOST_KERNELS = 10  # that the curve shows: with 8, sets lose under 1 % in all public data
ROUNDING = 1e-9  # of a loss


@dataclass(frozen=True, eq=False)
class Question:
    """The request of a dispatch, and who is told of its progress."""

    operation: Operation
    goal: Goal
    kernels: int | None  # None: as many as pay
    domain: tuple[str, ...]
    fresh: int
    seed: int
    checkpoint: str | Path | None
    folder: Path
    prefix: str  # of the files' names and of the public names in C
    progress: Say
    note: Say
    bytes: int | None = None  # of the objects of all members together, instead of a number of kernels

    def within(self, problems: Sequence[Problem]) -> tuple[Domain, list[int]]:
        """The declared domain, with the ranges of the problems for features that it does not name; and the rows in it.

        Raises MisuseError for fewer than two rows.
        """
        domain = Domain.parse(self.operation, self.domain, Domain.of_shapes(problems))
        inside: list[int] = np.flatnonzero(domain.contains(ProblemColumns.of(problems))).tolist()
        if len(inside) < 2:
            raise MisuseError(f"{len(inside)} of {len(problems)} shapes are in the domain "
                              f"{'; '.join(domain.texts()):.300}; a rule needs several")
        if len(inside) < len(problems):
            self.note(f"{len(problems) - len(inside)} of {len(problems)} shapes are outside of the domain and are left "
                      "out")
        return domain, inside


@dataclass(frozen=True, eq=False)
class Chosen:
    """Members and their dispatcher, from the shapes of a matrix."""

    matrix: Matrix  # of the shapes that were asked for
    sets: tuple[MemberSet, ...]  # the best ones of 1, 2, ... members
    members: tuple[int, ...]  # candidates of the matrix
    dispatcher: Dispatcher
    answers: Choices  # of the dispatcher for the shapes
    slowness: Floats  # (shape,) of what it answers
    losses: Mapping[str, float]  # of the goal on the shapes: the `rule`, the best `single` kernel, the `default`
    bytes: tuple[float, ...] = ()  # of the members' objects; empty: nobody asked

    def served(self, member: int) -> tuple[Problem, ...]:
        """The shapes for which the member of this number is answered."""
        return tuple(self.matrix.problems[row] for row in np.flatnonzero(self.answers.members == member))

    def is_worse_than(self, other: str) -> bool:
        """Whether the `single` kernel or the `default` is better than the rule on the shapes."""
        return self.losses["rule"] > self.losses.get(other, math.inf) + ROUNDING


@dataclass(frozen=True, eq=False)
class Chooser:
    """Chooses among the candidates on a device, whose kernels say where each is valid."""

    question: Question
    device: Device
    kernels: Mapping[str, Kernel]  # of the candidates, by name; empty: nothing is known of validity
    domain: Domain
    candidates: Sequence[Configuration]
    defaults: Sequence[Configuration]  # (shape,) what the library would take; empty: nobody knows
    sizes: ObjectSizes | None = None  # of the candidates, where the question limits their bytes

    def __post_init__(self) -> None:
        if (self.question.kernels or 0) > len(self.candidates):
            raise MisuseError(f"{self.question.kernels} kernels are asked for, and the shapes have "
                              f"{len(self.candidates)} candidates")

    @cached_property
    def proved(self) -> NDArray[np.bool_] | None:
        """The candidates that are proved valid in the whole domain, as a mask; None if there are none."""
        if not self.kernels:
            return None
        proved = np.array([Guard.of(each, self.kernels[each.kernel], self.device).is_proved(self.domain)
                           for each in self.candidates])
        return proved if proved.any() else None

    @cached_property
    def default_columns(self) -> list[int]:
        """The candidate that is each shape's default; none if one of these is no candidate."""
        numbers = {candidate: number for number, candidate in enumerate(self.candidates)}
        return [numbers[each] for each in self.defaults] if numbers.keys() >= {*self.defaults} else []

    def choose(self, matrix: Matrix, deadline: Deadline) -> Chosen:
        """Choose as many members as the question asks for, and learn their rule; fewer where the time ends before.

        For "auto" these are the fewest beyond which others gain little, or more, where none of them is valid for a
        shape, or the library's default is better. Where no rule is better than the best single kernel, that is chosen.
        Rows of weight 0 teach the rule, too.
        """
        matrix = matrix.corrected()
        question, columns = self.question, ProblemColumns.of(matrix.problems)
        sets: tuple[MemberSet, ...] = ()
        for each in choose_members(matrix, question.kernels or MOST_KERNELS, question.goal,
                                   lambda members: self._facts(matrix, columns, members), seed=question.seed,
                                   valid_everywhere=self.proved):
            sets = (*sets, each)
            if deadline.is_over:
                break
        if self.sizes is not None:
            return self._within_bytes(matrix, sets, self.sizes)
        members = sets[-1].members if question.kernels is not None else _serving(matrix.asked, sets)
        chosen = self._ruled(matrix, sets, members)
        if question.kernels is None:
            chosen = self._without_idle(matrix, chosen)
            larger = (self._ruled(matrix, sets, each.members) for each in sets[len(chosen.members):])
            while chosen.is_worse_than("default") and not deadline.is_over and (other := next(larger, None)):
                chosen = min(chosen, other, key=lambda each: each.losses["rule"])
        return self._ruled(matrix, sets, sets[0].members) if chosen.is_worse_than("single") else chosen

    def _within_bytes(self, matrix: Matrix, sets: tuple[MemberSet, ...], sizes: ObjectSizes) -> Chosen:
        """The choice of the most members whose objects have together at most the bytes of the question.

        A member's object is the largest of those for the shapes that it serves. Raises MisuseError if none fits.
        """
        fitting, least, asked = None, math.inf, matrix.asked
        for each in reversed(sets):
            chosen = self._without_idle(matrix, self._ruled(matrix, sets, each.members))
            members = enumerate(chosen.dispatcher.members)
            chosen = replace(chosen, bytes=tuple(sizes.largest(member, (
                chosen.served(number) or [asked.problems[row] for row in np.flatnonzero(
                    asked.valid[:, chosen.members[number]])])) for number, member in members))
            least = min(least, sum(chosen.bytes))
            if sum(chosen.bytes) <= (self.question.bytes or 0):
                if not chosen.is_worse_than("single"):
                    return chosen
                fitting = fitting or chosen
        if fitting is None:
            raise MisuseError(f"the smallest set of kernels takes {least:,} bytes, more than {self.question.bytes:,}; "
                              "the measurements are kept, so the same call with more bytes takes no time for them")
        return fitting

    def _without_idle(self, matrix: Matrix, chosen: Chosen) -> Chosen:
        """The choice without members that serve none of the shapes, unless they serve others of the domain alone."""
        used = {*chosen.answers.members.tolist(), chosen.dispatcher.fallback}
        members = tuple(member for number, member in enumerate(chosen.members) if number in used)
        if members in ((), chosen.members):
            return chosen
        fewer = self._ruled(matrix, chosen.sets, members)
        return chosen if fewer.dispatcher.gap and not chosen.dispatcher.gap else fewer

    def _ruled(self, matrix: Matrix, sets: tuple[MemberSet, ...], members: tuple[int, ...]) -> Chosen:
        """The choice of these members, with the rule that the shapes teach."""
        goal = self.question.goal
        facts, values = self._facts(matrix, ProblemColumns.of(matrix.problems), members)
        slowness = matrix.slowness()
        rule = Learner(values, slowness[:, members], matrix.weights, goal, facts, seed=self.question.seed,
                       valid=matrix.valid[:, members]).rule()
        dispatcher = Dispatcher.of([self.candidates[each] for each in members], self.kernels, self.device, rule,
                                   self.domain)
        slowness, matrix = slowness[matrix.weights > 0], matrix.asked
        rows = np.arange(len(matrix.problems))
        answers = dispatcher.choose_many(ProblemColumns.of(matrix.problems))
        picked = np.where(answers.members >= 0, slowness[:, members][rows, answers.members], WORST)
        losses = {"rule": goal.loss(picked, matrix.weights),
                  "single": goal.loss(slowness[:, sets[0].members[0]], matrix.weights)}
        if self.default_columns:
            losses["default"] = goal.loss(slowness[rows, self.default_columns], matrix.weights)
        return Chosen(matrix, sets, members, dispatcher, answers, picked, losses)

    def _facts(self, matrix: Matrix, columns: ProblemColumns,
               members: Sequence[int]) -> tuple[tuple[Fact, ...], NDArray[np.int64]]:
        """The facts over which a rule decides among members, and their values: (shape, fact)."""
        facts = facts_of(self.question.operation, matrix.problems, [self.candidates[each] for each in members],
                         self.device)
        return facts, fact_columns(facts, columns)


def _serving(matrix: Matrix, sets: tuple[MemberSet, ...]) -> tuple[int, ...]:
    """The members at the knee, and the best of the candidates that are valid for shapes for which none of them is."""
    valid, slowness, members = matrix.valid, matrix.slowness(), sets[knee(sets) - 1].members
    while len(rows := np.flatnonzero(valid.any(axis=1) & ~valid[:, members].any(axis=1))):
        members = (*members, int(np.argmin(matrix.weights[rows] @ slowness[rows])))
    return members
