"""Probing: chooses the configurations that a calibration measures, where the model is unsure.

In each turn some configurations of one problem are chosen: those that are expected to be the fastest, because the order
among them decides the answers, and those that may be fast but of which the model is least sure. After each round the
correction is fitted to all measurements so far, and the problems whose fast configurations it is least sure of come
first in the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..trees.ranker import Ranker
from .correction import Correction, observe, query
from .correction_process import CorrectionProcess

TURN = 16  # configurations measured in one turn of a problem
LIKELY = 8  # of them: those expected to be fastest
SAMPLE = 1000  # random configurations of a problem whose expected slowness is computed: a tenth of a second
POOL = 200  # configurations of a problem among which the unsure ones are chosen: the fastest, and random ones
HOPELESS = 1.0  # expected slowness beyond which nobody needs to be sure


class Probing:
    """The probes of some tasks: which are measured, and which come next.

    `seconds` holds what is known of each task, as in MeasuredTask; None: nothing. `record` adds to it.
    """

    def __init__(self, tasks: Sequence[Task], ranker: Ranker, seconds: Sequence[Floats | None], seed: int) -> None:
        self.tasks = tuple(tasks)
        self._ranker, self._generator = ranker, np.random.default_rng(seed)
        self._process: CorrectionProcess | None = None
        self._seconds = [np.full(len(task), np.nan) if known is None else known
                         for task, known in zip(tasks, seconds, strict=True)]
        self._expected: dict[int, Floats] = {}

    def best(self, index: int) -> float:
        """The least time of a problem so far, infinite without one."""
        return float(np.fmin.reduce(self._seconds[index], initial=math.inf))

    def record(self, index: int, number: int, seconds: float) -> None:
        """Take note of a probe's time, infinite for a failure."""
        self._seconds[index][number] = seconds

    def measured(self) -> list[MeasuredTask]:
        """The tasks with a measurement."""
        return [MeasuredTask(task, seconds) for task, seconds in zip(self.tasks, self._seconds, strict=True)
                if np.isfinite(seconds).any()]

    def order(self) -> list[int]:
        """Fit the correction again, and return the problems with probes left, in the order of their next turn.

        Problems without measurements come first, then those of whose fast configurations it is least sure.
        """
        self._observations = observe(self._ranker, self.measured())
        self._process, self._correction = None, Correction(self._ranker, {})
        if len(self._observations):
            self._process = CorrectionProcess.fit(self._observations)
            self._correction = Correction.of_process(self._ranker, self._observations, self._process)
        doubts: dict[int, float] = {}
        for index, seconds in enumerate(self._seconds):
            if np.isnan(seconds).all():
                doubts[index] = math.inf
            elif len(pool := self._pool(index)):
                doubts[index] = float(self._variance(index, pool[:LIKELY]).mean())
        return sorted(doubts, key=lambda index: -doubts[index])

    def choose(self, index: int) -> Numbers:
        """The next probes of a problem: the default at first, the likely ones, and the unsure ones that may be fast."""
        task, seconds = self.tasks[index], self._seconds[index]
        pool = self._pool(index)
        likely, rest = pool[:LIKELY], pool[LIKELY:]
        if np.isnan(seconds).all():
            default = task.find(task.default)
            likely = likely if default is None else np.append(likely[likely != default], default)
            rest = rest[rest != default]
        expected = self._slowness(index)[rest] + self._correction.changes(task, rest)
        hopeful = rest[expected < expected.min(initial=math.inf) + HOPELESS]
        count = TURN - len(likely)
        unsure = (hopeful[np.argsort(-self._variance(index, hopeful), kind="stable")[:count]]
                  if self._process is not None else self._generator.permutation(hopeful)[:count])
        return np.concatenate([likely, unsure]).astype(np.int64)

    def _pool(self, index: int) -> Numbers:
        """Unmeasured configurations of a problem: those expected to be fastest, in order, then random ones."""
        task = self.tasks[index]
        left = np.flatnonzero(np.isnan(self._seconds[index]) & np.isfinite(self._slowness(index)))
        expected = self._slowness(index)[left]
        fastest = left[np.argsort(expected, kind="stable")[:POOL // 2]]
        corrected = self._slowness(index)[fastest] + self._correction.changes(task, fastest)
        others = np.setdiff1d(left, fastest)
        drawn = self._generator.permutation(others)[:POOL - len(fastest)]
        return np.concatenate([fastest[np.argsort(corrected, kind="stable")], drawn])

    def _slowness(self, index: int) -> Floats:
        """The slowness of a problem's configurations that the trees expect, by number; infinite outside a sample."""
        if index not in self._expected:
            task = self.tasks[index]
            sample = self._generator.permutation(len(task))[:SAMPLE]
            self._expected[index] = np.full(len(task), np.inf)
            self._expected[index][sample] = np.nan_to_num(self._ranker.slowness(task, sample), nan=HOPELESS)
        return self._expected[index]

    def _variance(self, index: int, numbers: Numbers) -> Floats:
        """The variance of the correction of some configurations."""
        if self._process is None or not len(numbers):
            return np.ones(len(numbers))
        variance = np.ones(len(numbers))  # nothing is known of kernels without trees
        queries, indices = query(self._ranker, self.tasks[index], numbers)
        variance[indices] = self._process.variance(self._observations, queries)
        return variance
