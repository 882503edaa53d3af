"""Members: which few of the candidates are shipped, chosen together with the rule that will choose among them.

The set grows by one member at a time, and members are exchanged where that helps much. If several candidates would help
about equally where the best member of every shape is known, the one is taken whose rule loses least on shapes that the
rule did not see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.task import Floats

from .facts import Fact
from .goal import Goal
from .learning import Learner
from .matrix import Matrix
from .rule import Whole

EQUAL = 0.001  # candidates whose losses differ by less are tried with their rules
NOISE = 0.002  # rules whose losses on held-out shapes differ by less are equally good
TRIED = 3  # candidates that are tried with their rules for a further member, at most
MOST_SHAPES, ROOM, FOLDS = 1500, 4000, 5  # shapes, bytes and folds of such a rule: small, since dozens are learned
SERVED = math.log(1.25)  # the largest loss at which shapes count as served
SERVED_SHARE = 0.5  # the largest share of shapes that are not within the goal's factor

# The facts over which a rule decides among these candidates, and their values: (shape, fact).
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
    candidates = range(slowness.shape[1])
    firsts = candidates if valid_everywhere is None else np.flatnonzero(valid_everywhere).tolist()

    def loss(members: tuple[int, ...]) -> float:
        """The loss if the best member of every shape were known; the mean orders those that the goal finds equal."""
        best = slowness[:, members].min(axis=1)
        return goal.loss(best, weights) + 1e-6 * float(weights @ best)

    members: tuple[int, ...] = ()
    for _ in range(min(most, len(candidates))):
        larger = [(*members, each) for each in (candidates if members else firsts) if each not in members]
        if not larger:
            break
        losses = {each: loss(each) for each in larger}
        least = min(losses.values())
        sets = sorted(each for each in sorted(larger, key=losses.__getitem__)[:TRIED] if losses[each] <= least + EQUAL)
        exchanged = sets[0]
        while True:  # one member for another, as long as the best members lose less
            trials = [(*exchanged[:index], other, *exchanged[index + 1:]) for index in range(len(exchanged))
                      for other in (candidates if index else firsts) if other not in exchanged]
            best = min(trials, key=loss, default=exchanged)
            if loss(best) >= loss(exchanged) - EQUAL / 10:
                break
            exchanged = best
        if loss(exchanged) < losses[sets[0]] - EQUAL:
            sets = [exchanged]
        chosen = None
        for each in sets:
            judged = _judged(slowness[part][:, each], weights[part] / weights[part].sum(), goal, each, facts_for, part,
                             seed, matrix.valid[part][:, each])
            if chosen is None or judged.rule < chosen.rule - NOISE:
                chosen = judged
        assert chosen is not None
        members = chosen.members
        yield chosen


def _judged(slowness: Floats, weights: Floats, goal: Goal, members: tuple[int, ...], facts_for: Facts, part: Whole,
            seed: int, valid: NDArray[np.bool_]) -> MemberSet:
    """The losses of a set at some shapes, by rules learned without the shapes on which they are judged.

    Shapes: `slowness` and `valid` (shape, member).
    """
    picks = np.zeros((len(part), 2), np.int64)
    if len(members) > 1:
        facts, values = facts_for(members)
        picks = Learner(values[part], slowness, weights, goal, facts, ROOM, seed, valid).cross_fit(FOLDS)[1]
    firsts = np.take_along_axis(slowness, picks, axis=1)
    return MemberSet(members, goal.loss(slowness.min(axis=1), weights), goal.loss(firsts[:, 0], weights),
                     goal.loss(firsts.min(axis=1), weights))


def knee(steps: Sequence[MemberSet], least_gain: float = 0.005) -> int:
    """The smallest number of members beyond which further ones gain at most `least_gain` of the rule's loss each.

    That is the number with the least sum of this loss, on shapes that the rule did not see, and of `least_gain` for
    each member. One more may gain nothing where two more gain much, since a rule for few shapes is partly luck.
    """
    return min(steps, key=lambda step: step.rule + least_gain * step.kernels).kernels


def generalises(step: MemberSet, goal: Goal) -> bool:
    """Whether these members and their rule are good enough to ship, by their loss on shapes that they did not see.

    They are not where shapes are more than 25 % slower than with their own best kernel, in the goal's mean.
    """
    return step.rule <= (SERVED_SHARE if goal.kind == "within" else SERVED)
