"""Measuring: random configurations of every kernel against float64, and training data for the run's problems.

Training data are configurations x problems, in passes that take more configurations each time: a pass goes over all
problems, so that any beginning of the work is a data set over all of them. The configurations of a problem are the safe
default, then what is predicted for it, then a pool in an order of its own. The pool is shared by all problems of a
group, so that each of its kernels is compiled once and problems can be compared.
"""

from __future__ import annotations

import math
import platform
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from functools import cache

import numpy as np

from benchmarks.common.progress import say
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import CheckpointError, KernelError, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.random_configurations import random_configurations
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.kernels.task import Task
from seqtune.predictor.answering import Answering
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timing import Options

from .run import CHECKS, Run

Plan = tuple[Configuration, ...]
PASSES = (16, 64, 256)  # configurations of each problem once a pass is over; the last pass takes all
ANCHORS = 12  # problems of a group whose spaces the pool is drawn from
PREDICTED = 5  # proposals for each problem, and of each anchor in the pool
CHECKING = Options(samples=1)
MEASURING = Options(samples=4, longest_seconds=0.02)  # breadth counts
MOST_REFUSED = 20  # problems that cannot be measured at all; then something is wrong with the device
LONGEST_WAIT = 600.0  # seconds for the kernels of one problem to be compiled
RANDOM, CHECK = "random", "check"  # Record.run of what is measured here


def check(run: Run) -> str:
    """Check random configurations over random problems of every family. Raises SeqtuneError if one is not right."""
    if run.gpu.simulated:
        raise UnavailableError("a simulated GPU computes no numbers that could be checked")
    statuses: Counter[str] = Counter()
    wrong: list[str] = []
    drawn: dict[Problem, list[Configuration]] = {}
    for family in run.families:
        for problem, configuration in random_configurations(family, run.device, run.options.checked, run.options.seed):
            drawn.setdefault(problem, []).append(configuration)
    with (run.journal(CHECKS) as journal, run.gpu.measurer() as measurer,
          compiled_ahead(run, list(drawn), lambda problem: tuple(drawn[problem])) as plan):
        for index, problem in enumerate(drawn, 1):
            if not run.left:
                break
            known = measure_missing(run, journal, measurer, problem, plan(problem), CHECKING, CHECK)
            statuses.update(measurement.status.value for measurement in known.values())
            wrong += [f"{problem.brief()}, {configuration.kernel} {configuration.brief()}: {measurement.status} "
                      f"{one_line(measurement.message, 200)}" for configuration, measurement in known.items()
                      if measurement.status is not Status.CORRECT]
            _report(run, index, len(drawn))
    summary = f"{statuses['correct']} of {statuses.total()} configurations are right"
    if wrong:
        raise SeqtuneError("; ".join([summary, *wrong[:3]]))
    return summary


def measure(run: Run) -> str:
    """Measure the run's problems, or go on with them. Raises SeqtuneError if too many cannot be measured."""
    problems = run.options.problems.ordered
    pools = {group: pool(run, [problem for problem in problems if group_of(problem) == group])
             for group in dict.fromkeys(map(group_of, problems))}

    @cache
    def plan(problem: Problem) -> Plan:
        task = task_of(run, problem)
        candidates = pools[group_of(problem)]
        return () if task is None else ordered(run, task, candidates)[:run.options.configurations]

    refused: dict[Problem, str] = {}
    measured: dict[Problem, int] = {}
    with run.journal() as journal, run.gpu.measurer() as measurer:
        for most in (*(count for count in PASSES if count < run.options.configurations), run.options.configurations):
            if not run.left:
                break
            wanted = [problem for problem in problems if problem not in refused and run.gpu.can_measure(problem)]
            with compiled_ahead(run, wanted, plan, most) as compiled:
                for index, problem in enumerate(wanted, 1):
                    if not run.left:
                        break
                    try:
                        measured[problem] = len(measure_missing(run, journal, measurer, problem, compiled(problem),
                                                                MEASURING, RANDOM))
                    except UnavailableError:
                        raise
                    except SeqtuneError as error:
                        refused[problem] = str(error)
                        if len(refused) > MOST_REFUSED:
                            raise
                    _report(run, index, len(wanted), f"up to {most} configurations: ")
    counts = [count for count in measured.values() if count]
    if not counts:
        raise UnavailableError("; ".join(refused.values()) or f"no kernel family solves these problems on "
                                                              f"{run.device.name}, or there was no time")
    left_out = f"; left out: {'; '.join(map(one_line, list(refused.values())[:3]))}" if refused else ""
    return f"{sum(counts)} configurations of {len(counts)} problems{left_out}"


