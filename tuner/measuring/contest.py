"""Contest: the times of many configurations of one problem, all measured together, so that any two can be compared.

A quick look checks every configuration and times it alone. Those that take more than FAR times the least time keep the
time of the quick look. All others are built several times; in every build they run in interleaved rounds, each round in
a new random order. The time of a configuration in a build is the median of its rounds, and its result is the median
over the builds.

The median serves here, although noise on a shared machine only adds time. Of a lone kernel the least sample is the
better estimate. But the least of many samples is lower than the least of few, and a sample can be lucky as well, by a
raised clock rate or by what its predecessor left in the caches; the best of a hundred configurations would then be the
luckiest one. The median ignores such samples, and it ignores disturbances that meet less than half of the rounds.
"""

from __future__ import annotations

import math
import platform
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem

from .runner import Measurer
from .timing import Options

FAR = 3.0  # factor on the least time of the quick look; its noise, a second look included, is far smaller
LOOK = Options(samples=3, drop_factors=(FAR,))
FEWEST_ROUNDS = 5  # in a build: two disturbed rounds do not move a median of five
COPIES = 3  # of the operands' and the result's memory that an executable takes: packed weights, workspace, padding


@dataclass(frozen=True, slots=True)
class ContestOptions:
    """Options of a contest. The reason of each default is given next to it."""

    builds: int = 3  # the median of three ignores one lucky or unlucky build
    rounds: int = 15  # of a build: the median of 15 samples with 5 % of noise is within 2 % of the truth
    seconds: float = 20.0  # of all rounds; slow kernels run in fewer rounds, at least FEWEST_ROUNDS in a build
    together_bytes: int = 2 << 30  # memory of the executables that take turns; more run in several groups
    seed: int = 0  # of the orders in which executables are built and run


DEFAULTS = ContestOptions()


@dataclass(frozen=True, slots=True)
class Contest:
    """The result of a contest; the same time of a configuration holds for whoever proposed it."""

    seconds: Mapping[Configuration, float]  # of every configuration; infinite if it failed in the look or in any build
    builds: Mapping[Configuration, tuple[Measurement, ...]]  # by build, of those that ran in all of them
    measurements: Mapping[Configuration, Measurement]  # of the quick look, or the first failure

    @property
    def best(self) -> float:
        """The least time; infinite if nothing ran."""
        return min(self.seconds.values(), default=math.inf)

    @property
    def retest(self) -> float | None:
        """The log share that an oracle reaches; see `retest_log_share`."""
        times = [[measurement.median for measurement in builds] for builds in self.builds.values()]
        return retest_log_share(np.array(times, float).T)


def retest_log_share(builds: NDArray[np.float64]) -> float | None:
    """The log share of the best speed that an oracle reaches when its choice is measured again. None if unknown.

    `builds` are seconds, (build, configuration), without NaN. The oracle chooses the configuration whose median over
    all builds but one is least, and is judged by the build that was left out; the result is the mean over the builds.
    No method can reach more than such a re-test except by luck. Each part has fewer builds than the times by which
    methods are judged, so the true ceiling is a little higher.
    """
    if builds.ndim != 2 or len(builds) < 2 or not builds.shape[1]:
        return None
    logs = []
    for index, judging in enumerate(builds):
        chosen = int(np.argmin(np.median(np.delete(builds, index, axis=0), axis=0)))
        logs.append(math.log(judging.min() / judging[chosen]))
    return float(np.mean(logs))


def hold_contest(measurer: Measurer, problem: Problem, configurations: Sequence[Configuration],
                 options: ContestOptions = DEFAULTS, renew: Callable[[], None] = lambda: None,
                 progress: Callable[[str], None] = lambda step: None) -> Contest:
    """Measure all configurations of a problem together.

    `renew` is called before every build but the first; a Runner's `close` starts a new worker, so that kernels are
    compiled and buffers allocated again.
    """
    distinct = list(dict.fromkeys(configurations))
    measurements = dict(measurer.measure(problem, distinct, LOOK))
    best = min((measurement.seconds for measurement in measurements.values()), default=math.inf)
    near = [configuration for configuration, measurement in measurements.items()
            if measurement.status is Status.CORRECT and measurement.seconds <= FAR * best]
    generator = np.random.default_rng(options.seed)
    rounds = _rounds(near, measurements, options)
    builds: dict[Configuration, list[Measurement]] = {configuration: [] for configuration in near}
    for build in range(options.builds if near else 0):
        progress(f"{problem.brief()}: comparing {len(near)}, build {build + 1} of {options.builds}")
        if build:
            renew()
        for group in _groups(problem, list(builds), options.together_bytes, generator):
            seed = int(generator.integers(1 << 31))
            compared = measurer.compare(problem, group, rounds, replace(LOOK, order_seed=seed))
            for configuration, measurement in zip(group, compared, strict=True):
                if measurement.status is Status.CORRECT:
                    builds[configuration].append(measurement)
                else:
                    measurements[configuration] = measurement
                    del builds[configuration]
    seconds = {configuration: measurement.median for configuration, measurement in measurements.items()}
    seconds.update({configuration: median(measurement.median for measurement in built)
                    for configuration, built in builds.items()})
    return Contest({configuration: seconds[configuration] for configuration in distinct},
                   {configuration: tuple(built) for configuration, built in builds.items()}, measurements)


def store_contest(journal: Journal, problem: Problem, device: Device, versions: Mapping[str, int],
                  contest: Contest) -> None:
    """Add the builds of a contest to a journal, one record for each build of a configuration, as one session.

    A configuration that failed in a build gets one record, of the failure. The quick look is not stored. `versions`
    maps the names of its kernels to their versions.
    """
    session, when, host = uuid.uuid4().hex, time.time(), platform.node()
    failed = {configuration: (measurement,) for configuration, measurement in contest.measurements.items()
              if measurement.status is not Status.CORRECT}
    for configuration, measurements in {**contest.builds, **failed}.items():
        for measurement in measurements:
            journal.add(Record(problem, device.key, versions[configuration.kernel], configuration, device.toolchain,
                               measurement, when, "contest", host, device.fingerprint, session))


def _rounds(near: Sequence[Configuration], measurements: Mapping[Configuration, Measurement],
            options: ContestOptions) -> int:
    """The number of rounds of a build that fits the seconds of the options."""
    once = sum(max(1.5 * LOOK.sample_seconds, measurements[configuration].seconds) for configuration in near)
    return max(FEWEST_ROUNDS, min(options.rounds, int(options.seconds / options.builds / max(once, 1e-9))))


def _groups(problem: Problem, configurations: Sequence[Configuration], most_bytes: int,
            generator: np.random.Generator) -> list[list[Configuration]]:
    """Split configurations at random into as few groups of about equal size as the memory allows, mostly one."""
    work = operation(problem.type)
    shapes = [*work.operands(problem).values(), work.output(problem)]
    each = COPIES * 4 * sum(math.prod(shape) for shape in shapes)
    count = math.ceil(len(configurations) / max(2, most_bytes // each))
    order = generator.permutation(len(configurations))
    return [[configurations[index] for index in part] for part in np.array_split(order, count)]
