"""Stages of collecting: what is measured of each problem, in the order of its value for learning.

A stage says which problems it still has to do and does one of them; both depend on the journal alone, so that any stage
can be interrupted and resumed. A new stage is one class here and one line in STAGES.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from seqtune.data.record import COMPARED
from seqtune.errors import CheckpointError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.contest import ContestOptions, hold_contest, store_contest
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

from .collection import MEASURING, Collection

EXHAUSTIBLE = {"llvm": 3000, "opencl": 400}  # configurations of a space that is measured completely; PoCL builds slowly
SEARCHED = {"llvm": None, "opencl": 400}  # trials in a larger space; None: 1,000 and the local search from the best
AT_LEISURE = Options(samples=6, longest_seconds=0.012, drop_factors=(1e9,))
SUSPICIOUS = 0.3  # log of measured over expected time; the noise of an undisturbed trial is a tenth of it
FROM_TRIALS = 24  # proposals of trees that know the device's trials alone
CLIMBED = 24  # neighbours of the best that are measured; a configuration has 20 to 60
LATER = ("proposed", *COMPARED)  # runs of stages that follow the second look
FASTEST, OTHERS = 8, 4  # configurations of a contest; random ones among them, so that not all are lucky ones
BUILDS = ContestOptions(builds=2, rounds=9, seconds=4.0)


class Stage(Protocol):
    """One kind of measurement, made of every problem of a collection."""

    name: str

    def missing(self, collection: Collection) -> list[Problem]:
        """The problems that the stage has still to do, by what the journal holds."""
        ...

    def measure(self, collection: Collection, task: Task) -> str:
        """Measure one problem and describe the result in a few words."""
        ...


class Trials:
    """Random trials of training problems, and all or nearly all configurations of held-out ones."""

    name = "trials"

    def missing(self, collection: Collection) -> list[Problem]:
        return [problem for problem in collection.problems if (task := collection.task(problem)) is not None
                and len(collection.times[problem]) < self._wanted(collection, task)]

    def measure(self, collection: Collection, task: Task) -> str:
        held_out = task.problem in collection.held_out
        exhaustible = len(task) <= EXHAUSTIBLE[task.device.backend]
        strategy = "local" if held_out and not exhaustible else "random"
        trials = collection.trials if not held_out else None if exhaustible else SEARCHED[task.device.backend]
        seed = zlib.crc32(task.problem.key.encode())
        result = tune(task, collection.journal, collection.measurer, Budget(trials=trials),
                      TuningOptions(strategy, seed=seed, measuring=MEASURING, finals=Finals(count=0)))
        collection.runs[task.problem].add(strategy)
        collection.times[task.problem].update(
            {configuration: measurement.seconds for configuration, measurement in collection.journal.trials(
                task.problem, task.device, task.kernels).items()})
        best = result.measurement.seconds * 1e6 if result.measurement else math.nan
        return f"{result.done} of {len(task)} configurations, best {best:.1f} us"

    def _wanted(self, collection: Collection, task: Task) -> int:
        """The number of trials after which a problem is done."""
        if task.problem not in collection.held_out:
            return min(collection.trials, len(task))
        if len(task) <= EXHAUSTIBLE[task.device.backend]:
            return len(task)
        return 0 if "local" in collection.runs[task.problem] else len(task)


class Suspects:
    """Trials that took much longer than trees, fitted to all trials of the device, expect; they are measured again.

    A trial that looks hopeless ends after a sample or two, so another process that runs at that moment can make it
    wrong. A slow configuration stays slow.
    """

    name = "again"

    def missing(self, collection: Collection) -> list[Problem]:
        return [problem for problem in collection.problems
                if collection.ran(problem) and collection.runs[problem].isdisjoint(("again", *LATER))]

    def measure(self, collection: Collection, task: Task) -> str:
        seconds = collection.seconds(task)
        expected = collection.trees(task.problem.type).predict(task.spaces)
        surplus = np.log(seconds / np.nanmin(seconds)) - expected
        numbers = np.flatnonzero(np.isfinite(surplus) & (surplus > SUSPICIOUS)).tolist()
        collection.measure(task, [task[number] for number in numbers], "again", AT_LEISURE)
        collection.runs[task.problem].add("again")  # in this process also if nothing was suspicious
        return f"{len(numbers)} suspicious trials"


class Active:
    """Active labels: a model's proposals for a training problem, then the neighbours of the best one.

    Where the model does not know a kernel of the problem, trees that are fitted to the device's trials propose.
    """

    name = "proposed"

    def missing(self, collection: Collection) -> list[Problem]:
        return [problem for problem in collection.training if collection.propose is not None
                and collection.ran(problem) and self.name not in collection.runs[problem]]

    def measure(self, collection: Collection, task: Task) -> str:
        before = float(np.nanmin(collection.seconds(task)))
        known = collection.times[task.problem]
        proposals = [configuration for configuration in dict.fromkeys(self._proposed(collection, task))
                     if configuration not in known]
        collection.measure(task, proposals, self.name, best=before)
        left = CLIMBED
        while left > 0 and (steps := self._neighbours(collection, task)[:left]):
            best = min(known.values())
            collection.measure(task, [task[number] for number in steps], self.name, best=best)
            left -= len(steps)
            if min(known.values()) >= best:
                break
        collection.runs[task.problem].add(self.name)
        gain = before / float(np.nanmin(collection.seconds(task)))
        return f"{len(proposals)} proposals and {CLIMBED - left} neighbours, {gain:.3f} times as fast as before"

    def _proposed(self, collection: Collection, task: Task) -> Sequence[Configuration]:
        """The model's proposals or, where it lacks a kernel, those of trees."""
        assert collection.propose is not None
        try:
            return collection.propose(task)
        except CheckpointError:
            expected = collection.trees(task.problem.type).predict(task.spaces)
            return [task[number] for number in np.argsort(expected, kind="stable")[:FROM_TRIALS].tolist()]

    def _neighbours(self, collection: Collection, task: Task) -> list[int]:
        """The unmeasured neighbours of the fastest configuration, the nearest values first."""
        seconds = collection.seconds(task)
        near = task.neighbours(int(np.nanargmin(seconds)))
        ordered = near.numbers[np.argsort(near.distances, kind="stable")]
        return [number for number in ordered.tolist() if math.isnan(seconds[number])]


class Contests:
    """The fastest configurations of each problem and a few random ones, in one contest: times that can be compared."""

    name = "contest"

    def missing(self, collection: Collection) -> list[Problem]:
        return [problem for problem in collection.problems
                if collection.ran(problem) and collection.runs[problem].isdisjoint(COMPARED)]

    def measure(self, collection: Collection, task: Task) -> str:
        seconds = collection.seconds(task)
        order = np.argsort(np.where(np.isfinite(seconds), seconds, np.inf), kind="stable")
        ran = order[:int(np.isfinite(seconds).sum())]
        generator = np.random.default_rng(zlib.crc32(task.problem.key.encode()))
        others = generator.permutation(ran[FASTEST:])[:OTHERS]
        chosen = [task[number] for number in (*ran[:FASTEST].tolist(), *others.tolist())]
        contest = hold_contest(collection.measurer, task.problem, chosen, BUILDS, renew=collection.renew)
        store_contest(collection.journal, task.problem, task.device,
                      {kernel.name: kernel.version for kernel in task.kernels}, contest)
        collection.runs[task.problem].add(self.name)
        return f"{len(chosen)} configurations, best {contest.best * 1e6:.1f} us"


STAGES: tuple[Stage, ...] = (Trials(), Suspects(), Active(), Contests())
