"""ComparedTimes: the times of many configurations of one problem, measured so that any two can be compared.

A quick look checks every configuration and times it alone. What seems to take more than FAR times the least time is
looked at again, later: the machine may have been slow for a moment, and the first kernels of a new worker are. Those
that are that slow both times keep the least time of the looks. All others are built several times; in every build they
run in interleaved rounds, each round in a new random order. The time of a configuration in a build is the least of its
rounds, and its result is the median over the builds, which are brought to one level before.

Within a build the least counts, because noise adds time, and all configurations have equally many rounds, so none is
luckier than the others by their number. For 307 configurations of a convolution of 5 us on two threads, built three
times, the least times of a configuration differed by 2.0 % between builds (standard deviation), the medians of its
rounds by 3.8 %: some kernels need a third longer in most rounds of one build, but in no build in all rounds. Between
builds the median counts: luck of addresses lasts as long as a build and goes both ways, and the least of all would
belong to the configuration with the luckiest build.
"""

from __future__ import annotations

import math
import platform
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.data.builds import levelled
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say, silent

from .comparison import typical
from .runner import Measurer, compare_batch
from .timing import Options

FEWEST_ROUNDS = 5  # in a build: slow kernels, the only ones with so few, have less noise
COPIES = 3  # of the operands' and the result's memory that an executable takes: packed weights, workspace, padding
FAR = 3.0  # factor on the least time of the quick look; 1.5 is too small: kernels of 5 us were 1.3 to 1.5 times as slow
#            alone as in the rounds
GROUP_BYTES = 2 << 30  # memory of the executables that are compared at a time; more run in several groups
SEED = 0  # of the orders in which executables are built and run
LOOK = Options(samples=3, drop_factors=(FAR,))


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of `compare_all`. The reason of each default is given next to it."""

    builds: int = 3  # the median of three ignores one lucky or unlucky build
    rounds: int = 15  # of a build: the least of 15 interleaved samples is within 3 % even for cache-bound kernels
    seconds: float = 20.0  # of all rounds; slow kernels run in fewer rounds, at least FEWEST_ROUNDS in a build


DEFAULTS = CompareOptions()


@dataclass(frozen=True, slots=True)
class ComparedTimes:
    """The times of all configurations; each holds for whoever proposed the configuration."""

    seconds: Mapping[Configuration, float]  # of every configuration; infinite if it failed in the look or in any build
    builds: Mapping[Configuration, tuple[Measurement, ...]]  # by build, of those that ran in all of them
    looks: Mapping[Configuration, Measurement]  # of the quick look
    failures: Mapping[Configuration, Measurement]  # of those that failed in a build after a correct look

    @property
    def best(self) -> float:
        """The least time; infinite if nothing ran."""
        return min(self.seconds.values(), default=math.inf)

    @property
    def retest(self) -> float | None:
        """The log share that an oracle reaches; see `retest_log_share`."""
        return retest_log_share(_times(self.builds))


def retest_log_share(builds: NDArray[np.float64]) -> float | None:
    """The log share of the best speed that an oracle reaches when its choice is measured again. None if unknown.

    `builds` are seconds, (build, configuration), without NaN. The oracle chooses the configuration whose median over
    all builds but one is least, and gets its share in the build that was left out; the result is the mean over the
    builds. No method can reach more than such a re-test except by luck. Each part has fewer builds than the times by
    which methods are evaluated, so the true ceiling is a little higher.
    """
    if builds.ndim != 2 or len(builds) < 2 or not builds.shape[1]:
        return None
    logs = []
    level = levelled(builds)
    for index, left_out in enumerate(builds):
        chosen = int(np.argmin(np.median(np.delete(level, index, axis=0), axis=0)))
        logs.append(math.log(left_out.min() / left_out[chosen]))
    return float(np.mean(logs))


def compare_all(measurer: Measurer, problem: Problem, configurations: Sequence[Configuration],
                options: CompareOptions = DEFAULTS, renew: Callable[[], None] = lambda: None,
                progress: Say = silent) -> ComparedTimes:
    """Compare all configurations of a problem: look at each alone, then run those that are not far slower in rounds.

    `renew` is called before every build but the first; a Runner's `close` starts a new worker, so that kernels are
    compiled and buffers allocated again.
    """
    distinct = list(dict.fromkeys(configurations))
    looks = dict(measurer.measure(problem, distinct, LOOK))
    for configuration, measurement in measurer.measure(problem, _beyond(looks), LOOK, _best(looks)):
        if measurement.seconds < looks[configuration].seconds:
            looks[configuration] = measurement
    slow = set(_beyond(looks))
    near = [configuration for configuration, measurement in looks.items()
            if measurement.status is Status.CORRECT and configuration not in slow]
    failures: dict[Configuration, Measurement] = {}
    generator = np.random.default_rng(SEED)
    rounds = _rounds(near, looks, options)
    builds: dict[Configuration, list[Measurement]] = {configuration: [] for configuration in near}
    for build in range(options.builds if near else 0):
        progress(f"{problem.brief()}: comparing {len(near)}, build {build + 1} of {options.builds}")
        if build:
            renew()
        for group in _groups(problem, list(builds), generator):
            compared = compare_batch(measurer, problem, group, rounds, LOOK, int(generator.integers(1 << 31)))
            for configuration, measurement in zip(group, compared, strict=True):
                if measurement.status is Status.CORRECT:
                    builds[configuration].append(measurement)
                else:
                    failures[configuration] = measurement
                    del builds[configuration]
    seconds = {configuration: measurement.seconds for configuration, measurement in {**looks, **failures}.items()}
    if builds:
        seconds.update(typical({configuration: [measurement.seconds for measurement in built]
                                for configuration, built in builds.items()}))
    return ComparedTimes({configuration: seconds[configuration] for configuration in distinct},
                   {configuration: tuple(built) for configuration, built in builds.items()}, looks, failures)


def _times(builds: Mapping[Configuration, Sequence[Measurement]]) -> NDArray[np.float64]:
    """The seconds of builds, (build, configuration)."""
    return np.array([[measurement.seconds for measurement in built] for built in builds.values()], float).T


def store_compared_times(journal: Journal, problem: Problem, device: Device, versions: Mapping[str, int],
                         compared: ComparedTimes) -> None:
    """Add compared times to a journal: the looks as trials, unless there are trials already, the builds as one session.

    A build of a configuration is a record. A configuration that failed in a build gets one record, of the failure.
    `versions` maps the names of the kernels to their versions.
    """
    session, when, host = uuid.uuid4().hex, time.time(), platform.node()
    failures = {configuration: (measurement,) for configuration, measurement in compared.failures.items()}
    runs: dict[str, Mapping[Configuration, tuple[Measurement, ...]]] = {
        "look": {configuration: (look,) for configuration, look in compared.looks.items()},
        "contest": {**compared.builds, **failures}}
    for run, measured in runs.items():
        for configuration, measurements in measured.items():
            for measurement in measurements:
                journal.add(Record(problem, device.key, versions[configuration.kernel], configuration,
                                   device.toolchain, measurement, when, run, host, device.fingerprint, session))


def _best(measurements: Mapping[Configuration, Measurement]) -> float:
    return min((measurement.seconds for measurement in measurements.values()), default=math.inf)


def _beyond(measurements: Mapping[Configuration, Measurement]) -> list[Configuration]:
    """The configurations that ran, and took more than FAR times the least time."""
    limit = FAR * _best(measurements)
    return [configuration for configuration, measurement in measurements.items()
            if limit < measurement.seconds < math.inf]


def _rounds(near: Sequence[Configuration], measurements: Mapping[Configuration, Measurement],
            options: CompareOptions) -> int:
    """The number of rounds of a build that fits the seconds of the options."""
    once = sum(max(1.5 * LOOK.sample_seconds, measurements[configuration].seconds) for configuration in near)
    return max(FEWEST_ROUNDS, min(options.rounds, int(options.seconds / options.builds / max(once, 1e-9))))


def _groups(problem: Problem, configurations: Sequence[Configuration],
            generator: np.random.Generator) -> list[list[Configuration]]:
    """Split configurations at random into as few groups of about equal size as the memory allows, mostly one."""
    work = operation(problem.type)
    shapes = [*work.operands(problem).values(), *([work.output(problem)] if work.has_output else [])]
    each = max(1, COPIES * 4 * sum(math.prod(shape) for shape in shapes))  # a command may declare no tensor at all
    count = math.ceil(len(configurations) / max(2, GROUP_BYTES // each))
    order = generator.permutation(len(configurations))
    return [[configurations[index] for index in part] for part in np.array_split(order, count)]
