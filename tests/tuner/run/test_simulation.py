"""Simulated searches of recorded spaces: the shares, and that they do not depend on the number of processes."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.api.replaying import recorded_spaces
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration
from seqtune.tuner.run.simulation import Curves, RecordedSpace, StrategyMethod, best_shares, simulate
from seqtune.tuner.strategies.random import Random
from seqtune.tuner.strategies.strategy import SearchContext
from tests.support.paths import RECORDED as SHARED
from tests.support.recorded_files import CONFIGURATIONS, milliseconds, write_recorded
from tests.support.seeds import OFFSET


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recorded(tmp_path_factory.mktemp("data") / "recorded")


@pytest.fixture
def fast(folder: Path) -> RecordedSpace:
    recorded, = recorded_spaces(read_dataset(folder), devices=["fast"])
    return recorded


class Greedy:
    """Proposes the fastest configurations of its history first; records the results."""

    def __init__(self, context: SearchContext) -> None:
        times: dict[tuple[tuple[str, Any], ...], float] = {}
        for other in context.history:
            for configuration, seconds in zip(other.task, other.seconds.tolist(), strict=True):
                times[configuration.settings] = seconds if math.isfinite(seconds) else math.inf
        self.left = sorted(context.task, key=lambda configuration: times.get(configuration.settings, math.inf))
        self.results: list[tuple[Configuration, Measurement]] = []

    def ask(self, count: int) -> list[Configuration]:
        proposals, self.left = self.left[:count], self.left[count:]
        return proposals

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        self.results.append((configuration, measurement))


def test_a_task_is_a_recorded_space_with_its_times(fast: RecordedSpace) -> None:
    assert (fast.space, fast.device, fast.history) == ("toy", "fast", ())
    assert fast.seconds == pytest.approx([milliseconds(*row[:3]) * 1e-3 for row in CONFIGURATIONS])
    assert fast.optimum == pytest.approx(1e-3)
    numbers = [fast.task.number(configuration) for configuration in fast.task.spaces[0]]
    assert numbers == list(range(len(CONFIGURATIONS)))


def test_only_measured_configurations_are_in_the_space(folder: Path) -> None:
    recorded, = recorded_spaces(read_dataset(folder), devices=["odd"])
    space, = recorded.task.spaces
    assert len(space) == len(recorded.seconds) == sum(order for _, _, order, _ in CONFIGURATIONS)
    assert {configuration["order"] for configuration in space} == {1}
    missing = Configuration("recorded.toy", (("block", 64), ("tile", 2), ("order", 0), ("fixed", 7)))
    assert space.why_not(missing) == "it is not among the configurations that this space was cut down to"
    assert missing not in space
    failed = [recorded.measurement(number).status for number in range(len(space)) if space[number]["block"] == 16]
    assert failed == [Status.RUNTIME] * 2


def test_a_share_is_that_of_the_best_so_far_and_failures_count(folder: Path) -> None:
    recorded, = recorded_spaces(read_dataset(folder), devices=["odd"])
    (failed,) = (recorded.task.number(configuration) for configuration in recorded.task.spaces[0]
                 if (configuration["block"], configuration["tile"]) == (16, 1))
    best = int(np.argmin(recorded.seconds))
    other = int(np.argmax(np.where(np.isfinite(recorded.seconds), recorded.seconds, 0)))
    share = float(recorded.optimum / recorded.seconds[other])
    assert best_shares(recorded, [failed, other, best], 5) == pytest.approx([0.0, share, 1.0, 1.0, 1.0])
    assert best_shares(recorded, [failed], 2) == pytest.approx([0.0, 0.0])
    assert best_shares(recorded, [], 2) == pytest.approx([0.0, 0.0])
    assert best_shares(recorded, [failed, other, best], 2) == pytest.approx([0.0, share])


def test_the_interval_of_a_mean_is_that_of_runs_drawn_again() -> None:
    halves = np.repeat([[0.2, 0.0], [0.2, 1.0]], 50, axis=0)
    low, high = Curves("s", "d", "m", halves).interval([1, 2])
    assert (low[0], high[0]) == pytest.approx((0.2, 0.2))
    assert (low[1], high[1]) == pytest.approx((0.5 - 0.098, 0.5 + 0.098), abs=0.015)  # 1.96 standard errors of 0.05


def test_random_search_reaches_the_exact_mean(fast: RecordedSpace) -> None:
    """Random search agrees with the mean of the best of n draws without replacement, in closed form."""
    curves, = simulate([fast], {"random": StrategyMethod(Random)}, trials=6, repeats=400)
    shares = np.sort(fast.optimum / fast.seconds)
    for budget in (1, 3, 6):
        chances = np.array([math.comb(rank, budget - 1) for rank in range(len(shares))]) / math.comb(
            len(shares), budget)
        exact = float(shares @ chances)
        row = curves.row(budget)
        assert abs(row["share_mean"] - exact) < 4 * row["share_sem"]


def test_a_strategy_gets_the_results_of_its_proposals_until_the_budget_ends(fast: RecordedSpace) -> None:
    strategies: list[Greedy] = []

    def factory(context: SearchContext) -> Greedy:
        strategies.append(Greedy(context))
        return strategies[-1]

    numbers = StrategyMethod(factory, batch=3)(fast, 5, 0)
    assert list(numbers) == [0, 1, 2, 3, 4]
    assert [fast.task.number(configuration) for configuration, _ in strategies[0].results] == list(numbers)
    seconds = [measurement.seconds for _, measurement in strategies[0].results]
    assert seconds == pytest.approx(fast.seconds[:5].tolist())
    assert len(StrategyMethod(factory)(fast, 1000, 0)) == len(CONFIGURATIONS)  # the space has no more


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_same_seed_gives_the_same_curves_in_one_process_or_several(folder: Path, jobs: int) -> None:
    if jobs > 1 and OFFSET:
        pytest.skip("other processes keep their seeds")
    spaces, before = recorded_spaces(read_dataset(folder)), os.environ.get("OMP_NUM_THREADS")
    methods = {"random": StrategyMethod(Random), "three": StrategyMethod(Random, batch=3)}
    first = simulate(spaces, methods, 8, 3, seed=5, jobs=jobs)
    assert [(curves.device, curves.method, curves.shares.shape) for curves in first] == [
        (device, method, (3, 8)) for device in ("fast", "odd") for method in methods]
    again = simulate(spaces, methods, 8, 3, seed=5)
    assert all(np.array_equal(curves.shares, other.shares) for curves, other in zip(first, again, strict=True))
    assert np.array_equal(first[0].shares, first[1].shares)  # methods get the same seeds
    assert not np.array_equal(first[0].shares, simulate(spaces, methods, 8, 3, seed=6)[0].shares)
    assert os.environ.get("OMP_NUM_THREADS") == before


def test_strategies_get_the_records_of_other_devices_as_history(folder: Path) -> None:
    fast, odd = recorded_spaces(read_dataset(folder), "leave-device-out")
    (of_odd,), (of_fast,) = fast.history, odd.history
    assert [other.device.name for other in (of_odd, of_fast)] == [
        "recorded:odd", "recorded:fast"]
    assert np.isnan(of_odd.seconds).sum() == len(CONFIGURATIONS) - len(odd.seconds)  # not measured on it
    assert len(of_fast.seconds) == len(CONFIGURATIONS)
    curves, = simulate([fast], {"greedy": StrategyMethod(Greedy)}, 1, 1)
    assert curves.shares == pytest.approx(1.0)  # both devices have the same optimum
    assert recorded_spaces(read_dataset(folder))[0].history == ()
    assert all(recorded.history == () for recorded in recorded_spaces(read_dataset(folder), "leave-problem-out"))


def test_problems_of_one_kernel_have_distinct_names_and_are_each_others_history(folder: Path) -> None:
    data = read_dataset(folder)
    other = data.rows["problem"].iloc[0].replace("640", "320")
    more = replace(data, rows=data.rows.assign(problem=other))
    both = more.merge(data)
    spaces = recorded_spaces(both, "leave-problem-out", devices=["fast"])
    assert [recorded.space for recorded in spaces] == [
        f"recorded kernel=toy size_x={size} size_y=480" for size in (320, 640)]
    assert [len(recorded.history) for recorded in spaces] == [1, 1]


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the recorded spaces are not at {SHARED}")
def test_the_recorded_spaces_have_their_published_optima() -> None:
    """The optimum of the A6000 is that of its measured half."""
    optima = {(recorded.space, recorded.device): (len(recorded.seconds), round(recorded.optimum * 1e3, 4))
              for recorded in recorded_spaces(read_dataset(SHARED))}
    assert optima["convolution_milo", "A100"] == (4362, 0.5536)
    assert optima["convolution_milo", "A6000"] == (2442, 0.7747)
    assert optima["dedispersion_milo", "MI250X"][0] == 11130
    assert optima["gemm_rtx", "RTX_3090"][0] == 17956
