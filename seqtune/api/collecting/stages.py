"""Stages of collecting: what is measured of each problem, in the order of its value for learning.

A stage says which problems it still has to do and does one of them; both depend on the journal alone, so that any stage
can be interrupted and resumed. A new stage is one class here and one line in STAGES. Problems pass through all stages
in blocks, so that a collection that ends early has complete problems of every kind. The first block is one problem,
each later one at most twice the former, and no larger than what the time left is expected to complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from seqtune.data.record import COMPARED
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import silent
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.compared_times import CompareOptions, compare_all, store_compared_times
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

from ...errors import CheckpointError, InterruptedTuning, SeqtuneError, UnavailableError
from .collection import MEASURING, Collection
from .results import CollectionProgress

EXHAUSTIBLE = 3000  # configurations of a held-out problem's space that is measured completely
SLOWLY_EXHAUSTIBLE = 400  # the same where kernels are built slowly: on all backends but llvm
REPEATING = Options(samples=6, longest_seconds=0.012, drop_factors=(1e9,))  # six samples, whatever the first ones are
SUSPICIOUS = 0.3  # log of measured over expected time; the noise of an undisturbed trial is a tenth of it
FROM_TRIALS = 24  # proposals of trees that know the device's trials alone
CLIMBED = 24  # neighbours of the best that are measured; a configuration has 20 to 60
AGAIN, PROPOSED, CONTEST = "again", "proposed", "contest"  # Record.run of what the stages after the trials measure
LATER = (PROPOSED, *COMPARED)  # runs of stages that follow the repeats
FASTEST, OTHERS = 8, 4  # configurations of a contest: the fastest, and random ones, whose times are not low by luck
BLOCK = 26  # most problems that pass through all stages before the next ones: two of each kind
MOST_REFUSED = 20  # problems that cannot be measured at all; then something is wrong with the device
# Features that the source of an operation's kernels depends on.
SOURCES = {"conv2d": ("layout", "r", "s", "stride_w"), "gemm": ("trans_a", "trans_b", "k"),
           "attention": ("layout", "mask", "causal", "head_dim")}
BUILDS = CompareOptions(builds=2, rounds=9, seconds=4.0)


class Stage(Protocol):
    """One kind of measurement, made of every problem of a collection."""

    name: str

    def missing(self, collection: Collection, problems: Sequence[Problem]) -> list[Problem]:
        """The problems that the stage has still to do, of these and by what the journal holds."""
        ...

    def measure(self, collection: Collection, task: Task, deadline: Deadline) -> str:
        """Measure one problem and describe the result in a few words. May raise OutOfTime at the deadline."""
        ...


class Trials:
    """Random trials of training problems, and all or nearly all configurations of held-out ones."""

    name = "trials"

    def missing(self, collection: Collection, problems: Sequence[Problem]) -> list[Problem]:
        return [problem for problem in problems if (task := collection.task(problem)) is not None
                and len(collection.times[problem]) < self._wanted(collection, task)]

    def measure(self, collection: Collection, task: Task, deadline: Deadline) -> str:
        held_out = task.problem in collection.held_out
        budget, strategy = Budget(self._wanted(collection, task), deadline.left), "random"
        if held_out and len(task) > self._exhaustible(task):
            # llvm: 1,000 trials and the local search from the best. A local search that has begun is not resumed.
            budget, strategy = Budget(None if task.device.backend == "llvm" else SLOWLY_EXHAUSTIBLE), "local"
        result = tune(task, collection.journal, collection.measurer, budget,
                      TuningOptions(strategy, seed=collection.seed_of(task.problem), measuring=MEASURING,
                                    finals=Finals(count=0)))
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
        if len(task) <= self._exhaustible(task):
            return len(task)
        return 0 if "local" in collection.runs[task.problem] else len(task)

    def _exhaustible(self, task: Task) -> int:
        """The largest number of configurations that are all measured."""
        return EXHAUSTIBLE if task.device.backend == "llvm" else SLOWLY_EXHAUSTIBLE


class Suspects:
    """Trials that took much longer than trees, fitted to all trials of the device, expect; they are measured again.

    A trial that looks hopeless ends after a sample or two, so another process that runs at that moment can make it
    wrong. A slow configuration stays slow.
    """

    name = "repeats"

    def missing(self, collection: Collection, problems: Sequence[Problem]) -> list[Problem]:
        return [problem for problem in problems
                if collection.ran(problem) and collection.runs[problem].isdisjoint((AGAIN, *LATER))]

    def measure(self, collection: Collection, task: Task, deadline: Deadline) -> str:
        seconds = collection.seconds(task)
        expected = collection.trees(task.problem.type).predict(task.spaces)
        surplus = np.log(seconds / np.nanmin(seconds)) - expected
        numbers = np.flatnonzero(np.isfinite(surplus) & (surplus > SUSPICIOUS)).tolist()
        collection.measure(task, [task[number] for number in numbers], AGAIN, REPEATING)
        collection.runs[task.problem].add(AGAIN)  # otherwise a problem without suspicious trials would come again
        return f"{len(numbers)} suspicious trials"


class Active:
    """Active labels: a model's proposals for a training problem, then the neighbours of the best one.

    Where the model does not know a kernel of the problem, trees that are fitted to the device's trials propose.
    """

    name = "proposals"

    def missing(self, collection: Collection, problems: Sequence[Problem]) -> list[Problem]:
        return [problem for problem in problems if problem not in collection.held_out
                and collection.ran(problem) and PROPOSED not in collection.runs[problem]]

    def measure(self, collection: Collection, task: Task, deadline: Deadline) -> str:
        before = float(np.nanmin(collection.seconds(task)))
        known = collection.times[task.problem]
        proposals = [configuration for configuration in dict.fromkeys(self._proposed(collection, task))
                     if configuration not in known]
        collection.measure(task, proposals, PROPOSED, best=before)
        left = CLIMBED
        while left > 0 and (steps := self._neighbours(collection, task)[:left]):
            best = min(known.values())
            collection.measure(task, [task[number] for number in steps], PROPOSED, best=best)
            left -= len(steps)
            if min(known.values()) >= best:
                break
        collection.runs[task.problem].add(PROPOSED)
        gain = before / float(np.nanmin(collection.seconds(task)))
        return f"{len(proposals)} proposals and {CLIMBED - left} neighbours, {gain:.3f} times as fast as before"

    def _proposed(self, collection: Collection, task: Task) -> Sequence[Configuration]:
        """The model's proposals or, where it lacks a kernel, those of trees."""
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

    name = "contests"

    def missing(self, collection: Collection, problems: Sequence[Problem]) -> list[Problem]:
        return [problem for problem in problems
                if collection.ran(problem) and collection.runs[problem].isdisjoint(COMPARED)]

    def measure(self, collection: Collection, task: Task, deadline: Deadline) -> str:
        seconds = collection.seconds(task)
        order = np.argsort(np.where(np.isfinite(seconds), seconds, np.inf), kind="stable")
        ran = order[:int(np.isfinite(seconds).sum())]
        generator = np.random.default_rng(collection.seed_of(task.problem))
        others = generator.permutation(ran[FASTEST:])[:OTHERS]
        chosen = [task[number] for number in (*ran[:FASTEST].tolist(), *others.tolist())]
        compared = compare_all(collection.measurer, task.problem, chosen, BUILDS, renew=collection.renew)
        store_compared_times(collection.journal, task.problem, task.device,
                             {kernel.name: kernel.version for kernel in task.kernels}, compared)
        collection.runs[task.problem].add(CONTEST)
        return f"{len(chosen)} configurations, best {compared.best * 1e6:.1f} us"


