"""Measuring one executable: first the check against the reference on poisoned output, then the timing samples.

A sample loops launches until it has lasted `sample_seconds` and is divided by their number; every sample is kept, and
the least one counts (on a shared machine noise only ever adds). This runs in the worker process, or in the user's own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.errors import one_line
from seqtune.kernels.implementation import Array
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem

from ..backends.backend import Executable, LaunchError
from .reference import make_operands, reference


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure; each default with its reason."""

    samples: int = 10  # the least of 5 is right within 3 % for kernels in the second-level cache, of 10 in the third
    sample_seconds: float = 200e-6  # far above the clock's and the call's own cost, below a scheduler's time slice
    drop_factors: tuple[float, ...] = (8.0, 3.0, 1.3)  # after 1, 2, 3 ... samples: dropped where the least one is
    #                                                    slower than the best so far by this; the last one stays
    second_look: float = 2e-3  # seconds to wait before a drop is decided by one more sample: the first ones may have
    #                            met another process's time slice, which makes a good kernel look hopeless
    longest_seconds: float = 2.0  # of sampling one configuration; a slower kernel gets fewer samples
    build_seconds: float = 15.0  # then the worker is killed; LLVM takes 20 ms, PoCL a second
    run_seconds: float = 10.0  # then the worker is killed; plus three launches at 1 GFLOP/s
    seed: int = 0  # of the operands
    order_seed: int = 0  # of the order within each round of a comparison

    def to_json(self) -> dict[str, object]:
        """A flat JSON object; for messages between our own processes."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, object]) -> Options:
        """The inverse of `to_json`."""
        factors = found["drop_factors"]
        assert isinstance(factors, list)
        return cls(**{**found, "drop_factors": tuple(factors)})  # type: ignore[arg-type]


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Expected:
    """The reference answer of one problem, in fp32 (rounding is far below any tolerance), and room to compare in."""

    y: Array
    scale: float  # max|reference|
    tolerance: float
    scratch: Array

    def error(self, output: Array) -> float:
        """max|difference| / max|reference|; NaN where the output holds one."""
        if output.shape != self.y.shape:
            return math.nan
        np.subtract(output, self.y, out=self.scratch)
        high, low = float(self.scratch.max()), float(self.scratch.min())
        return math.nan if math.isnan(high) or math.isnan(low) else max(high, -low) / self.scale


def prepare(problem: Problem, seed: int = 0) -> tuple[Operands, Expected]:
    """Operands and the expected answer; made once per problem. Read-only, so that backends can keep packed copies."""
    operands = make_operands(problem, seed)
    for array in operands.values():
        array.setflags(write=False)
    y = np.ascontiguousarray(reference(problem, operands), dtype=np.float32)
    tolerance = dict(problem).get("tolerance")
    return operands, Expected(y, float(np.abs(y).max()) or 1.0,
                              tolerance if isinstance(tolerance, float) else 1e-4, np.empty_like(y))


def check(executable: Executable, operands: Operands, expected: Expected) -> tuple[Measurement, float]:
    """Loads, poisons, runs once and compares: a measurement without samples, and the seconds of that first launch."""
    build = executable.build_seconds
    executable.load(operands)
    executable.poison()
    start = time.perf_counter()
    executable.run()
    first = time.perf_counter() - start
    overrun = executable.overrun()
    if overrun is not None:
        return Measurement(Status.CORRECTNESS, (), None, build, f"wrote outside its buffer: {overrun}",
                           damaged=True), first
    error = expected.error(executable.output())
    if math.isnan(error):
        return Measurement(Status.CORRECTNESS, (), None, build, "NaN in the output, or part of it never written"), first
    if error > expected.tolerance:
        message = f"wrong result: error {error:.2e}, allowed {expected.tolerance:.0e}"
        return Measurement(Status.CORRECTNESS, (), error, build, message), first
    return Measurement(Status.CORRECT, (), error, build), first


def sample(run: Callable[[], None], least_seconds: float, calls: int) -> tuple[float, int]:
    """Seconds of one launch over at least `least_seconds`, and the number of launches to begin the next sample with."""
    done = 0
    start = time.perf_counter()
    while True:
        for _ in range(calls):
            run()
        done += calls
        elapsed = time.perf_counter() - start
        if elapsed >= least_seconds:
            one = elapsed / done
            return one, max(1, math.ceil(least_seconds / one))
        calls = max(1, math.ceil((least_seconds - elapsed) * done / max(elapsed, 1e-9)))
        calls = min(calls, 1_000_000)


def check_and_time(executable: Executable, operands: Operands, expected: Expected, options: Options,
                   best: float = math.inf) -> Measurement:
    """The measurement of one configuration; `best` is the least time so far, by which hopeless ones are dropped."""
    try:
        checked, first = check(executable, operands, expected)
        if checked.status is not Status.CORRECT:
            return checked
        calls = max(1, math.ceil(options.sample_seconds / max(first, 1e-7)))
        samples: list[float] = []
        least, spent, looked_again = math.inf, 0.0, False
        while len(samples) < options.samples and (not samples or spent < options.longest_seconds or looked_again):
            start = time.perf_counter()
            one, calls = sample(executable.run, options.sample_seconds, calls)
            spent += time.perf_counter() - start
            samples.append(one)
            least = min(least, one)
            hopeless = least > best * options.drop_factors[min(len(samples), len(options.drop_factors)) - 1]
            if hopeless and looked_again:
                break
            looked_again = hopeless
            if hopeless:
                time.sleep(options.second_look)
    except LaunchError as error:
        return Measurement(Status.RUNTIME, (), None, executable.build_seconds, one_line(error))
    return Measurement(Status.CORRECT, tuple(samples), checked.error, executable.build_seconds)


def interleaved(executables: Sequence[Executable | None], operands: Operands, expected: Expected, rounds: int,
                options: Options, at: Callable[[int], None] = lambda place: None) -> list[Measurement | None]:
    """Finalists: each checked again, then `rounds` rounds of one sample each, so that drift meets all alike.

    Each round has a random order of its own, drawn from `options.order_seed`: in a fixed or rotated one,
    everybody would always follow the same predecessor, and meet the caches and the clock that this one leaves. A launch
    before each sample brings back what the others drove out of the caches, so that these times can be compared with
    those of `check_and_time`. `at` is told which executable runs next. None stays None.
    """
    found: list[Measurement | None] = []
    calls = [1] * len(executables)
    for place, executable in enumerate(executables):
        if executable is None:
            found.append(None)
            continue
        at(place)
        try:
            checked, first = check(executable, operands, expected)
            calls[place] = max(1, math.ceil(options.sample_seconds / max(first, 1e-7)))
        except LaunchError as error:
            checked = Measurement(Status.RUNTIME, (), None, executable.build_seconds, one_line(error))
        found.append(checked)
    samples: list[list[float]] = [[] for _ in executables]
    generator = np.random.default_rng(options.order_seed)
    for _ in range(rounds):
        for place in generator.permutation(len(executables)).tolist():
            executable, checked_here = executables[place], found[place]
            if executable is None or checked_here is None or checked_here.status is not Status.CORRECT:
                continue
            at(place)
            try:
                executable.run()
                one, calls[place] = sample(executable.run, options.sample_seconds, calls[place])
                samples[place].append(one)
            except LaunchError as error:
                found[place] = Measurement(Status.RUNTIME, (), None, executable.build_seconds, one_line(error))
    return [
        Measurement(Status.CORRECT, tuple(samples[place]), checked.error, checked.build_seconds)
        if checked is not None and checked.status is Status.CORRECT else checked
        for place, checked in enumerate(found)
    ]
