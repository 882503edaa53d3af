"""The budget of a request to a worker: what was measured stays, what was not is no failure, and nothing hangs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from seqtune.data.record import Status
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support import planted

ENDLESS = Options(samples=3, build_seconds=600.0, run_seconds=600.0)  # a test that ends does so by the budget
SOON = 120.0  # seconds within which a test ends on any busy machine


@pytest.fixture
def runner() -> Iterator[Runner]:
    """A runner whose worker has measured."""
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as opened:
        assert len(list(opened.measure(planted.PROBLEM, [planted.deed("good")], ENDLESS))) == 1
        yield opened


def pid_of(runner: Runner) -> int:
    assert runner._worker is not None
    return runner._worker.pid


@pytest.mark.parametrize("deed", ["loop", "loop_in_build"])
def test_a_worker_that_cannot_stop_is_killed_and_what_was_measured_stays(runner: Runner, deed: str) -> None:
    began, deeds = time.monotonic(), [planted.deed("good"), planted.deed(deed), planted.deed("good", 1)]
    found = list(runner.measure(planted.PROBLEM, deeds, replace(ENDLESS, budget=2.0)))
    assert [configuration for configuration, _ in found] in ([], deeds[:1])
    runner.open()
    with pytest.raises(OutOfTime, match="are over before 3 configurations could be compared"):
        runner.compare(planted.PROBLEM, deeds, 2, replace(ENDLESS, budget=2.0))
    assert time.monotonic() - began < SOON
    ((_, measurement),) = runner.measure(planted.PROBLEM, deeds[2:], ENDLESS)
    assert measurement.status is Status.CORRECT


def test_a_worker_stops_by_itself_at_the_planned_end_and_goes_on_with_the_next_request(runner: Runner) -> None:
    before, slow = pid_of(runner), [planted.deed("good", wait=20)] * 1000
    found = list(runner.measure(planted.PROBLEM, slow, replace(ENDLESS, planned=1.0)))
    assert len(found) < 1000
    assert all(measurement.status is Status.CORRECT and measurement.samples for _, measurement in found)
    first, second = runner.compare(planted.PROBLEM, [planted.deed("good", wait=20), planted.deed("good", 1)], 10_000,
                                   replace(ENDLESS, planned=1.0, fewest_rounds=2))
    assert 2 <= len(first.samples) == len(second.samples) < 10_000
    assert pid_of(runner) == before


def test_operands_that_are_not_ready_in_time_are_no_failure() -> None:
    began = time.monotonic()
    with Runner(replace(planted.DEVICE, model="slow"), planted.BACKEND, planted.KERNELS, planted.PATH) as slow:
        slow.open()
        assert list(slow.measure(planted.PROBLEM, [planted.deed("good")], replace(ENDLESS, budget=0.2))) == []
        with pytest.raises(OutOfTime):
            slow.compare(planted.PROBLEM, [planted.deed("good")], 2, replace(ENDLESS, budget=0.2))
    assert time.monotonic() - began < SOON


def test_a_worker_that_is_not_open_in_time_goes_on_opening() -> None:
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        assert list(runner.measure(planted.PROBLEM, [planted.deed("good")], replace(ENDLESS, budget=1e-3))) == []
        before = pid_of(runner)
        with pytest.raises(OutOfTime, match="is not open in time"):
            runner.compare(planted.PROBLEM, [planted.deed("good")], 2, replace(ENDLESS, budget=1e-3))
        ((_, measurement),) = runner.measure(planted.PROBLEM, [planted.deed("good")], ENDLESS)
        assert measurement.status is Status.CORRECT
        assert pid_of(runner) == before


def test_a_comparison_waits_for_its_worker_after_the_planned_end_and_holds_its_fewest_rounds() -> None:
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        (measurement,) = runner.compare(planted.PROBLEM, [planted.deed("good")], 10_000,
                                        replace(ENDLESS, planned=1e-3, fewest_rounds=2))
    assert len(measurement.samples) == 2


def test_a_deadline_counts_from_its_beginning_and_so_does_a_larger_one() -> None:
    now = 10.0
    deadline = Deadline(5.0, lambda: now)
    now = 13.0
    assert (deadline.elapsed, deadline.left, deadline.is_over) == (3.0, 2.0, False)
    larger, hard = deadline.scaled(2.0), deadline.hard
    now = 15.5
    assert (deadline.left, deadline.is_over) == (0.0, True)
    assert (larger.left, larger.is_over) == (4.5, False)
    assert hard.left == pytest.approx(0.5)
    assert not Deadline().is_over
    assert not Deadline().hard.is_over


def test_a_worker_has_a_tenth_of_a_second_to_end_by_itself_but_a_twentieth_of_a_short_budget() -> None:
    assert [Deadline(seconds).grace for seconds in (0.2, 2.0, 60.0, math.inf)] == pytest.approx([0.01, 0.1, 0.1, 0.1])
