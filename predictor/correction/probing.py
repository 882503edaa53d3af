"""Probing: chooses the configurations that a calibration measures, where the model is uncertain.

In each turn some configurations of one problem are chosen: those that are expected to be the fastest, because the order
among them decides the answers, and others that may be fast: random ones in a problem's first turn, then those about
which the models of the ensemble disagree most.
After each round the correction is fitted to all measurements so far. Problems with few probes come first in the next
round, and among them those about whose fast configurations the models disagree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..trees.ranker import Ranker
from .correction import Correction

TURN = 16  # configurations measured in one turn of a problem
LIKELY = 8  # of them: those expected to be fastest
SAMPLE = 1000  # random configurations of a problem whose expected slowness is computed: a tenth of a second
POOL = 200  # configurations of a problem among which the uncertain ones are chosen: the fastest, and random ones
SLOW = 1.0  # configurations with an expected slowness above the least one plus this are not probed


class Probing:
    """The probes of some tasks: which are measured, and which come next.

    `seconds` holds what is known of each task, as in MeasuredTask; None: nothing. `record` adds to it.
    """

    def __init__(self, tasks: Sequence[Task], ranker: Ranker, seconds: Sequence[Floats | None], seed: int) -> None:
        self.tasks = tuple(tasks)
        self._ranker, self._generator = ranker, np.random.default_rng(seed)
        self._correction = Correction(ranker, {})
        self._seconds = [np.full(len(task), np.nan) if known is None else known
                         for task, known in zip(tasks, seconds, strict=True)]
        self._expected: dict[int, tuple[Floats, Floats]] = {}

    def best(self, index: int) -> float:
        """The least time of a problem so far, infinite without one."""
        return float(np.fmin.reduce(self._seconds[index], initial=math.inf))

    def record(self, index: int, number: int, seconds: float) -> None:
        """Keep a probe's time, infinite for a failure."""
        self._seconds[index][number] = seconds

    def measured(self) -> list[MeasuredTask]:
        """The tasks with a measurement."""
        return [MeasuredTask(task, seconds) for task, seconds in zip(self.tasks, self._seconds, strict=True)
                if np.isfinite(seconds).any()]

    def order(self) -> list[int]:
        """Fit the correction again, and return the problems with probes left, in the order of their next turn."""
        self._correction, _ = Correction.fit(self._ranker, self.measured())
        order: dict[int, tuple[int, float]] = {}
        for index, seconds in enumerate(self._seconds):
            known = int((~np.isnan(seconds)).sum())
            pool = self._pool(index) if known else None
            if pool is None or len(pool):
                disagreement = 0.0 if pool is None else float(self._disagreements(index)[pool[:LIKELY]].mean())
                order[index] = known, -disagreement
        return sorted(order, key=lambda index: order[index])

    def choose(self, index: int) -> Numbers:
        """The next probes of a problem: the default at first, the likely ones, and uncertain ones that may be fast."""
        task, seconds = self.tasks[index], self._seconds[index]
        pool = self._pool(index)
        likely, rest = pool[:LIKELY], pool[LIKELY:]
        if np.isnan(seconds).all():
            default = task.find(task.default)
            likely = likely if default is None else np.append(likely[likely != default], default)
            rest = rest[rest != default]
        expected = self._slowness(index)[rest] + self._correction.changes(task, rest)
        candidates = rest[expected < expected.min(initial=math.inf) + SLOW]
        count = TURN - len(likely)
        uncertain = (self._generator.permutation(candidates)[:count] if np.isnan(seconds).all()  # an even sample first
                     else candidates[np.argsort(-self._disagreements(index)[candidates], kind="stable")[:count]])
        return np.concatenate([likely, uncertain]).astype(np.int64)

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
        return self._sampled(index)[0]

    def _disagreements(self, index: int) -> Floats:
        """How much the models of the ensemble disagree about that slowness: a standard deviation, by number."""
        return self._sampled(index)[1]

    def _sampled(self, index: int) -> tuple[Floats, Floats]:
        if index not in self._expected:
            task = self.tasks[index]
            sample = self._generator.permutation(len(task))[:SAMPLE]
            slowness, spread = np.full(len(task), np.inf), np.zeros(len(task))
            members = self._ranker.members(task, sample)
            slowness[sample] = np.nan_to_num(members.mean(axis=1, dtype=np.float64), nan=SLOW)
            spread[sample] = np.nan_to_num(members.std(axis=1, dtype=np.float64), nan=1.0)  # of kernels without trees
            self._expected[index] = slowness, spread
        return self._expected[index]
