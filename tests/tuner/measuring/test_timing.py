"""Timing: the check comes first and detects every wrong element; every sample is kept."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.record import Measurement, Status
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage
from seqtune.tuner.backends.backend import LaunchError, wall_clock
from seqtune.tuner.measuring.pace import Pace
from seqtune.tuner.measuring.timing import LONG, Options, Sampler, check_and_compare, check_and_time, prepare, sample

PROBLEM = Problem.make("gemm", m=6, n=5, k=4, tolerance=1e-3)


class Fake:
    """Adds `slip` to one element; refuses the launch numbered `fail`."""

    build_seconds = 0.5
    resources: ResourceUsage | None = None

    def __init__(self, slip: float = 0.0, fail: int = -1, log: list[str] | None = None, name: str = "") -> None:
        self.slip, self.fail, self.name = slip, fail, name
        self.log = log if log is not None else []
        self.launches = 0

    def load(self, operands: Operands) -> None:
        self.y = operands["x"] @ operands["weights"]
        self.y[0, 0] += self.slip
        self.out = np.zeros_like(self.y)

    def poison(self) -> None:
        self.out[:] = np.nan

    def run(self) -> None:
        self.launches += 1
        self.log.append(self.name)
        if self.launches == self.fail:
            raise LaunchError("refused")
        self.out[:] = self.y

    def time(self, launches: int) -> float:
        return wall_clock(self.run, launches)

    def outputs(self) -> dict[str, Array]:
        return {"y": np.asarray(self.out)}

    def overrun(self) -> str | None:
        return None

    def close(self) -> None:
        pass


def time_fake(fake: Fake, best: float = math.inf, **options: int | float) -> Measurement:
    operands, expected = prepare(PROBLEM)
    return check_and_time(fake, operands, expected, Options(**options), best)  # type: ignore[arg-type]


class Restoring(Fake):
    """Restores a buffer before each launch after the check's."""

    def restored(self) -> tuple[str, ...]:
        return ("y",)


def test_a_sample_is_one_launch_where_something_is_restored() -> None:
    fakes = [Restoring(), Fake()]
    assert len(time_fake(fakes[0], samples=4).samples) == 4
    assert fakes[0].launches == 1 + 4 * 2  # the check; a launch that wakes and one that is timed
    time_fake(fakes[1], samples=4)
    assert fakes[1].launches > 50
    fakes = [Restoring(), Fake()]
    operands, expected = prepare(PROBLEM)
    check_and_compare(fakes, operands, expected, 4, Options())
    assert fakes[0].launches == 1 + 4 * 3  # a launch before each sample refills the caches
    assert fakes[1].launches > 50


def test_the_error_is_relative_to_the_largest_reference() -> None:
    operands, expected = prepare(PROBLEM)
    largest = np.abs(operands["x"].astype(np.float64) @ operands["weights"]).max()
    measurement = time_fake(Fake(slip=1e-4))
    assert measurement.error == pytest.approx(1e-4 / largest, rel=0.02)
    assert measurement.status is Status.CORRECT
    assert expected.scale == pytest.approx(largest, rel=1e-6)


@pytest.mark.parametrize("slip", [0.1, -0.1, math.inf, -math.inf, math.nan])
def test_a_wrong_element_is_detected_whatever_its_sign(slip: float) -> None:
    fake = Fake(slip=slip)
    measurement = time_fake(fake)
    assert measurement.status is Status.CORRECTNESS
    assert fake.launches == 1  # never timed
    assert measurement.seconds == math.inf


@pytest.mark.parametrize("fail", [1, 2])
def test_a_refused_launch_is_a_runtime_failure(fail: int) -> None:
    measurement = time_fake(Fake(fail=fail))
    assert measurement.status is Status.RUNTIME
    assert measurement.message == "refused"
    assert measurement.build_seconds == 0.5


def test_every_sample_is_kept() -> None:
    assert len(time_fake(Fake(), samples=7).samples) == 7


def test_a_slow_kernel_gets_fewer_samples_but_at_least_one() -> None:
    assert len(time_fake(Fake(), samples=7, longest_seconds=0.0).samples) == 1


def test_a_sample_loops_until_it_is_long_enough() -> None:
    launches = []
    timed = partial(wall_clock, lambda: launches.append(1))
    seconds, calls = sample(timed, 2e-3, 1)
    assert len(launches) * seconds >= 2e-3
    assert calls >= 100  # an append takes far below 20 us
    _, again = sample(timed, 2e-3, calls)
    assert again >= 100


def test_finalists_take_turns() -> None:
    log: list[str] = []
    fakes = [Fake(log=log, name=name) for name in "abc"]
    wrong = Fake(slip=1.0, log=log, name="w")
    operands, expected = prepare(PROBLEM)
    indices: list[int] = []
    measurements = check_and_compare([*fakes, wrong, None], operands, expected, 3, Options(), indices.append)
    assert [measurement.status if measurement else None for measurement in measurements] == [
        Status.CORRECT, Status.CORRECT, Status.CORRECT, Status.CORRECTNESS, None]
    assert [len(measurement.samples) for measurement in measurements if measurement] == [3, 3, 3, 0]
    assert indices[:4] == [0, 1, 2, 3]  # the checks
    assert [sorted(indices[begin:begin + 3]) for begin in (4, 7, 10)] == [[0, 1, 2]] * 3
    assert log.count("w") == 1