def measure_missing(run: Run, journal: Journal, measurer: Measurer, problem: Problem, wanted: Sequence[Configuration],
                    options: Options, name: str) -> dict[Configuration, Measurement]:
    """Measure the configurations that the journal lacks until the time is up; return all that are known.

    Those with the same packed weights follow each other, because the host packs them slowly.
    """
    families = kernels_for(problem, run.device)
    versions = {family.name: family.version for family in families}
    known = journal.trials(problem, run.device, families)

    def packing(configuration: Configuration) -> str:
        call = call_of(kernel(configuration.kernel), problem, run.device, configuration)
        return f"{configuration.kernel} {[argument.packing for argument in call.buffers().values()]}"

    missing = sorted((configuration for configuration in wanted if configuration not in known), key=packing)
    best = min((measurement.seconds for measurement in known.values()), default=math.inf)
    with closing(measurer.measure(problem, missing, options, best)) as measuring:
        for configuration, measurement in measuring:
            known[configuration] = measurement
            journal.add(Record(problem, run.device.key, versions[configuration.kernel], configuration,
                               run.device.toolchain, measurement, time.time(), name, platform.node(),
                               run.device.fingerprint))
            if not run.left:
                break
    return {configuration: known[configuration] for configuration in wanted if configuration in known}


@contextmanager
def compiled_ahead(run: Run, problems: Sequence[Problem], choose: Callable[[Problem], Plan],
                   most: int | None = None) -> Iterator[Callable[[Problem], Plan]]:
    """A function that returns `most` configurations of a problem, chosen and compiled while the GPU measures others.

    Problems are prepared in the given order. The GPU times its kernels itself, so work of the host beside them does no
    harm. The function raises what choosing raised; kernels that do not compile are the worker's to meet and to record.
    """
    compiler, thread = run.gpu.compiler(), ThreadPoolExecutor(1)

    def prepare(problem: Problem) -> tuple[Plan, list[Future[bool]]]:
        chosen = choose(problem)[:most]
        return chosen, [] if compiler is None else compiler.start(problem, chosen)

    waiting = {problem: thread.submit(prepare, problem) for problem in problems}

    def prepared(problem: Problem) -> Plan:
        chosen, compiling = waiting[problem].result()
        wait(compiling, timeout=min(LONGEST_WAIT, run.left))
        return chosen

    try:
        yield prepared
    finally:
        thread.shutdown(wait=True, cancel_futures=True)
        if compiler is not None:
            compiler.stop()


def group_of(problem: Problem) -> str:
    """The group of a problem in pools and on the page, as in "gemm bf16"."""
    return f"{problem.type} {problem['dtype']}"


def task_of(run: Run, problem: Problem) -> Task | None:
    """The task of a problem, None if no kernel of the run solves it."""
    try:
        return Task.of(problem, run.device, run.families)
    except KernelError:
        return None


def proposals(run: Run, task: Task, count: int) -> Plan:
    """The first `count` proposals of the run's checkpoint, or of the backend's own predictor; empty without one."""
    try:
        return tuple(Answering.of(task, run.options.checkpoint).propose(count))
    except CheckpointError:
        if run.options.checkpoint is not None:
            raise
        return ()


def pool(run: Run, problems: Sequence[Problem]) -> Plan:
    """Choose configurations for a group: predicted and random ones, in equal numbers of every family and anchor."""
    generator, count = np.random.default_rng(0), run.options.configurations
    chosen: dict[Configuration, None] = {}
    drawn: list[list[Configuration]] = []
    for task in filter(None, (task_of(run, problem) for problem in problems[:ANCHORS])):
        chosen.update(dict.fromkeys(proposals(run, task, PREDICTED)))
        for space in task.spaces:
            rows = generator.choice(len(space), min(count, len(space)), replace=False)
            drawn.append([space[int(row)] for row in rows])
    for index in range(count):
        for column in drawn:
            if index < len(column) and len(chosen) < count:
                chosen.setdefault(column[index])
    return tuple(chosen)[:count]


def ordered(run: Run, task: Task, candidates: Sequence[Configuration]) -> Plan:
    """The configurations to measure for a task: default, predicted, then the valid candidates in the task's order."""
    generator = np.random.default_rng(zlib.crc32(task.problem.key.encode()))
    valid: list[Configuration] = []
    for family in task.kernels:
        same = [candidate for candidate in candidates if candidate.kernel == family.name]
        numbers = task.numbers(family.name, [dict(candidate.settings) for candidate in same])
        valid += [candidate for candidate, number in zip(same, numbers.tolist(), strict=True) if number >= 0]
    order = generator.permutation(len(valid)).tolist()
    return tuple(dict.fromkeys([task.default, *proposals(run, task, PREDICTED), *(valid[index] for index in order)]))


def _report(run: Run, index: int, count: int, what: str = "") -> None:
    if index % 25 == 0:
        left = "" if math.isinf(run.left) else f", {run.left:.0f} s left"
        say(f"  {what}{index} of {count} problems{left}")
