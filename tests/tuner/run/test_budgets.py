"""Budgets and waiting on a simulated host whose rate halves in random stretches of half a second to 20 seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seqtune.data.journal.journal import Journal
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from seqtune.tuner.measuring.pace import SHARE
from seqtune.tuner.measuring.verification import OverBudget, Verdict, verify
from seqtune.tuner.run.local_run import MeasuredSearch
from seqtune.tuner.run.plan import Budget, TuningOptions
from seqtune.tuner.run.result import TuningResult
from tests.support.fake_measurer import DEVICE, KERNEL, PROBLEM
from tests.support.measuring.simulated_host import SimulatedHost, SimulatedMeasurer

TASK = Task.of(PROBLEM, DEVICE, [KERNEL])
BEST = Configuration.of("test.k", {"x": 4, "y": 6})
LIMIT = 1.3  # times a budget that a user may rely on
REPETITION = 0.05  # seconds of a repetition that took longer than expected
SCALES = (1e-6, 1e-4, 1e-2)  # seconds of the fastest kernel; the slowest takes 60 times as long


def measurer_of(host: SimulatedHost, scale: float) -> SimulatedMeasurer:
    """A measurer of kernels that take longer the further they are from BEST; x = 9 fails."""
    def time_of(problem: Problem, configuration: Configuration) -> float:
        x, y = configuration.number("x"), configuration.number("y")
        return np.inf if x == 9 else scale * (1.0 + (x - 4) ** 2 + (y - 6) ** 2)

    return SimulatedMeasurer(host, DEVICE, time_of)


def tuned(journal: Journal, host: SimulatedHost, measurer: SimulatedMeasurer, budget: Budget) -> TuningResult:
    """Search at random."""
    deadline = Deadline(np.inf if budget.seconds is None else budget.seconds, host.clock)
    measuring = MeasuredSearch(TASK, journal, measurer, TuningOptions("random"), budget, deadline)
    measuring.run()
    return measuring.result()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", SCALES)
def test_waiting_is_a_fifth_of_a_search_at_most_and_the_best_configuration_is_found(
        journal: Journal, seed: int, scale: float) -> None:
    host = SimulatedHost(seed)
    measurer = measurer_of(host, scale)
    result = tuned(journal, host, measurer, Budget())
    assert result.done == result.space
    assert result.configuration == BEST
    assert host.slept <= SHARE * host.now + REPETITION
    assert measurer.pace.patience.waited <= SHARE * host.now + REPETITION


def test_a_host_that_is_slow_in_stretches_is_waited_for_and_its_records_are_marked(tmp_path: Path) -> None:
    waited = marked = quiet = 0
    for seed in range(8):
        host = SimulatedHost(seed)
        measurer = measurer_of(host, 1e-3)
        with Journal(tmp_path / f"{seed}.sqlite") as journal:
            tuned(journal, host, measurer, Budget())
            disturbed = [record.measurement.disturbed for record in journal.records(PROBLEM)]
        waited += measurer.pace.patience.waited > 0.5
        marked += any(disturbed)
        quiet += not all(disturbed)
    assert min(waited, marked) >= 3, "searches of some seconds fell into a slow stretch"
    assert quiet == 8


@pytest.mark.parametrize("seconds", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("scale", SCALES)
def test_a_search_with_its_finals_ends_within_its_budget(journal: Journal, seconds: float, scale: float) -> None:
    for seed in range(3):
        host = SimulatedHost(seed)
        result: TuningResult | None
        try:
            result = tuned(journal, host, measurer_of(host, scale), Budget(seconds=seconds))
        except OutOfTime:
            result = None
        if result is None:
            assert seconds == 1.0, "a worker on a slow host needs longer than that to start"
        else:
            assert result.configuration is not None
        assert host.now <= LIMIT * seconds


def test_a_budget_that_ends_before_the_first_trial_says_so(journal: Journal) -> None:
    host = SimulatedHost(0, steady=True)
    with pytest.raises(OutOfTime, match=r"no configuration could be measured within 0\.5 s; give more \(--seconds\)"):
        tuned(journal, host, measurer_of(host, 1e-6), Budget(seconds=0.5))
    assert host.now <= LIMIT * 0.5


def test_a_budget_is_used(journal: Journal) -> None:
    host = SimulatedHost(0, steady=True)
    result = tuned(journal, host, measurer_of(host, 2e-3), Budget(seconds=10.0))
    assert host.now >= 0.8 * 10.0
    assert 20 < result.done < result.space


def verified(host: SimulatedHost, scale: float, seconds: float) -> Verdict:
    """Verify the best configuration and its neighbours."""
    candidates = [BEST, *(Configuration.of("test.k", {"x": x, "y": y}) for x, y in ((4, 5), (3, 6), (4, 7), (5, 6)))]
    return verify(measurer_of(host, scale), PROBLEM, candidates, TASK.default, seconds, clock=host.clock)


@pytest.mark.parametrize("seconds", [0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2])
def test_a_verification_ends_within_its_budget_whatever_it_finds(seconds: float, scale: float) -> None:
    for seed in range(3):
        host = SimulatedHost(seed)
        verdict: Verdict | None
        try:
            verdict = verified(host, scale, seconds)
        except OverBudget:
            verdict = None
        if verdict is not None:
            assert verdict.winner == BEST
            lengths = {len(measurement.samples) for configuration, measurement in verdict.measurements.items()
                       if configuration in verdict.paired}
            assert len(lengths) == 1
        assert host.now <= LIMIT * seconds


@pytest.mark.parametrize("scale", [1e-6, 1e-5, 1e-4])
def test_short_kernels_are_verified_on_a_host_that_is_slow_in_stretches(scale: float) -> None:
    for seed in range(3):
        assert verified(SimulatedHost(seed), scale, 10.0).winner == BEST
