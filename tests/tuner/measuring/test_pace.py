"""Tests of the pace: a slow CPU is noticed and waited for, but not for ever, and samples are taken again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from seqtune.data.record import Status
from seqtune.tuner.backends.llvm.backend import LLVMBackend, devices
from seqtune.tuner.measuring.pace import LOOKS, PATIENCE, PAUSE, Pace
from seqtune.tuner.measuring.timing import Options, check_and_time, prepare, time_in_rounds
from seqtune.tuner.measuring.worker import Worker
from tests.support import planted
from tests.tuner.measuring.test_timing import PROBLEM, Fake

QUICK, SLOW = 20e-6, 40e-6  # seconds of the reference work


class Machine:
    """A CPU that is slow between given times of its own clock, which only sleeping moves."""

    def __init__(self, *slow: tuple[float, float]) -> None:
        self.now, self.slow, self.slept = 0.0, slow, 0.0

    def work(self) -> float:
        return SLOW if any(begin <= self.now < end for begin, end in self.slow) else QUICK

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds

    def pace(self, expected: float = QUICK) -> Pace:
        return Pace(self.work, expected, lambda: self.now, self.sleep)


def test_a_slow_cpu_is_waited_for() -> None:
    machine = Machine((0.0, 0.6))
    pace = machine.pace()
    assert pace.is_slow()
    assert pace.settle()
    assert 0.6 <= machine.slept <= 0.6 + PAUSE
    assert pace.settle()
    assert machine.slept <= 0.6 + PAUSE


def test_what_stays_slow_is_waited_for_once_until_it_was_quick_again() -> None:
    machine = Machine((0.0, 10.0), (11.0, 20.0))
    pace = machine.pace()
    assert not pace.settle()
    assert machine.slept == pytest.approx(PATIENCE, abs=2 * PAUSE)
    assert not pace.settle()
    assert machine.slept == pytest.approx(PATIENCE, abs=2 * PAUSE)
    machine.now = 10.5
    assert pace.settle()
    machine.now, machine.slept = 11.5, 0.0
    assert not pace.settle()
    assert machine.slept == pytest.approx(PATIENCE, abs=2 * PAUSE)


def test_one_interruption_is_no_slow_cpu() -> None:
    times = iter([QUICK, SLOW, QUICK, *[SLOW] * LOOKS])
    pace = Pace(lambda: next(times), QUICK)
    assert not pace.is_slow()
    assert not pace.is_slow()
    assert pace.is_slow()


def test_a_shorter_time_than_expected_becomes_the_usual_one() -> None:
    assert Machine().pace(expected=1.0).settle()
    machine = Machine((1.0, 2.0))
    pace = machine.pace(expected=1.0)
    assert pace.settle()
    machine.now = 1.0
    assert pace.is_slow()


class Paces(Pace):
    """A pace that says in turn whether the CPU is slow after an executable was sampled."""

    def __init__(self, slow: Sequence[bool]) -> None:
        self.answers, self.settled = list(slow), 0

    def is_slow(self) -> bool:
        return self.answers.pop(0)

    def settle(self) -> bool:
        self.settled += 1
        return True


@pytest.mark.parametrize(("slow", "disturbed"), [([False], 0), ([True, False], 0), ([True, True], 4)])
def test_samples_of_a_slow_cpu_are_taken_again_once(slow: list[bool], disturbed: int) -> None:
    operands, expected = prepare(PROBLEM)
    pace = Paces(slow)
    measurement = check_and_time(Fake(), operands, expected, Options(samples=4), pace=pace)
    assert measurement.status is Status.CORRECT
    assert len(measurement.samples) == 4
    assert measurement.disturbed == disturbed
    assert pace.settled == len(slow)


def test_every_sample_of_a_comparison_waits_for_a_quick_cpu() -> None:
    operands, expected = prepare(PROBLEM)
    pace = Paces([])
    time_in_rounds([Fake(), Fake(slip=1.0), Fake()], operands, expected, 5, Options(), pace=pace)
    assert pace.settled == 10


class PacedBackend(planted.PlantedBackend):
    """A backend with reference work."""

    class Work:
        expected = QUICK

        def seconds(self) -> float:
            return SLOW

    reference_work = Work()


def test_a_worker_waits_for_a_quick_cpu_where_the_backend_has_reference_work() -> None:
    paced, plain = (Worker({"device": planted.DEVICE.to_json(), "backend": backend}, lambda _: None, lambda: False)
                    for backend in (f"{__name__}:PacedBackend", f"{planted.__name__}:PlantedBackend"))
    assert paced._pace is not None
    assert paced._pace.is_slow()
    assert plain._pace is None


@pytest.mark.skipif(not devices(), reason="LLVM finds no vector instructions on this CPU")
def test_the_reference_work_of_this_cpu_takes_some_microseconds() -> None:
    for device in devices()[:2]:
        backend = LLVMBackend(device)
        try:
            work = backend.reference_work
            assert work is not None
            assert 0.2 * work.expected < min(work.seconds() for _ in range(20)) < 1e-2
            assert 1e-6 < work.expected < 1e-3
        finally:
            backend.close()