def test_every_finalist_follows_every_other_one_in_some_round() -> None:
    """A fixed or rotated order would confound a finalist with what its predecessor leaves in the caches."""
    operands, expected = prepare(PROBLEM)
    orders = []
    for seed in (0, 0, 1):
        indices: list[int] = []
        check_and_compare([Fake() for _ in range(4)], operands, expected, 24, Options(order_seed=seed), indices.append)
        orders.append(indices[4:])
    rounds = np.array(orders[0]).reshape(24, 4)
    assert {(int(former), int(latter)) for row in rounds for former, latter in pairwise(row)} == {
        (former, latter) for former in range(4) for latter in range(4) if former != latter}
    assert orders[0] == orders[1] != orders[2]


class Slow(Fake):
    """Sleeps 50 ms in launches number `first` to `last`."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__()
        self.first, self.last = first, last

    def run(self) -> None:
        super().run()
        if self.first <= self.launches <= self.last:
            time.sleep(0.05)


def test_one_disturbed_sample_does_not_drop_a_good_candidate() -> None:
    measurement = time_fake(Slow(first=1, last=2), best=2e-3, samples=5)
    assert len(measurement.samples) == 5
    assert measurement.samples[0] > 0.05  # the disturbed sample is kept
    assert measurement.seconds < 2e-3


def test_a_hopeless_candidate_is_dropped_at_the_second_look() -> None:
    measurement = time_fake(Slow(first=1, last=1000), best=1e-4, samples=5)
    assert len(measurement.samples) == 2


def patient() -> Pace:
    """A pace whose patience pays for every repetition here."""
    times = iter([0.0, 100.0])
    return Pace(clock=lambda: next(times, 100.0))


class Interrupted:
    """Launches take a millisecond; those of the samples in `slow` take ten, and threads wait meanwhile."""

    def __init__(self, slow: set[int], always: float = 0.0) -> None:
        self.slow, self.always, self.samples, self.waited = slow, always, 0, 0.0

    def time(self, launches: int) -> float:
        slow = self.samples in self.slow
        self.samples += 1
        self.waited += 1e3 if slow else self.always  # far more than the sample takes here
        return launches * (1e-2 if slow else 1e-3)

    def seconds(self) -> float:
        return self.waited

    def take(self, number: int, repeats: int, pace: Pace | None = None) -> tuple[list[float], int]:
        pace = patient() if pace is None else pace
        sampler = Sampler(self.time, 1e-4, LONG, repeats, pace)  # so long that no launch wakes threads before a sample
        samples = [sampler.take(self) for _ in range(number)]  # type: ignore[arg-type]
        return samples, sampler.disturbed


def test_a_sample_during_which_a_thread_waited_is_taken_again() -> None:
    for slow in ({0}, {2}, {1, 2, 5}):
        assert Interrupted(slow).take(5, repeats=5) == ([1e-3] * 5, 0)


def test_without_patience_no_sample_is_taken_again() -> None:
    now = count(step=1e-3)
    assert Interrupted({0, 2}).take(4, repeats=4, pace=Pace(clock=lambda: next(now))) == (
        [1e-2, 1e-3, 1e-2, 1e-3], 2)


def test_samples_that_stay_disturbed_are_counted_and_kept() -> None:
    interrupted = Interrupted(set(range(1, 20)))
    assert interrupted.take(4, repeats=3) == ([1e-3, 1e-2, 1e-2, 1e-2], 3)
    assert interrupted.samples == 7, "the repetitions are bounded"


def test_waiting_that_does_no_harm_is_no_disturbance() -> None:
    """The threads of some runtimes sleep and wake with every launch."""
    interrupted = Interrupted(set(), always=1e3)
    assert interrupted.take(6, repeats=2) == ([1e-3] * 6, 0)
    assert interrupted.samples == 7


class Sleepy:
    """Launches take 50 us; the first one after a pause takes 0.24 ms more, since it wakes the threads."""

    def __init__(self) -> None:
        self.asleep = True

    def time(self, launches: int) -> float:
        woken, self.asleep = self.asleep, False
        return launches * 5e-5 + 2.4e-4 * woken

    def seconds(self) -> float:
        return 0.0


def test_waking_the_threads_is_no_part_of_a_sample() -> None:
    sleepy = Sleepy()
    sampler = Sampler(sleepy.time, 2e-4, 1e-3, 3, Pace())  # the first launch of all was slow, too
    for _ in range(5):
        sleepy.asleep = True
        assert sampler.take(sleepy) == pytest.approx(5e-5)  # type: ignore[arg-type]


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not count waiting")
def test_threads_that_share_a_cpu_wait() -> None:
    done = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 0.02


CROWD = """
import os, threading, time
from seqtune.tuner.measuring.waiting import Waiting
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
started, until = [], time.monotonic() + 0.2
def spin():
    started.append(1)
    while time.monotonic() < until:
        sum(range(1000))
children = [os.fork() or (spin(), os._exit(0)) for _ in range(2)]
with Waiting() as waiting:
    before = waiting.seconds()
    spin()
    print(waiting.seconds() - before)
"""
