"""Tests of a portfolio that begins with the predictor's expected times of all configurations."""

from __future__ import annotations

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.tuner.run.simulation import RecordedSpace, StrategyMethod
from seqtune.tuner.strategies.portfolio import Portfolio, expected_times
from seqtune.tuner.strategies.strategy import OnDemand, SearchContext
from tests.support.fake_measurer import DEVICE, KERNEL, PROBLEM, Fake

TASK = Task.of(PROBLEM, DEVICE, [KERNEL])
SECONDS = np.array([Fake().time(configuration, 6).seconds for configuration in TASK])
SLOWNESS = np.minimum(np.log(SECONDS / SECONDS.min()), 3.0)


def recorded(slowness: np.ndarray) -> RecordedSpace:
    """The toy task with the slowness that a predictor expects."""
    return RecordedSpace("toy", "test", MeasuredTask(TASK, SECONDS), slowness=slowness.tolist())


def test_a_search_begins_at_the_configuration_that_is_expected_to_be_fastest() -> None:
    numbers = StrategyMethod(Portfolio)(recorded(SLOWNESS), 5, seed=3)
    assert numbers[0] == int(SECONDS.argmin())


def test_expected_times_join_a_history_of_other_problems_and_yield_to_the_same_problem() -> None:
    slowness = np.linspace(0, 5, len(TASK))
    alone = expected_times(SearchContext(TASK, slowness=slowness.tolist()))
    assert alone is not None
    assert (alone.prior.max(), alone.by_source.shape, alone.fastest) == (3.0, (len(TASK), 1), None)
    elsewhere = MeasuredTask(Task.of(PROBLEM, DEVICE, [KERNEL]), SECONDS)
    same = expected_times(SearchContext(TASK, history=[elsewhere], slowness=slowness.tolist()))
    assert same is not None
    assert same.fastest == SECONDS.min()
    assert expected_times(SearchContext(TASK)) is None


def test_seeds_are_measured_before_expected_times_are_computed() -> None:
    computed: list[bool] = []

    def compute() -> list[float]:
        computed.append(True)
        return [float(value) for value in SLOWNESS]

    seeds = (TASK[7], TASK[9])
    strategy = Portfolio(SearchContext(TASK, seeds=seeds, slowness=OnDemand(compute)))
    assert strategy.ask(2) == list(seeds)
    assert not computed
    for configuration in seeds:
        strategy.tell(configuration, Measurement(Status.CORRECT, (1.0,)))
    assert TASK.number(strategy.ask(1)[0]) not in (7, 9)
    assert computed == [True]
