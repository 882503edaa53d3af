"""Correction: what was measured on a device changes the expected slowness of proposals at once, without training.

A `CorrectionProcess` over the leaves of the ranker's own trees learns how the measured log times differ from the
expected ones; the result is a value for each leaf, so correcting costs as much as evaluating some of the trees. If
configurations of the very problem were measured, they compete with their measured times, even if the beam lacks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..times.proposing import Proposals
from ..trees.cost_trees import WORST
from ..trees.forest import Forest
from ..trees.ranker import Ranker, feature_rows
from .correction_process import CorrectionProcess, Observations

MAX_ROWS = 800  # measurements that are fitted: the cost grows with the cube, half a second on one core
LEAST_ROWS = 16  # of one problem that are kept where there are many problems
TREES = 150  # trees whose leaves are compared; more of them changed the figures by less than their noise
OWN = 48  # measured configurations of the very problem that compete: the fastest ones and some of all others
FASTEST = 16  # of them
TRUST = 0.9  # weight of a measured time against the prediction, for configurations of the very problem

OwnTimes = Callable[[Task], Floats | None]  # seconds by number, as in MeasuredTask, or None


def nothing_measured(task: Task) -> Floats | None:
    """No configuration of the task itself was measured."""
    return None


@dataclass(frozen=True, slots=True)
class CorrectionFit:
    """The size of a fit and its effect."""

    problems: int
    measurements: int  # that were fitted
    factor: float  # from 0, where the evidence changes nothing, to 1
    before: float  # share of the best measured speed that the first proposals reach without the correction
    after: float  # and with it, each problem corrected by the measurements of the other ones only


@dataclass(frozen=True, eq=False)
class Correction:
    """A ranker's corrections for one device; it is the `Evidence` of `proposing`."""

    ranker: Ranker
    values: Mapping[str, Floats]  # by kernel: for each leaf of `LeafForests`, then for the kernel
    own_times: OwnTimes = nothing_measured

    @classmethod
    def fit(cls, ranker: Ranker, measured: Sequence[MeasuredTask],
            own_times: OwnTimes = nothing_measured) -> tuple[Correction, CorrectionFit]:
        """Fit the corrections to the measured tasks of one device, the newest first; there may be none."""
        observations = observe(ranker, measured)
        if not len(observations):
            return cls(ranker, {}, own_times), CorrectionFit(0, 0, 0.0, 1.0, 1.0)
        process = CorrectionProcess.fit(observations)
        before, after = shares(observations, process)
        return cls.of_process(ranker, observations, process, own_times), CorrectionFit(
            len(observations.problems()), len(observations), process.factor, before, after)

    @classmethod
    def of_process(cls, ranker: Ranker, observations: Observations, process: CorrectionProcess,
                   own_times: OwnTimes = nothing_measured) -> Correction:
        """The corrections of a process that was fitted to observations by the same ranker."""
        forests = LeafForests(ranker)
        return cls(ranker, {name: process.leaf_values(observations, forests.family(name), forests.nodes(name))
                            for name in forests.names if (observations.family == forests.family(name)).any()},
                   own_times)

    def correct(self, proposals: Proposals) -> Proposals:
        """Add the corrections to the slownesses; measured configurations of the problem itself join the proposals."""
        task = proposals.task
        corrected = replace(proposals, slowness=proposals.slowness + self.changes(task, proposals.numbers))
        seconds = self.own_times(task)
        return corrected if seconds is None else self._joined(corrected, seconds)

    def changes(self, task: Task, numbers: Numbers) -> Floats:
        """The correction of configurations, given by their numbers: (configuration,)."""
        changes = np.zeros(len(numbers))
        for space, part in task.parts():
            name = space.kernel.name
            indices = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
            if len(indices) and name in self.values:
                table = feature_rows(space, numbers[indices] - part.start, self.ranker.listed)
                changes[indices] = self.values[name][self._forests.leaves(name, table)].sum(axis=1)
                changes[indices] += self.values[name][-1]
        return changes

    def _joined(self, proposals: Proposals, seconds: Floats) -> Proposals:
        """The proposals and the measured configurations, whose slowness is mostly the measured one."""
        task, ran = proposals.task, np.flatnonzero(np.isfinite(seconds))
        failed = np.isinf(seconds[proposals.numbers])
        slowness = np.where(failed, WORST, proposals.slowness)
        if not len(ran) or np.isnan(slowness).any():
            return replace(proposals, slowness=slowness)
        ran = ran[np.argsort(seconds[ran], kind="stable")]
        spread = np.linspace(0, len(ran) - 1, min(OWN - FASTEST, len(ran))).astype(np.int64)
        chosen = np.unique(np.concatenate([ran[:FASTEST], ran[spread], proposals.numbers[
            np.isfinite(seconds[proposals.numbers])]]))
        expected = self.ranker.slowness(task, chosen) + self.changes(task, chosen)
        logs, known = np.log(seconds[chosen]), ~np.isnan(expected)
        if not known.any():
            return replace(proposals, slowness=slowness)
        offset = float(np.average((logs - expected)[known], weights=np.exp(-np.clip(expected[known], 0, WORST))))
        believed = np.where(known, TRUST * (logs - offset) + (1 - TRUST) * expected, logs - offset)
        slowness_of = dict(zip(chosen.tolist(), believed.tolist(), strict=True))
        added = chosen[~np.isin(chosen, proposals.numbers)]
        numbers = np.concatenate([proposals.numbers, added])
        slowness = np.array([slowness_of.get(number, predicted) for number, predicted in zip(
            numbers.tolist(), [*slowness.tolist(), *[WORST] * len(added)], strict=True)])
        # the beam's opinion of a configuration does not count against its measurement
        likeliest = proposals.log_probabilities.max()
        log_probabilities = np.concatenate([proposals.log_probabilities, np.full(len(added), likeliest)])
        log_probabilities[np.isin(numbers, chosen)] = likeliest
        # all together stay as probable as the beam's proposals were
        log_probabilities += np.logaddexp.reduce(proposals.log_probabilities) - np.logaddexp.reduce(log_probabilities)
        members = proposals.members
        if members is not None:  # they disagree about what was measured only as far as the prediction still counts
            members = np.concatenate([members, np.repeat(slowness[len(proposals):, None], members.shape[1], axis=1)])
            means = members.mean(axis=1, keepdims=True)
            members = np.where(np.isin(numbers, chosen)[:, None], means + (1 - TRUST) * (members - means), members)
        return Proposals(task, numbers, log_probabilities, slowness, members)

    @cached_property
    def _forests(self) -> LeafForests:
        return LeafForests(self.ranker)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The values by kernel, to be kept in a file."""
        return {name: values.astype(np.float32) for name, values in self.values.items()}

    @classmethod
    def of_arrays(cls, ranker: Ranker, arrays: Mapping[str, NDArray[np.float32]], own_times: OwnTimes) -> Correction:
        """The inverse of `arrays`. Raises FormatError if they do not fit the ranker."""
        forests = LeafForests(ranker)
        for name, values in arrays.items():
            if name not in ranker.forests or values.shape != (forests.nodes(name) + 1,) or not np.isfinite(
                    values).all():
                raise FormatError(f"the corrections of {name:.40} do not fit the checkpoint's trees")
        return cls(ranker, {name: values.astype(np.float64) for name, values in arrays.items()}, own_times)


class LeafForests:
    """About TREES trees of each kernel of a ranker, spread evenly over its forests; of each kernel equally many."""

    def __init__(self, ranker: Ranker) -> None:
        self.names = sorted(ranker.forests)
        self._ranker = ranker
        self._thinned: dict[str, tuple[Forest, ...]] = {}
        counts = [sum(len(forest.roots) for forest in forests) for forests in ranker.forests.values()]
        self.width = min([*(-(-count // max(1, count // TREES)) for count in counts), TREES], default=0)

    def family(self, name: str) -> int:
        """The number of a kernel in `Observations`."""
        return self.names.index(name)

    def nodes(self, name: str) -> int:
        """The number of nodes of a kernel's trees."""
        return sum(len(forest.value) for forest in self._forests(name))

    def leaves(self, name: str, table: NDArray[np.float32]) -> NDArray[np.int64]:
        """The leaf of each row of features in each tree, (row, tree); nodes are numbered over all trees."""
        columns, offset = [], 0
        for forest in self._forests(name):
            columns.append(forest.leaves(table) + offset)
            offset += len(forest.value)
        return np.concatenate(columns, axis=1)[:, :self.width]

    def _forests(self, name: str) -> tuple[Forest, ...]:
        if name not in self._thinned:
            forests = self._ranker.forests[name]
            step = max(1, sum(len(forest.roots) for forest in forests) // TREES)
            self._thinned[name] = tuple(forest.thinned(step) for forest in forests)
        return self._thinned[name]


def observe(ranker: Ranker, measured: Sequence[MeasuredTask]) -> Observations:
    """The observations of at most MAX_ROWS measurements that ran: of each problem the fastest and some of all others.

    Kernels without trees are left out, and so are problems beyond the first MAX_ROWS / LEAST_ROWS.
    """
    forests = LeafForests(ranker)
    tasks = [task for task in measured if np.isfinite(task.seconds).sum() > 1][:MAX_ROWS // LEAST_ROWS]
    count = MAX_ROWS // max(1, len(tasks))
    parts = []
    for index, task in enumerate(tasks):
        numbers = spread_rows(task.seconds, count)
        observed = np.minimum(np.log(task.seconds[numbers] / task.best), WORST)
        parts.append(_described(ranker, forests, task.task, numbers, observed, index)[0])
    return Observations(*(np.concatenate(column) for column in zip(
        *((part.leaves, part.family, part.problem, part.expected, part.observed) for part in parts), strict=True))
    ) if parts else _described(ranker, forests, None, np.zeros(0, np.int64), np.zeros(0), 0)[0]


def query(ranker: Ranker, task: Task, numbers: Numbers) -> tuple[Observations, NDArray[np.int64]]:
    """Configurations of a task for `CorrectionProcess.variance`: nothing was observed of them.

    The second array are the indices of the numbers that the observations stand for: kernels without trees are missing.
    """
    return _described(ranker, LeafForests(ranker), task, numbers, np.zeros(len(numbers)), 0)


def _described(ranker: Ranker, forests: LeafForests, task: Task | None, numbers: Numbers, observed: Floats,
               problem: int) -> tuple[Observations, NDArray[np.int64]]:
    """The observations of a task's configurations whose kernel has trees, and their indices among the numbers."""
    leaves, family, indices = [np.zeros((0, forests.width), np.int64)], [0] * 0, [np.zeros(0, np.int64)]
    for space, part in () if task is None else task.parts():
        rows = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
        if len(rows) and space.kernel.name in ranker.forests:
            table = feature_rows(space, numbers[rows] - part.start, ranker.listed)
            leaves.append(forests.leaves(space.kernel.name, table))
            family += [forests.family(space.kernel.name)] * len(rows)
            indices.append(rows)
    chosen = np.concatenate(indices)
    expected = np.zeros(0) if task is None else np.minimum(ranker.slowness(task, numbers[chosen]), WORST)
    return Observations(np.concatenate(leaves), np.array(family, np.int64), np.full(len(chosen), problem),
                        expected, observed[chosen]), chosen


def spread_rows(seconds: Floats, count: int) -> Numbers:
    """The numbers of at most `count` measurements that ran: half of them the fastest, half spread over the others."""
    ran = np.flatnonzero(np.isfinite(seconds))
    ran = ran[np.argsort(seconds[ran], kind="stable")]
    if len(ran) <= count:
        return ran
    fastest = count // 2
    rest = np.linspace(fastest, len(ran) - 1, count - fastest).astype(np.int64)
    return np.asarray(ran[np.concatenate([np.arange(fastest), rest])])


def shares(observations: Observations, process: CorrectionProcess) -> tuple[float, float]:
    """The geometric mean share of the best measured speed that the first proposal reaches, before and after.

    Each problem is corrected by the other problems only.
    """
    after = observations.expected + process.factor * process.others
    logs = [(observations.observed[rows][np.argmin(observations.expected[rows])],
             observations.observed[rows][np.argmin(after[rows])]) for rows in observations.problems()]
    before_log, after_log = np.mean(logs, axis=0)
    return float(np.exp(-before_log)), float(np.exp(-after_log))
