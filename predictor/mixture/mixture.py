"""Mixture: the experts' proposals for a task, and the weighted mean of their opinions on all of these.

An opinion is a slowness, log(time / best time), of every candidate; an expert without an opinion on one of them does
not count. The beam's log-probabilities are the prior of the order (`Proposals.posterior`), multiplied by a factor.

A checkpoint without a learned mixture has the default `Mixture()`: it proposes nothing, and the mean of trees and judge
counts, with the beam's log-probabilities as they are. All shipped checkpoints before the mixture answer so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from seqtune.errors import CheckpointError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task
from seqtune.tuner.cost_models.analytic import estimates, has_facts

from ..sequence.declaration import Declaration
from ..trees.cost_trees import WORST
from ..trees.forest import read_arrays
from .processes import EXPERT, PREFIX, Processes, ProcessFields
from .weights import FIXED_MEAN, PRIOR, Weights
from .winners import Excess, GroupFields, Neighbours, Winners, rows_of

NEAREST, FIXED, ANALYTIC = 4, 1, 4  # configurations that these experts propose at most
MOST_GROUPS = 1000

Opinions = dict[str, Floats]  # by the name of the expert: (candidate,)


class MixtureFields(BaseModel):
    """What a mixture has beside its arrays, in seqtune.json."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    weights: Weights
    unseen: Weights | None = None  # on devices without data of their own, and see `_weights`; None: the prior's
    groups: tuple[GroupFields, ...] = Field(min_length=1, max_length=MOST_GROUPS)
    processes: tuple[ProcessFields, ...] = Field(default=(), max_length=MOST_GROUPS)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The distinct candidates of a task, and what the experts that a `Proposer` has say about them."""

    task: Task
    numbers: Numbers  # (candidate,) index of the configuration in the task
    log_probabilities: Floats  # (candidate,) of the beam search, among all configurations of the task
    neighbours: Neighbours | None = None  # None without a table of winners of the operation
    members: Floats | None = None  # (candidate, member) the slowness by each of the trees; None without trees
    judge: Floats | None = None  # (candidate,) the slowness by the judge, up to a constant; None without a judge
    seconds: Floats | None = None  # (configuration of the task,) by the analytic model; None: not estimated yet

    @property
    def nearness(self) -> float:
        """How near the training problems are, from 0 to 1."""
        return 0.0 if self.neighbours is None else self.neighbours.nearness


@dataclass(frozen=True, eq=False)
class Mixed:
    """What the mixture says about candidates."""

    slowness: Floats  # (candidate,) NaN without an expert
    members: Floats | None  # (candidate, member) the same as each of the trees and the judge predict it
    log_probabilities: Floats  # (candidate,) of the beam, as much as they count; the sum of probabilities stays
    opinions: Opinions  # the slowness by each expert
    weights: Mapping[str, float]  # of the experts with an opinion, in the mean; they sum to 1, or there are none

    @classmethod
    def unknown(cls, count: int) -> Mixed:
        """The mixture of `count` candidates without an expert."""
        return cls(np.full(count, np.nan), None, np.zeros(count), {}, {})


@dataclass(frozen=True, eq=False)
class Mixture:
    """The table of winners, the Gaussian processes and the weights of all experts.

    Trees, judge and beam belong to the `Proposer`.
    """

    winners: Winners = field(default_factory=Winners)
    weights: Weights = FIXED_MEAN
    unseen: Weights = FIXED_MEAN  # on devices without measurements or choices in the training data; see `_weights`
    processes: Processes = field(default_factory=Processes)  # of a training with few measurements

    @classmethod
    def learned(cls, winners: Winners, weights: Weights = PRIOR, processes: Processes | None = None,
                unseen: Weights | None = None) -> Mixture:
        """A mixture with these weights, and those of `unseen` (None: the prior's) on other devices."""
        return cls(winners, weights, unseen or PRIOR, processes or Processes())

    @classmethod
    def read(cls, path: Path, about: MixtureFields, kernels: Sequence[Declaration]) -> Mixture:
        """The inverse of `about` and `arrays`; the file is not trusted. Raises CheckpointError."""
        try:
            arrays = read_arrays(path)
            processes = {name: arrays.pop(name) for name in [*arrays] if name.startswith(PREFIX)}
            return cls.learned(Winners.read(about.groups, arrays, kernels), about.weights,
                               Processes.read(about.processes, processes, kernels), about.unseen)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from None

    @property
    def about(self) -> MixtureFields | None:
        """The second argument of `read`; None for the default mixture, which needs no file."""
        return MixtureFields(weights=self.weights, unseen=None if self.unseen == PRIOR else self.unseen,
                             groups=self.winners.about, processes=self.processes.about) if self.is_learned else None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to write to a safetensors file for `read`."""
        return {**self.winners.arrays(), **self.processes.arrays()}

    @property
    def is_learned(self) -> bool:
        """Whether it is more than the default mixture."""
        return bool(self.winners.groups)

    @property
    def has_weights_beyond(self) -> bool:
        """Whether weights were learned for devices left out: `unseen` is more than the prior, or a part of it."""
        return not self.unseen.is_part_of(PRIOR)

    def neighbours(self, task: Task) -> Neighbours | None:
        """The training problems near a task; None without a table of its operation."""
        group = self.winners.group(task)
        return None if group is None else group.neighbours(task.problem, task.device)

    def excesses(self, task: Task) -> tuple[Excess, ...]:
        """The numbers in which a problem exceeds all training problems of its operation on the backend."""
        group = self.winners.group(task)
        return () if group is None else group.excesses(task.problem)

    def joined(self, task: Task, numbers: Numbers, log_probabilities: Floats) -> Candidates:
        """The beam's proposals and the other experts', which get the least of the beam's log-probabilities."""
        neighbours, seconds = self.neighbours(task), self._estimated(task)
        others = self._proposed(task, neighbours, seconds)
        beam = set(numbers.tolist())
        added = np.array([number for number in others if number not in beam], np.int64)
        if len(added) and len(numbers):
            total = np.logaddexp.reduce(log_probabilities)
            numbers = np.concatenate([numbers, added])
            log_probabilities = np.concatenate([log_probabilities, np.full(len(added), log_probabilities.min())])
            log_probabilities += total - np.logaddexp.reduce(log_probabilities)
        return Candidates(task, numbers, log_probabilities, neighbours, seconds=seconds)

    def _estimated(self, task: Task) -> Floats | None:
        """The analytic model's seconds of every configuration of a task; None where it is no expert."""
        return estimates(task) if self.is_learned and has_facts(task.device) else None

    def _proposed(self, task: Task, neighbours: Neighbours | None, seconds: Floats | None) -> list[int]:
        """The candidates of the experts beside the beam, distinct."""
        group = self.winners.group(task)
        numbers = [] if group is None or neighbours is None else [
            *group.preferences(task, neighbours.entries, NEAREST),
            *group.preferences(task, group.portfolio(task.device)[:1], FIXED)]
        if self.is_learned:
            numbers += [*_default(task), *([] if seconds is None else fastest_of(seconds))]
        return list(dict.fromkeys(numbers))

    def mixed(self, candidates: Candidates) -> Mixed:
        """Mix the opinions on candidates."""
        opinions, neighbours, members = self.opinions(candidates), candidates.neighbours, candidates.members
        weights = self._weights(neighbours)
        slowness = np.full(len(candidates.numbers), np.nan) if members is None else members.mean(axis=1)
        counted = weights.of(opinions, candidates.nearness)
        if opinions:
            slowness = np.zeros(len(candidates.numbers))
            for name, weight in counted.items():
                slowness += weight * opinions[name]
        if "judge" in opinions:
            judged = opinions["judge"][:, None]
            members = np.hstack([members, judged]) if members is not None and "trees" in opinions else judged
        before = candidates.log_probabilities
        scaled = before * weights.beam(candidates.nearness)
        if len(before):
            scaled += np.logaddexp.reduce(before) - np.logaddexp.reduce(scaled)
        return Mixed(slowness, members, scaled, opinions, counted)

    def _weights(self, neighbours: Neighbours | None) -> Weights:
        """The weights for a task with these neighbours.

        The weights that were learned for devices left out also apply beyond the training problems: there a tree
        returns the value of its outermost leaf, and the same experts generalise best. Without such weights the usual
        ones apply.
        """
        if neighbours is None or (neighbours.known and (neighbours.covered or not self.has_weights_beyond)):
            return self.weights
        return self.unseen

    def opinions(self, candidates: Candidates) -> Opinions:
        """The opinions on all candidates, without those of experts that do not know one of them.

        The judge knows the slowness up to a constant: its opinion is shifted to the mean of the trees', or, if the
        trees do not know a candidate, so that the least is 0.
        """
        task, numbers, neighbours, judge = (candidates.task, candidates.numbers, candidates.neighbours,
                                            candidates.judge)
        opinions: Opinions = {}
        if not len(numbers):
            return opinions
        if candidates.members is not None and not np.isnan(candidates.members).any():
            opinions["trees"] = candidates.members.mean(axis=1)
        if judge is not None:
            trees = opinions.get("trees")
            opinions["judge"] = judge - judge.min() if trees is None else judge - judge.mean() + trees.mean()
        group = self.winners.group(task)
        if group is not None and neighbours is not None and len(neighbours.entries):
            nearest, portfolio = len(neighbours.entries), group.portfolio(task.device)
            said = group.opinions(task, numbers, np.concatenate([neighbours.entries, portfolio]))
            # no product goes through BLAS, which rounds as it likes
            opinions["nearest"] = (said[:, :nearest] * neighbours.weights).sum(axis=1)
            if len(portfolio):
                opinions["fixed"] = said[:, nearest:].mean(axis=1)
        seconds = self._estimated(task) if candidates.seconds is None else candidates.seconds
        if seconds is not None:
            logs = np.log(seconds[numbers])
            if np.isfinite(logs).all():
                opinions["analytic"] = np.minimum(logs - logs.min(), WORST)
        smooth = self.processes.opinion(task, numbers)
        if smooth is not None:
            opinions[EXPERT] = smooth
        return opinions


UNLEARNED = Mixture()  # of checkpoints without a learned one: the fixed mean of trees and judge


def _default(task: Task) -> list[int]:
    """The safe default of each kernel, where it is valid as it is declared."""
    numbers = []
    for space, part in task.parts():
        declared = declared_default(space.kernel)
        if declared is not None:
            row = int(rows_of(space, declared)[0])
            if row >= 0:
                numbers.append(part.start + row)
    return numbers


@lru_cache(maxsize=256)
def declared_default(kernel: Kernel) -> NDArray[np.int16] | None:
    """The indices of the default's values, (1, parameter); None without one, as of a recorded kernel."""
    declared = dict(kernel.default)
    return np.array([[parameter.index(declared[parameter.name]) for parameter in kernel.parameters]],
                    np.int16) if declared else None


def fastest_of(seconds: Floats) -> list[int]:
    """The configurations with the shortest estimated times (configuration,); none where there is no estimate."""
    known = np.flatnonzero(np.isfinite(seconds))
    if len(known) > ANALYTIC:  # then sorting these few is enough
        known = known[seconds[known] <= np.partition(seconds[known], ANALYTIC - 1)[ANALYTIC - 1]]
    fastest: list[int] = known[np.argsort(seconds[known], kind="stable")[:ANALYTIC]].tolist()
    return fastest
