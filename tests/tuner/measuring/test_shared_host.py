"""Searches on a shared host, whose rate halves in random stretches: they find what a quiet host finds."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.journal.journal import Journal
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.tuner.measuring.pace import SHARE
from seqtune.tuner.run.local_run import MeasuredSearch
from seqtune.tuner.run.plan import Budget, TuningOptions
from seqtune.tuner.run.simulation import RecordedSpace
from tests.support.fake_measurer import DEVICE, KERNEL, PROBLEM
from tests.support.measuring.simulated_host import LONGEST, SHORTEST, Killed, SimulatedHost, SimulatedMeasurer

TASK = Task.of(PROBLEM, DEVICE, [KERNEL])


def _time_of(recorded: RecordedSpace, problem: Problem, configuration: Configuration) -> float:
    return float(recorded.measured.time(configuration))


def winners(spaces: Sequence[RecordedSpace], host: SimulatedHost, trials: int) -> tuple[list[float], float]:
    """The true seconds of the winner of each search, one after the other on one host, and the seconds waited."""
    measurer: SimulatedMeasurer | None = None
    seconds: list[float] = []
    for recorded in spaces:
        later = SimulatedMeasurer(host, recorded.task.device, partial(_time_of, recorded))
        if measurer is not None:  # the same worker goes on
            later.take_over(measurer)
        measurer = later
        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.sqlite") as journal:
            measuring = MeasuredSearch(recorded.task, journal, measurer, TuningOptions(), Budget(trials))
            measuring.run()
            best = measuring.result().configuration
        seconds.append(math.inf if best is None else float(recorded.measured.time(best)))
    return seconds, 0.0 if measurer is None else measurer.pace.patience.waited


def test_work_takes_twice_as_long_in_a_slow_stretch_and_stretches_are_of_the_declared_lengths() -> None:
    host = SimulatedHost(3)
    taken = np.array([host.work(0.01) for _ in range(100_000)])
    slow = np.isclose(taken, 0.02)
    assert (np.isclose(taken, 0.01) | slow).mean() > 0.99, "the others are at the ends of stretches"
    assert 0.3 < taken[slow].sum() / host.now < 0.7
    ends = np.flatnonzero(np.diff(slow.astype(int)))
    lengths = np.add.reduceat(taken, ends)[:-1]
    assert lengths.min() > SHORTEST - 0.05
    assert lengths.max() < LONGEST + 0.05


def test_long_work_across_stretches_takes_between_its_time_at_the_full_rate_and_twice_that() -> None:
    host = SimulatedHost(3)
    for seconds in [1.0, 0.3, 30.0] * 100:
        assert seconds - 1e-9 <= host.work(seconds) <= 2 * seconds + 1e-9


def test_sleep_passes_stretches_and_a_steady_host_stays_quick() -> None:
    host, steady = SimulatedHost(3), SimulatedHost(3, steady=True)
    for sleeper in (host, steady):
        sleeper.sleep(100.0)
        assert (sleeper.now, sleeper.slept) == (100.0, 100.0)
    assert steady.work(5.0) == pytest.approx(5.0)


def test_a_process_that_works_is_killed_at_its_end() -> None:
    host = SimulatedHost(0, steady=True)
    host.end = 1.5
    host.work(1.0)
    with pytest.raises(Killed):
        host.work(1.0)
    assert host.now == 1.5


def test_searches_on_a_shared_host_find_the_winners_of_a_quiet_one() -> None:
    seconds = np.random.default_rng(0).permutation(np.geomspace(1e-4, 1e-2, len(TASK)))
    spaces = [RecordedSpace("toy", "test", MeasuredTask(TASK, seconds))] * 2
    quiet, _ = winners(spaces, SimulatedHost(0, steady=True), len(TASK))
    assert quiet == [pytest.approx(1e-4)] * 2
    for seed in range(3):
        host = SimulatedHost(seed)
        found, waited = winners(spaces, host, len(TASK))
        assert found == quiet
        assert waited <= SHARE * host.now + 0.1
