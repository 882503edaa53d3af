"""Data slices: configurations x problems, in passes that take more configurations each time.

A pass goes over all problems, so that any beginning of the work is a data set over all of them.
"""

from __future__ import annotations

import math
import platform
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from benchmarks.gpu.ahead import KernelsAhead, PlansAhead, stopping
from benchmarks.gpu.choices import ordered, pool, task_of
from benchmarks.gpu.day import Day
from benchmarks.gpu.shapes import DayProblems, convolutions, products
from benchmarks.gpu.slices import SliceOutcome
from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record
from seqtune.errors import SeqtuneError, UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timing import Options

PASSES = (16, 64, 256, 1 << 20)  # configurations of each problem that are measured once a pass is over
MEASURING = Options(samples=4, longest_seconds=0.02)  # breadth counts; finals measure the best ones longer
MOST_REFUSED = 20  # problems that cannot be measured at all; then something is wrong with the device


def gemm(day: Day, name: str) -> SliceOutcome:
    """Measure matrix products in the element type that the slice's name ends in."""
    return collect(day, name, products(name.partition("-")[2], day.sizes.shapes), day.device)


def conv(day: Day, name: str) -> SliceOutcome:
    """Measure ResNet-50's convolutions in the element type that the slice's name ends in."""
    return collect(day, name, convolutions(name.partition("-")[2], day.sizes.batches, day.sizes.layers), day.device)


def triton(day: Day, name: str) -> SliceOutcome:
    """Measure Triton's matrix products. Raises UnavailableError without its backend or its device."""
    from benchmarks.gpu.devices import triton_device

    return collect(day, name, products("bf16", day.sizes.shapes), triton_device(day))


def collect(day: Day, name: str, problems: DayProblems, device: Device) -> SliceOutcome:
    """Measure the pool on all problems, or go on with it. Raises SeqtuneError if too many cannot be measured."""
    chosen = pool(problems.ordered, device, day.sizes.configurations)
    if not chosen:
        raise UnavailableError(f"no kernel family solves these problems on {device.name}")

    def choose(problem: Problem) -> tuple[Configuration, ...]:
        task = task_of(problem, device)
        return () if task is None else ordered(task, chosen)

    kernels = KernelsAhead(day, device)
    ahead = PlansAhead(kernels, choose)
    plans = ahead.plans
    refused: dict[str, str] = {}
    finished = True
    with day.journal(name) as journal, day.measurer(device) as measurer, stopping(ahead, kernels):
        journal.add_device(device)
        for number, most in enumerate(PASSES, 1):
            if number > 1 and max(map(len, plans.values()), default=0) <= PASSES[number - 2]:
                break
            ahead.start([problem for problem in problems.ordered if problem.key not in refused], most)
            for index, problem in enumerate(problems.ordered, 1):
                if not day.left:
                    finished = False
                    break
                if problem.key in refused:
                    continue
                try:
                    measure(day, journal, measurer, problem, ahead.plan(problem)[:most], MEASURING)
                except UnavailableError:
                    raise
                except SeqtuneError as error:
                    refused[problem.key] = str(error)
                    if len(refused) > MOST_REFUSED:
                        raise
                if index % 25 == 0:
                    day.say(f"  pass {number}: {index} of {len(problems.ordered)} problems, {day.left:.0f} s left")
        return outcome(journal, device, problems, plans, refused, finished)


def measure(day: Day, journal: Journal, measurer: Measurer, problem: Problem, wanted: Sequence[Configuration],
            options: Options, run: str = "random") -> dict[Configuration, Measurement]:
    """Measure the configurations that the journal lacks until the slice's time is up; return all that are known."""
    device = measurer.device
    families = kernels_for(problem, device)
    known = journal.trials(problem, device, families)
    missing = sorted((configuration for configuration in wanted if configuration not in known),
                     key=lambda configuration: packing(problem, device, configuration))
    versions = {family.name: family.version for family in families}
    best = min((measurement.seconds for measurement in known.values()), default=math.inf)
    with closing(measurer.measure(problem, missing, options, best)) as measuring:
        for configuration, measurement in measuring:
            known[configuration] = measurement
            journal.add(record(problem, device, versions[configuration.kernel], configuration, measurement, run))
            if not day.left:
                break
    return {configuration: known[configuration] for configuration in wanted if configuration in known}


def packing(problem: Problem, device: Device, configuration: Configuration) -> str:
    """A sorting key that brings configurations with the same packed weights together: the host packs them slowly."""
    call = call_of(kernel(configuration.kernel), problem, device, configuration)
    return f"{configuration.kernel} {[argument.packing for argument in call.buffers().values()]}"


def record(problem: Problem, device: Device, version: int, configuration: Configuration, measurement: Measurement,
           run: str) -> Record:
    """The record of a measurement that was made now."""
    return Record(problem, device.key, version, configuration, device.toolchain, measurement, time.time(), run,
                  platform.node(), device.fingerprint)


def outcome(journal: Journal, device: Device, problems: DayProblems,
            plans: dict[Problem, tuple[Configuration, ...]], refused: dict[str, str], finished: bool) -> SliceOutcome:
    """Sum up a slice's journal."""
    statuses: Counter[str] = Counter()
    per_problem: dict[str, dict[str, object]] = {}
    for problem in problems.ordered:
        if not plans.get(problem):
            continue
        trials = {entry.configuration: entry.measurement for entry in journal.records(problem, device.key)}
        statuses.update(measurement.status.value for measurement in trials.values())
        seconds = [measurement.seconds for measurement in trials.values() if math.isfinite(measurement.seconds)]
        if seconds:
            per_problem[problem.key] = {
                "measured": len(trials), "best_us": round(min(seconds) * 1e6, 3),
                "gflops": round(problem.size("flop") / min(seconds) / 1e9, 1),
                "held_out": problem.key in problems.held_out}
    unsolved = [problem.key for problem in plans if not plans[problem]]
    result = {"problems": per_problem, "statuses": dict(statuses), "refused": refused, "unsolved": unsolved,
              "planned": sum(map(len, plans.values()))}
    return SliceOutcome(finished, f"{sum(statuses.values())} measurements of {len(per_problem)} problems, "
                                  f"{statuses['correct']} correct", result)
