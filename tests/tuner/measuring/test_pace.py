"""Tests of the pace: a slow CPU is noticed and waited for, but not for ever, and samples are taken again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from seqtune.data.record import Status
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.backends.llvm.discovery import devices
from seqtune.tuner.measuring.pace import LOOKS, PATIENCE, PAUSE, SHARE, Pace
from seqtune.tuner.measuring.timing import Options, check_and_compare, check_and_time, prepare
from seqtune.tuner.measuring.worker.worker import Worker
from tests.support import planted
from tests.support.measuring.simulated_host import AlwaysRight, SimulatedExecutable, SimulatedHost
from tests.tuner.measuring.test_timing import PROBLEM, Fake

QUICK, SLOW = 20e-6, 40e-6  # seconds of the reference work


class Machine:
    """A CPU that is slow between given times of its own clock, which only sleeping and `pass_on` move."""

    def __init__(self, *slow: tuple[float, float], expected: float = QUICK) -> None:
        self.now, self.slow, self.slept, self.expected = 0.0, slow, 0.0, expected

    def seconds(self) -> float:
        return SLOW if any(begin <= self.now < end for begin, end in self.slow) else QUICK

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds

    def clock(self) -> float:
        return self.now

    def pace(self) -> Pace:
        return Pace(self, self.clock, self.sleep)


def test_a_slow_cpu_is_waited_for() -> None:
    machine = Machine((20.0, 20.6))
    pace = machine.pace()
    machine.now = 20.0
    assert pace.is_slow()
    assert pace.wait_while_slow()
    assert 0.6 <= machine.slept <= 0.6 + PAUSE
    assert pace.wait_while_slow()
    assert machine.slept <= 0.6 + PAUSE


def test_what_stays_slow_is_waited_for_once_until_it_was_quick_again() -> None:
    machine = Machine((20.0, 30.0), (50.0, 60.0))
    pace = machine.pace()
    machine.now = 20.0
    assert not pace.wait_while_slow()
    assert machine.slept == pytest.approx(PATIENCE, abs=2 * PAUSE)
    assert not pace.wait_while_slow()
    assert machine.slept == pytest.approx(PATIENCE, abs=2 * PAUSE)
    machine.now = 40.0
    assert pace.wait_while_slow()
    machine.now, machine.slept = 51.0, 0.0
    assert not pace.wait_while_slow()
    assert machine.slept == pytest.approx(PATIENCE, abs=2 * PAUSE)


def test_waiting_is_a_fifth_of_the_time_even_where_the_cpu_is_quick_now_and_then() -> None:
    """Each time that it is quick, a pace forgets that it gave up: only the account keeps it from waiting again."""
    machine = Machine(*((second, second + 0.99) for second in range(400)))
    pace = machine.pace()
    while machine.now < 300.0:
        pace.wait_while_slow()
        machine.now += 0.01
        assert machine.slept <= SHARE * machine.now + PAUSE
    assert machine.slept == pytest.approx(pace.patience.waited)
    assert machine.slept > 0.1 * machine.now


def test_no_waiting_begins_that_would_pass_the_end_of_the_request() -> None:
    machine = Machine((20.0, 30.0))
    pace = machine.pace()
    machine.now = 20.0
    pace.begin(0.7)
    assert not pace.wait_while_slow()
    assert machine.slept == pytest.approx(0.7, abs=PAUSE)
    assert machine.now <= 20.7


def test_one_interruption_is_no_slow_cpu() -> None:
    times = iter([QUICK, SLOW, QUICK, *[SLOW] * LOOKS])

    class Work:
        expected = QUICK

        def seconds(self) -> float:
            return next(times)

    pace = Pace(Work())
    assert not pace.is_slow()
    assert not pace.is_slow()
    assert pace.is_slow()


def look(machine: Machine, pace: Pace, times: int) -> list[bool]:
    """Look so many times, a second apart."""
    found = []
    for _ in range(times):
        machine.now += 1.0
        found.append(pace.is_slow())
    return found


def test_a_shorter_time_than_expected_becomes_the_usual_one_after_some_looks() -> None:
    machine = Machine((100.5, 200.0), expected=1.0)
    pace = machine.pace()
    assert not any(look(machine, pace, 100))
    assert pace.usual == QUICK
    assert all(look(machine, pace, 10))


class Paces(Pace):
    """A pace that says in turn whether the CPU is slow after an executable was sampled; `means` are its seconds."""

    def __init__(self, slow: Sequence[bool], means: float = 60.0) -> None:
        super().__init__()
        self.answers, self.settled, self.means = list(slow), 0, means

    def is_slow(self) -> bool:
        return self.answers.pop(0)

    def wait_while_slow(self) -> bool:
        self.settled += 1
        return True

    def affords(self, seconds: float) -> bool:
        return seconds <= self.means


@pytest.mark.parametrize(("slow", "means", "disturbed"), [
    ([False], 60.0, 0), ([True, False], 60.0, 0), ([True, True], 60.0, 4), ([True], 0.0, 4)])
def test_samples_of_a_slow_cpu_are_taken_again_once_if_patience_pays(
        slow: list[bool], means: float, disturbed: int) -> None:
    operands, expected = prepare(PROBLEM)
    pace = Paces(slow, means)
    measurement = check_and_time(Fake(), operands, expected, Options(samples=4), pace=pace)
    assert measurement.status is Status.CORRECT
    assert len(measurement.samples) == 4
    assert measurement.disturbed == disturbed
    assert pace.settled == len(slow)
    assert (pace.patience.waited > 0) == (len(slow) == 2), "the first samples were thrown away"


def test_every_sample_of_a_comparison_waits_for_a_quick_cpu() -> None:
    operands, expected = prepare(PROBLEM)
    pace = Paces([])
    check_and_compare([Fake(), Fake(slip=1.0), Fake()], operands, expected, 5, Options(), pace=pace)
    assert pace.settled == 10


def test_the_end_of_the_request_ends_samples_and_rounds() -> None:
    host = SimulatedHost(0, steady=True)
    pace = host.pace()
    pace.begin(1.0)
    kernels = [SimulatedExecutable(host, 0.1), SimulatedExecutable(host, 0.05)]
    measurement = check_and_time(kernels[0], {}, AlwaysRight(), Options(), pace=pace)
    assert 6 <= len(measurement.samples) < 10
    assert host.now <= 1.1
    pace.begin(2.0)
    began = host.now
    first, second = check_and_compare(kernels, {}, AlwaysRight(), 16, Options(), pace=pace)
    assert first is not None
    assert second is not None
    assert len(first.samples) == len(second.samples) == pytest.approx(6, abs=1), "whole rounds of 0.3 s"
    assert host.now - began <= 2.0 + 0.2 + 0.1, "the sample that began last, and the launch before it"


def test_a_comparison_has_its_fewest_rounds_even_after_the_planned_end() -> None:
    host = SimulatedHost(0, steady=True)
    pace = host.pace()
    pace.begin(0.0)
    measurement, = check_and_compare([SimulatedExecutable(host, 0.1)], {}, AlwaysRight(), 16, Options(fewest_rounds=3),
                                  pace=pace)
    assert measurement is not None
    assert len(measurement.samples) == 3


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
    assert paced._pace.is_slow()
    assert not plain._pace.is_slow()


@pytest.mark.skipif(not devices(), reason="LLVM finds no vector instructions on this CPU")
def test_the_reference_work_of_this_cpu_takes_some_microseconds() -> None:
    for device in devices()[:2]:
        backend = LLVMBackend(replace(device, peak_gflops=10 * device.peak_gflops))  # recorded rates are a tenth of it
        try:
            work = backend.reference_work
            assert work is not None
            assert 0.2 * work.expected < min(work.seconds() for _ in range(20)) < 1e-2
            assert 1e-6 < work.expected < 1e-3
        finally:
            backend.close()
