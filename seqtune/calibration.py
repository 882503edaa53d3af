"""Calibration: a few minutes of probes on a device that the checkpoint has not seen, chosen where its model is unsure.

Problems of all kinds take turns. In each turn some configurations of one problem are measured: those that are expected
to be the fastest, because the order among them decides the answers, and those that may be fast but of which the model
is least sure. After each round the correction is fitted to all measurements so far, and the problems whose fast
configurations it is least sure of come first in the next one. Every measurement is in the journal at once, so a
calibration that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqtune.data.device_times import own_times
from seqtune.data.journal import Journal
from seqtune.data.record import Record
from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.predictor.correction.correction import Correction, CorrectionFit, observe, query
from seqtune.predictor.correction.correction_process import CorrectionProcess
from seqtune.predictor.trees.ranker import Ranker
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timing import DEFAULTS
from seqtune.tuner.tune import tasks_for

from .errors import InterruptedTuning

RUN = "calibrate"  # Record.run
TURN = 16  # configurations measured in one turn of a problem
LIKELY = 8  # of them: those expected to be fastest
SAMPLE = 1000  # random configurations of a problem whose expected slowness is computed: a tenth of a second
POOL = 200  # configurations of a problem among which the unsure ones are chosen: the fastest, and random ones
HOPELESS = 1.0  # expected slowness beyond which nobody needs to be sure


@dataclass(frozen=True, slots=True)
class CalibrationProgress:
    """The state of a calibration after a turn."""

    problem: Problem
    probes: int  # measured by this run
    seconds: float  # since it began
    budget: float

    @property
    def text(self) -> str:
        """The state as one line of text."""
        return (f"calibrating: {self.probes} probes, {self.seconds:.0f} of {self.budget:.0f} s, now "
                f"{self.problem.brief()}")


OnTurn = Callable[[CalibrationProgress], None]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The result of a calibration: the shares of the best measured speed before and after are those of first proposals.

    Each problem is corrected by the measurements of the other ones only.
    """

    device: Device
    journal: Path
    probes: int  # measured by this run
    measurements: int  # of this device, that the correction rests on
    problems: int
    before: float
    after: float

    def conclusion(self) -> str:
        """Some lines about the gain."""
        return (f"{self.probes} probes on {self.device.name}; {self.measurements} measurements of {self.problems} "
                f"problems now correct its predictions\nfirst proposals reach {self.before:.3f} of the best measured "
                f"speed without them and {self.after:.3f} with them (each problem corrected by the others)\n"
                f"journal: {self.journal}")

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"device": self.device.name, "journal": str(self.journal), "probes": self.probes,
                "measurements": self.measurements, "problems": self.problems, "before": self.before,
                "after": self.after}


def calibrate(problems: Sequence[Problem], device: Device, ranker: Ranker, journal: Journal, measurer: Measurer,
              seconds: float, seed: int, on_turn: OnTurn) -> tuple[int, CorrectionFit]:
    """Measure probes for so many seconds; return their number and the fit to all measurements of these problems.

    Raises InterruptedTuning on Ctrl-C.
    """
    began = time.monotonic()
    probing = Probing(list(tasks_for(problems, device)), ranker, journal, measurer, seed)
    journal.add_device(device)
    try:
        while time.monotonic() < began + seconds and (order := probing.order()):
            for index in order:
                probing.turn(index, began + seconds)
                elapsed = time.monotonic() - began
                on_turn(CalibrationProgress(probing.tasks[index].problem, probing.probes, elapsed, seconds))
                if elapsed >= seconds:
                    break
    except KeyboardInterrupt:
        raise InterruptedTuning(f"stopped after {probing.probes} probes; all are in {journal.path} and correct "
                                "predictions from now on; run again to go on") from None
    return probing.probes, Correction.fit(ranker, probing.measured())[1]


class Probing:
    """The probes of some tasks: which are measured, and which come next."""

    def __init__(self, tasks: Sequence[Task], ranker: Ranker, journal: Journal, measurer: Measurer,
                 seed: int) -> None:
        self.tasks, self.probes = tuple(tasks), 0
        self._ranker, self._journal, self._measurer = ranker, journal, measurer
        self._generator = np.random.default_rng(seed)
        self._process: CorrectionProcess | None = None
        self._seconds: list[Floats] = []
        for task in self.tasks:
            known = own_times(journal, task)
            self._seconds.append(np.full(len(task), np.nan) if known is None else known)
        self._expected: dict[int, Floats] = {}

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

    def turn(self, index: int, deadline: float) -> None:
        """Measure the next probes of a problem until the deadline."""
        task, seconds = self.tasks[index], self._seconds[index]
        versions = {kernel.name: kernel.version for kernel in task.kernels}
        best = float(np.fmin.reduce(seconds, initial=math.inf))
        probes = self._choose(index)
        configurations = [task[number] for number in probes.tolist()]
        with closing(self._measurer.measure(task.problem, configurations, DEFAULTS, best)) as measuring:
            for number, (configuration, measurement) in zip(probes.tolist(), measuring, strict=False):
                seconds[number] = measurement.seconds
                self.probes += 1
                self._journal.add(Record(
                    task.problem, task.device.key, versions[configuration.kernel], configuration,
                    task.device.toolchain, measurement, time.time(), RUN, platform.node(), task.device.fingerprint))
                if time.monotonic() >= deadline:
                    break

    def _choose(self, index: int) -> Numbers:
        """The next probes: the default at first, the likely ones, and the unsure ones that may be fast."""
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
