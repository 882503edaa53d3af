"""Members: which few of the candidates are shipped, chosen together with the rule that will choose among them.

The set grows by one member at a time, and members are exchanged where that helps much. Among the candidates that help
about equally if the best member of a shape were known, the one counts whose rule loses least on shapes that it did not
see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.task import Floats

from .facts import Fact
from .goal import Goal
from .learning import cross_fitted
from .matrix import Matrix
from .rule import Whole

EQUAL = 0.001  # of the loss: candidates that are closer than that are tried with their rules
NOISE = 0.002  # of the loss held out: rules that are closer than that are equal
TRIED = 3  # candidates for each member
MOST_SHAPES, ROOM = 1500, 4000  # of the shapes, and bytes of the rules, by which members are compared
SERVED = math.log(1.25)  # the largest loss at which shapes count as served
SERVED_SHARE = 0.5  # the largest share of shapes that are not within the goal's factor

Facts = Callable[[Sequence[int]], tuple[tuple[Fact, ...], NDArray[np.int64]]]


@dataclass(frozen=True)
class MemberSet:
    """A set of members, and its losses on shapes that its rule did not see."""

    members: tuple[int, ...]  # numbers of candidates, in the order in which they were chosen
    oracle: float  # if the best member of every shape were known
    rule: float  # of the member that the rule puts first
    second: float  # of the better one of its first two

    @property
    def kernels(self) -> int:
        """The number of members."""
        return len(self.members)


def choose_members(matrix: Matrix, most: int, goal: Goal, facts_for: Facts, *,
                   valid_everywhere: NDArray[np.bool_] | None = None, seed: int = 0) -> Iterator[MemberSet]:
    """Yield the best sets of 1 to `most` members. Each takes some seconds, so a caller may stop at any of them.

    `facts_for` returns the facts over which a rule decides among these candidates, and their values at the matrix's
    shapes. The first member is one of those in `valid_everywhere`, (candidate,), if that is given.
    """
    slowness, weights = matrix.slowness(), matrix.weights
    part = np.sort(np.random.default_rng(seed).permutation(len(slowness))[:MOST_SHAPES])
    allowed = np.ones(slowness.shape[1], bool) if valid_everywhere is None else valid_everywhere
    before: tuple[int, ...] = ()
    for _ in range(min(most, slowness.shape[1])):
        free = [number for number in range(slowness.shape[1]) if number not in before and (before or allowed[number])]
        if not free:
            break
        sets = [(*before, number) for number in _most_helpful(slowness, weights, goal, before, free)]
        exchanged = _exchanged(slowness, weights, goal, sets[0], allowed)
        if _loss(slowness, weights, goal, exchanged) < _loss(slowness, weights, goal, sets[0]) - EQUAL:
            sets = [exchanged]
        chosen = None
        for members in sets:
            step = _judged(slowness, weights, goal, members, facts_for, part, seed)
            if chosen is None or step.rule < chosen.rule - NOISE:
                chosen = step
        assert chosen is not None
        before = chosen.members
        yield chosen


def _loss(slowness: Floats, weights: Floats, goal: Goal, members: Sequence[int]) -> float:
    """The loss if the best member of every shape were known.

    Sets that the goal does not tell apart are ordered by the mean.
    """
    best = slowness[:, members].min(axis=1)
    return goal.loss(best, weights) + 1e-6 * float(weights @ best)


def _exchanged(slowness: Floats, weights: Floats, goal: Goal, members: tuple[int, ...],
               allowed: NDArray[np.bool_]) -> tuple[int, ...]:
    """Exchange one member for another as long as the best members lose less; the first stays one that is allowed."""
    least = _loss(slowness, weights, goal, members)
    while True:
        trials = [(*members[:place], other, *members[place + 1:]) for place in range(len(members))
                  for other in range(slowness.shape[1]) if other not in members and (place or allowed[other])]
        losses = [_loss(slowness, weights, goal, trial) for trial in trials]
        if not losses or min(losses) >= least - EQUAL / 10:
            return members
        members, least = trials[int(np.argmin(losses))], min(losses)


def _most_helpful(slowness: Floats, weights: Floats, goal: Goal, members: tuple[int, ...],
                  numbers: Sequence[int]) -> list[int]:
    """The candidates with which the best members lose least, the first few of those that help about equally."""
    losses = {number: _loss(slowness, weights, goal, (*members, number)) for number in numbers}
    order = sorted(numbers, key=lambda number: (losses[number], number))
    return sorted(number for number in order[:TRIED] if losses[number] <= losses[order[0]] + EQUAL)


def _judged(slowness: Floats, weights: Floats, goal: Goal, members: tuple[int, ...], facts_for: Facts, part: Whole,
          seed: int) -> MemberSet:
    """The losses of a set, by rules learned without the shapes on which they are judged."""
    own, weights = slowness[part][:, members], weights[part] / weights[part].sum()
    oracle = goal.loss(own.min(axis=1), weights)
    if len(members) == 1:
        return MemberSet(members, oracle, oracle, oracle)
    facts, values = facts_for(members)
    picks = cross_fitted(values[part], own, weights, goal, facts, seed=seed, room=ROOM)
    firsts = np.take_along_axis(own, picks, axis=1)
    return MemberSet(members, oracle, goal.loss(firsts[:, 0], weights), goal.loss(firsts.min(axis=1), weights))


def knee(steps: Sequence[MemberSet], least_gain: float = 0.005) -> int:
    """The smallest number of members whose next one gains less than `least_gain`, on shapes that no rule saw."""
    for count, (step, following) in enumerate(pairwise(steps), 1):
        if step.rule - following.rule < least_gain:
            return count
    return len(steps)


def generalises(step: MemberSet, goal: Goal) -> bool:
    """Whether these members and their rule serve shapes that they did not see well enough to be shipped.

    They do not where shapes are more than 25 % slower than with their own best kernel, in the goal's mean.
    """
    return step.rule <= (SERVED_SHARE if goal.kind == "within" else SERVED)