STAGES: tuple[Stage, ...] = (Trials(), Suspects(), Active(), Contests())


def measure_stages(collection: Collection, deadline: Deadline,
                   progress: Callable[[CollectionProgress], object] = silent,
                   stages: Sequence[Stage] = STAGES, block_size: int = BLOCK) -> dict[Problem, str]:
    """Do the stages until all are done or the time is over; return the problems left out, with the reason.

    Raises SeqtuneError where nothing can be measured.
    """
    refused: dict[Problem, str] = {}
    begin, size = 0, 1
    while begin < len(collection.problems):
        block = collection.problems[begin:begin + collection.forecast.block(min(size, block_size), deadline.left)]
        began, fresh = deadline.elapsed, [problem for problem in block if not collection.times[problem]]
        for stage in stages:
            for problem in sorted_by_source(stage.missing(collection, block)):
                if deadline.is_over:
                    return refused
                task = collection.task(problem)
                if task is None or problem in refused:
                    continue
                try:
                    summary = stage.measure(collection, task, deadline)
                except OutOfTime:
                    return refused
                except (UnavailableError, InterruptedTuning):
                    raise
                except SeqtuneError as error:
                    refused[problem] = str(error)
                    if len(refused) > MOST_REFUSED:
                        raise
                    summary = f"left out: {error}"
                progress(CollectionProgress(collection.device, problem, stage.name, summary, begin,
                                            len(collection.problems), deadline.left))
        if len(fresh) == len(block):
            collection.forecast.learn(len(block), deadline.elapsed - began)
        begin, size = begin + len(block), 2 * size
    return refused


def sorted_by_source(problems: Sequence[Problem]) -> list[Problem]:
    """Sort problems so that those with the same kernel source follow each other; a build is then used many times."""
    def source(problem: Problem) -> tuple[str, ...]:
        return (problem.type, *(str(problem[name]) for name in SOURCES.get(problem.type, ())))
    return sorted(problems, key=source)


def remaining(collection: Collection, stages: Sequence[Stage] = STAGES) -> dict[str, int]:
    """The number of problems left to each stage; a problem without trials is left to every stage."""
    counts = {stage.name: len(problems) for stage, problems in zip(stages, _missing(collection, stages), strict=True)}
    return {name: count for name, count in counts.items() if count}


def incomplete(collection: Collection, stages: Sequence[Stage] = STAGES) -> set[Problem]:
    """The problems that a stage has still to do."""
    return set().union(*_missing(collection, stages))


def _missing(collection: Collection, stages: Sequence[Stage]) -> list[set[Problem]]:
    """The problems left to each stage."""
    waiting = [problem for problem in collection.problems if not collection.times[problem]
               and collection.task(problem) is not None]
    return [{*stage.missing(collection, collection.problems), *waiting} for stage in stages]
