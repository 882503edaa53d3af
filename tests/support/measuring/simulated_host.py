"""SimulatedHost: a machine whose rate halves in random stretches. Only work and sleep move its clock.

Kernels are simulated by their recorded times, which hold at the full rate. Everything else is the product's own code:
the pace with its patience, the timing, the searches and the verification. So one sees within seconds how long they
would take on such a host, and what they would answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage
from seqtune.tuner.backends.backend import Executable, OutputCheck
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from seqtune.tuner.measuring.pace import Pace
from seqtune.tuner.measuring.timing import Options, check_and_compare, check_and_time
from seqtune.tuner.measuring.waiting import Waiting

SHORTEST, LONGEST = 0.5, 20.0  # seconds of a stretch
SLOW = 0.5  # rate of a slow stretch: two threads on one core
NOISE = 0.01  # standard deviation of the log of a launch's time
START, BUILD, PREPARE = 0.6, 0.03, 0.1  # seconds of quiet work: to start a worker, for a build, for the operands


class Killed(Exception):
    """The process that worked was killed."""


class SimulatedHost:
    """The clock of a host that is quick and slow in turn, each for a random time; a `steady` one stays quick."""

    expected = 20e-6  # seconds of the reference work at the full rate

    def __init__(self, seed: int, steady: bool = False) -> None:
        self.now = 0.0
        self.slept = 0.0
        self.end = math.inf  # when the process that works is killed
        self._generator = np.random.default_rng(seed)
        self._rate, self._until = (1.0, math.inf) if steady else (1.0, self._stretch())
        if not steady and self._generator.random() < 0.5:
            self._rate = SLOW

    def _stretch(self) -> float:
        return float(self._generator.uniform(SHORTEST, LONGEST))

    def _pass_on(self) -> None:
        """Begin the next stretch."""
        self.now = self._until
        self._until += self._stretch()
        self._rate = 1.0 if self._rate == SLOW else SLOW

    def clock(self) -> float:
        """The seconds since the beginning."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass without work."""
        end = self.now + seconds
        while end >= self._until:
            self._pass_on()
        self.now = end
        self.slept += seconds

    def work(self, seconds: float) -> float:
        """Do work that takes `seconds` at the full rate; return the seconds that it takes here. Raises Killed."""
        began = self.now
        while min(self.now + seconds / self._rate, self.end) >= self._until:
            seconds -= (self._until - self.now) * self._rate
            self._pass_on()
        self.now += seconds / self._rate
        if self.now > self.end:
            self.now = self.end
            raise Killed
        return self.now - began

    def launch(self, seconds: float) -> float:
        """Launch a kernel that takes `seconds` at the full rate; return its time here, with noise."""
        return self.work(seconds * math.exp(self._generator.normal(0.0, NOISE)))

    def seconds(self) -> float:
        """Do the reference work, and return its time."""
        return self.work(self.expected)

    def pace(self) -> Pace:
        """The pace of a process on this host."""
        return Pace(self, self.clock, self.sleep, NoWaiting)


class NoWaiting(Waiting):
    """No thread waits for a CPU on the simulated host."""

    def __init__(self) -> None:
        self._files = []


class SimulatedExecutable:
    """A kernel of a known time, always correct."""

    resources: ResourceUsage | None = None

    def __init__(self, host: SimulatedHost, truth: float) -> None:
        self.host, self.truth = host, truth
        self.build_seconds = host.work(BUILD)

    def load(self, operands: Operands) -> None:
        """Take nothing."""

    def poison(self) -> None:
        """Poison nothing."""

    def run(self) -> None:
        """Launch once."""
        self.host.launch(self.truth)

    def time(self, launches: int) -> float:
        """Launch so many times, all with the same noise; return the seconds of all."""
        return self.host.launch(launches * self.truth)

    def outputs(self) -> dict[str, Array]:
        """Write nothing."""
        return {}

    def overrun(self) -> str | None:
        """Write nothing outside a buffer."""
        return None

    def close(self) -> None:
        """Free nothing."""


class AlwaysRight:
    """An expectation that every kernel meets."""

    def check(self, executable: Executable) -> OutputCheck:
        """Check nothing."""
        return OutputCheck(0.0)


class SimulatedMeasurer:
    """A Measurer on a simulated host. `time_of` returns the seconds at the full rate, infinite for a failure.

    The first request starts the worker, and one for another problem prepares its operands first. Soon after
    the end of a request's budget the worker is killed, so the next request starts a new one.
    """

    def __init__(self, host: SimulatedHost, device: Device,
                 time_of: Callable[[Problem, Configuration], float]) -> None:
        self.host, self.device, self.time_of = host, device, time_of
        self.pace = host.pace()
        self._problem: Problem | None = None
        self._is_alive = False

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Measure each configuration, by the product's own timing, until the budget ends."""
        with suppress(Killed), self._worker(problem, options):
            for configuration in configurations:
                if self.pace.is_over:
                    return
                truth = self.time_of(problem, configuration)
                if math.isinf(truth):
                    self.host.work(BUILD)
                    measurement = Measurement(Status.COMPILE)
                else:
                    executable = SimulatedExecutable(self.host, truth)
                    measurement = check_and_time(executable, {}, AlwaysRight(), options, best, self.pace)
                best = min(best, measurement.seconds)
                yield configuration, measurement

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """Compare configurations by the product's own rounds, until the budget ends."""
        truths = [self.time_of(problem, configuration) for configuration in configurations]
        try:
            with self._worker(problem, options):
                executables = [SimulatedExecutable(self.host, truth) if math.isfinite(truth) else None
                               for truth in truths]
                timed = check_and_compare(executables, {}, AlwaysRight(), rounds, options, pace=self.pace)
        except Killed:
            raise OutOfTime("killed at the end of the budget") from None
        if any(measurement is not None and not measurement.samples for measurement in timed):
            raise OutOfTime("no round within the budget")
        return [Measurement(Status.COMPILE) if measurement is None else measurement for measurement in timed]

    @contextmanager
    def _worker(self, problem: Problem, options: Options) -> Iterator[None]:
        """A worker that has prepared the problem, for the time of one request. Raises Killed."""
        deadline = Deadline(options.budget, self.host.clock)
        self.host.end = self.host.now + deadline.left + deadline.grace
        try:
            if not self._is_alive:
                self.host.work(START)
                self._is_alive = True
            if problem != self._problem:
                self.host.work(PREPARE)
                self._problem = problem
            self.pace.begin(min(deadline.left, options.planned - deadline.elapsed))
            yield
        except Killed:
            self._is_alive, self._problem = False, None
            raise
        finally:
            self.host.end = math.inf
