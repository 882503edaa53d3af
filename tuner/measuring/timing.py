"""Timing of executables: first the check against the reference, on poisoned output, then the timing samples.

A sample repeats launches for at least `sample_seconds` and is the mean time of one launch. Where an executable restores
what its launches change (`Restoring`), a sample is one launch. A sample in which threads of this process waited for a
CPU is taken again (see `Sampler`), as far as the pace's patience reaches. The least of the samples counts, because
noise on a shared machine only adds time. No sample begins after the end of the request, which the pace knows. This runs
in the worker, or in the user's process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.record import Measurement, Status
from seqtune.errors import one_line
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem

from ..backends.backend import Executable, LaunchError, OutputCheck, Restoring, SelfChecked, TimeLimit
from .comparison import sample_in_rounds
from .expected_outputs import Expectation
from .pace import Pace
from .reference import make_operands, reference
from .waiting import Waiting

WAITED = 0.1  # share of a sample that threads wait; on two cores all samples of twice the time have more, others none
LONG = 2e-3  # seconds; before each sample of a shorter kernel, a launch wakes the threads: on a virtual machine it can
#              take 0.2 ms, which is a whole sample
NEAR = 1.15  # factor on the least sample so far; a faster sample was not harmed, although threads waited
SECOND_LOOK = 2e-3  # seconds to wait before one more sample decides about a drop: another process may have run during
#                     the first samples, which makes a good kernel look slow


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a measurement. The reason of each default is given next to it."""

    samples: int = 10  # the least of 5 is within 3 % of the truth for kernels in the L2 cache; in L3 it takes 10
    sample_seconds: float = 200e-6  # far more than the clock and the call cost, less than a scheduler's time slice
    drop_factors: tuple[float, ...] = (8.0, 3.0, 1.3)  # after 1, 2, 3 ... samples: a configuration is dropped if its
    #                    least sample is slower than the best so far by this factor; the last factor holds for the rest
    longest_seconds: float = 2.0  # seconds of sampling per configuration; a slower kernel gets fewer samples
    build_seconds: float = 15.0  # then the worker is killed; LLVM takes 20 ms, PoCL 1 s
    run_seconds: float = 10.0  # then the worker is killed; three launches at 1 GFLOP/s are added
    patience: float = math.inf  # upper limit of the worker's time limits, whatever the size of the problem
    budget: float = math.inf  # seconds of one request to a measurer, with the start of the worker, which is killed then
    planned: float = math.inf  # seconds of a request after which no sample begins; a launch may last until the budget
    fewest_rounds: int = 1  # rounds of a comparison that are held even after the planned seconds, within the budget
    order_seed: int = 0  # seed of the order within each round of a comparison

    def to_json(self) -> dict[str, object]:
        """A flat JSON object, for messages between a runner and its worker."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, object]) -> Options:
        """The inverse of `to_json`."""
        factors = fields["drop_factors"]
        assert isinstance(factors, list)
        return cls(**{**fields, "drop_factors": tuple(factors)})  # type: ignore[arg-type]


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Expected:
    """The reference result of a problem, in the type that outputs have on the host, with memory for the comparison.

    For most types this is float32, whose rounding is far below any tolerance.
    """

    y: NDArray[Any]
    scale: float  # max|reference|
    tolerance: float
    scratch: NDArray[Any]  # of the shape of y, overwritten by `error`

    def check(self, executable: Executable) -> OutputCheck:
        """Compare the output of a run on poisoned output."""
        y, = executable.outputs().values()
        error = self.error(y)
        if math.isnan(error):
            return OutputCheck(None, "NaN in the output, or part of it never written, or an input read outside")
        wrong = f"wrong result: error {error:.2e}, allowed {self.tolerance:.0e}"
        return OutputCheck(error, wrong if error > self.tolerance else "")

    def error(self, output: NDArray[Any]) -> float:
        """The error max|output - reference| / max|reference|; NaN if the output has one, or another shape."""
        if output.shape != self.y.shape:
            return math.nan
        np.subtract(output, self.y, out=self.scratch)
        high, low = float(self.scratch.max()), float(self.scratch.min())
        return math.nan if math.isnan(high) or math.isnan(low) else max(high, -low) / self.scale


def allowed_error(problem: Problem) -> float:
    """The largest error max|output - reference| / max|reference| of a right output of a built-in operation.

    It is the problem's tolerance and the rounding of its element type, in which the output is stored. Results of whole
    numbers must be exact.
    """
    tolerance, element = dict(problem).get("tolerance"), problem.element
    return (tolerance if isinstance(tolerance, float) else 1e-4) + element.rounding if element.is_float else 0.0


def prepare(problem: Problem, seed: int = 0) -> tuple[Operands, Expected]:
    """Make the operands, read-only so that backends can keep packed copies, and the expected result."""
    operands = make_operands(problem, seed)
    for array in operands.values():
        array.setflags(write=False)
    element = problem.element
    y = np.ascontiguousarray(reference(problem, operands).astype(element.result.host))
    scratch = np.empty(y.shape, y.dtype if element.is_float else np.float64)
    scale = float(np.abs(y.astype(scratch.dtype, copy=False)).max()) or 1.0
    return operands, Expected(y, scale, allowed_error(problem), scratch)


def measured(executable: Executable, status: Status, samples: tuple[float, ...] = (), error: float | None = None,
             message: str = "", damaged: bool = False) -> Measurement:
    """The measurement of an executable, with the seconds of its build and its resources."""
    return Measurement(status, samples, error, executable.build_seconds, message, damaged, executable.resources)


def _refused(executable: Executable, error: LaunchError) -> Measurement:
    status = Status.TIMEOUT if isinstance(error, TimeLimit) else Status.RUNTIME
    return measured(executable, status, message=one_line(error))


def check(executable: Executable, operands: Operands, expected: Expectation,
          clock: Callable[[], float] = time.perf_counter) -> tuple[Measurement, float]:
    """Load, poison, run once and compare. Returns a measurement without samples and the seconds of that launch.

    Raises LaunchError.
    """
    executable.load(operands)
    executable.poison()
    start = clock()
    executable.run()
    first = clock() - start
    overrun = executable.overrun()
    if overrun is not None:
        return measured(executable, Status.CORRECTNESS, message=f"wrote outside its buffer: {overrun}",
                        damaged=True), first
    error, message = executable.output_check() if isinstance(executable, SelfChecked) else expected.check(executable)
    return measured(executable, Status.CORRECTNESS if message else Status.CORRECT, error=error, message=message), first


def _least_seconds(executable: Executable, options: Options) -> float:
    """The least seconds of a sample after the check: 0, which one launch reaches, where something is restored.

    Raises LaunchError.
    """
    return 0.0 if isinstance(executable, Restoring) and executable.restored() else options.sample_seconds


def sample(timed: Callable[[int], float], least_seconds: float, calls: int) -> tuple[float, int]:
    """Launch for at least `least_seconds`. Returns the seconds of one launch and the `calls` for the next sample.

    `timed` launches so many times and returns the seconds of all (`Executable.time`).
    """
    launches, elapsed = 0, 0.0
    while True:
        elapsed += timed(calls)
        launches += calls
        if elapsed >= least_seconds:
            seconds = elapsed / launches
            return seconds, max(1, math.ceil(least_seconds / seconds))
        calls = max(1, math.ceil((least_seconds - elapsed) * launches / max(elapsed, 1e-9)))
        calls = min(calls, 1_000_000)


class Sampler:
    """Takes samples of one executable. A disturbed sample is taken again, and the least of its repetitions counts.

    A sample is disturbed if threads waited for more than WAITED of it, unless it is still near the least one. The
    second condition is for runtimes whose threads sleep and wake with every launch, which also counts as waiting.
    The pace's patience pays for the time of a sample that is thrown away.
    """

    def __init__(self, timed: Callable[[int], float], least_seconds: float, first: float, repeats: int,
                 pace: Pace) -> None:
        """Plan samples of at least `least_seconds` of launches that take about `first` seconds.

        At most `repeats` samples are taken again. `timed` is `Executable.time`.
        """
        self.disturbed = 0  # samples that stayed disturbed
        self._pace = pace
        self._timed, self._least_seconds, self._repeats = timed, least_seconds, repeats
        self._calls = max(1, math.ceil(least_seconds / max(first, 1e-7)))
        self._wakes = first < LONG
        self._least: float | None = None

    def take(self, waiting: Waiting) -> float:
        """The seconds of one launch, by a sample during which `waiting` is read. Raises LaunchError."""
        began = self._pace.clock()
        seconds, harmed = self._once(waiting)
        while harmed and (self._least is None or seconds > NEAR * self._least):
            took = self._pace.clock() - began
            if not self._repeats or not self._pace.affords(took):
                self.disturbed += 1
                break
            self._repeats -= 1
            self._pace.patience.spend(took)
            began = self._pace.clock()
            again, again_harmed = self._once(waiting)
            alike = max(seconds, again) <= NEAR * min(seconds, again)
            if again < seconds:
                seconds, harmed = again, again_harmed
            if alike and self._least is None:  # waiting is part of every launch
                break
        self._least = seconds if self._least is None else min(self._least, seconds)
        return seconds

    def _once(self, waiting: Waiting) -> tuple[float, bool]:
        """The seconds of one launch, and whether threads waited for long."""
        if self._wakes:
            self._timed(1)
        waited, start = waiting.seconds(), self._pace.clock()
        seconds, self._calls = sample(self._timed, self._least_seconds, self._calls)
        return seconds, waiting.seconds() - waited > WAITED * (self._pace.clock() - start)


def check_and_time(executable: Executable, operands: Operands, expected: Expectation, options: Options,
                   best: float = math.inf, pace: Pace | None = None) -> Measurement:
    """Check and time an executable. `best` is the least time so far, in seconds; much slower ones are dropped early.

    If the CPU was slow during the samples, all of them are taken again, once, as far as the pace's patience pays for
    it. If it is slow again, they count as disturbed. `pace` is that of this process (None: no CPU is slow).
    """
    pace = Pace() if pace is None else pace
    try:
        checked, first = check(executable, operands, expected, pace.clock)
        if checked.status is not Status.CORRECT:
            return checked
        for again in (False, True):
            steady = pace.wait_while_slow()
            began = pace.clock()
            sampler = Sampler(executable.time, _least_seconds(executable, options), first, options.samples, pace)
            with pace.waiting() as waiting:
                samples = _samples(partial(sampler.take, waiting), options, best, pace)
            took = pace.clock() - began
            steady = steady and not pace.is_slow()
            if steady or again or not pace.affords(took):
                break
            pace.patience.spend(took)
    except LaunchError as error:
        return _refused(executable, error)
    return replace(measured(executable, Status.CORRECT, samples, checked.error),
                   disturbed=sampler.disturbed if steady else len(samples))


def _samples(take: Callable[[], float], options: Options, best: float, pace: Pace) -> tuple[float, ...]:
    """The samples of one executable; fewer than the options ask for if it is slow or hopeless, or the request ends."""
    samples: list[float] = []
    least, spent, looked_again = math.inf, 0.0, False
    while not samples or (len(samples) < options.samples and not pace.is_over
                          and (spent < options.longest_seconds or looked_again)):
        start = pace.clock()
        samples.append(take())
        spent += pace.clock() - start
        least = min(least, samples[-1])
        hopeless = least > best * options.drop_factors[min(len(samples), len(options.drop_factors)) - 1]
        if hopeless and looked_again:
            break
        looked_again = hopeless
        if hopeless:
            pace.sleep(SECOND_LOOK)
    return tuple(samples)


def check_and_compare(executables: Sequence[Executable | None], operands: Operands, expected: Expectation, rounds: int,
                      options: Options, at: Callable[[int], None] = lambda index: None,
                      pace: Pace | None = None) -> list[Measurement | None]:
    """Check each executable, then time all in `rounds` rounds of one sample each (see `comparison.sample_in_rounds`).

    The orders of the rounds are drawn from `options.order_seed`. A launch before each sample refills the caches, so
    that these times can be compared with those of `check_and_time`. `at` is called with the index of the executable
    that runs next. `None` entries (failed builds) are passed through. Each sample waits while the CPU is slow, as far
    as the pace's patience reaches, and counts as disturbed if the CPU stays slow. At the planned end of the request the
    rounds end; each executable then has a sample of every whole round.
    """
    pace = Pace() if pace is None else pace
    measurements: list[Measurement | None] = []
    samplers: dict[int, Sampler] = {}
    for index, executable in enumerate(executables):
        if executable is None:
            measurements.append(None)
            continue
        at(index)
        try:
            checked, first = check(executable, operands, expected, pace.clock)
            samplers[index] = Sampler(executable.time, _least_seconds(executable, options), first, rounds, pace)
        except LaunchError as error:
            checked = _refused(executable, error)
        measurements.append(checked)

    disturbed = [0 for _ in executables]  # samples of a slow CPU

    def take(index: int) -> float | None:
        executable, measurement = executables[index], measurements[index]
        if executable is None or measurement is None or measurement.status is not Status.CORRECT:
            return None
        at(index)
        try:
            disturbed[index] += not pace.wait_while_slow()
            executable.run()
            return samplers[index].take(waiting)
        except LaunchError as error:
            measurements[index] = _refused(executable, error)
            return None

    with pace.waiting() as waiting:
        samples = sample_in_rounds(take, len(executables), rounds, options.order_seed,
                                   lambda whole: whole < options.fewest_rounds or not pace.is_over)
    return [
        replace(checked, samples=samples[index],
                disturbed=min(len(samples[index]), samplers[index].disturbed + disturbed[index]))
        if checked is not None and checked.status is Status.CORRECT else checked
        for index, checked in enumerate(measurements)
    ]
