"""Tests of the baselines that predictions are compared with."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.learning.tasks.baselines import (
    ANALYTIC,
    BASELINES,
    Fixed,
    Nearest,
    nearest_row,
    nearest_valid,
    random_log_share,
)
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from tests.support.synthetic import data, registered, seconds

pytestmark = pytest.mark.usefixtures("fake_kernel")

DATA = data(14, held_out=4, sampled=80)
with registered():
    TRAINING, TEST = measured_tasks(DATA, held_out=False), measured_tasks(DATA, held_out=True)
TREES = Trees(TRAINING, TreesOptions(rounds=100, models=1, threads=1))


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_the_expectation_of_random_search_equals_counting_all_draws(count: int) -> None:
    shares = np.array([0.2, 0.9, 0.5, 1.0, 0.5, 0.3])
    every = [np.log(max(draw)) for draw in combinations(shares, count)]
    assert random_log_share(shares, count) == pytest.approx(np.mean(every))


@pytest.mark.parametrize("name", [name for name in BASELINES if name != ANALYTIC])  # which knows no CPU
def test_every_baseline_is_better_than_chance(name: str) -> None:
    predictor = BASELINES[name].fit(TRAINING, lambda: TREES)
    shares, chance = [], []
    for measured in TEST:
        first = predictor.propose([measured.task], 5)[0][0]
        shares.append(measured.best / measured.seconds[measured.task.number(first.configuration)])
        chance.append(np.exp(random_log_share(np.maximum(measured.shares(), 0.01), 1)))
    assert np.mean(shares) > np.mean(chance)


def test_fixed_picks_the_best_configuration_where_everything_is_known() -> None:
    known = [measured for measured in measured_tasks(data(5, held_out=5, sampled=1), held_out=True)
             if measured.device.name == "fake:wide"]
    trees = Trees(known, TreesOptions(rounds=5, models=1, threads=1))
    found = Fixed(known, trees).propose([known[0].task], 1)
    first = found[0][0].configuration
    configurations = {space[row].key: dict(space[row].settings)
                      for measured in known for space in measured.task.spaces for row in range(len(space))}
    means = {key: np.mean([
        np.log(np.minimum(measured.seconds, measured.best * np.exp(20))[nearest_row(measured.task.spaces[0], settings)]
               / measured.best) for measured in known]) for key, settings in configurations.items()}
    assert means[first.key] == pytest.approx(min(means.values()), rel=1e-6)


def test_settings_are_nearest_valid_as_the_space_does_it() -> None:
    space = TEST[0].task.spaces[0]
    wanted: list[dict[str, int | str]] = [
        {"vector": 16, "tile_k": 4, "tile_w": 14, "unroll": 4, "order": "rows"}, {"vector": 8}, {"tile_w": 5}]
    for settings in wanted:
        assert space[nearest_row(space, settings)] == space.nearest(settings)
    assert nearest_valid([("fake.other", {})], TEST[0].task, 3) == [Candidate(space.default)]
    assert len(nearest_valid([("fake.direct", {"vector": 8})] * 3, TEST[0].task, 3)) == 1


def test_the_teacher_keeps_what_was_measured_and_fills_the_rest_nearly_right() -> None:
    measured = next(measured for measured in TRAINING if measured.device.name == "fake:wide")
    filled = TREES.fill(measured)
    ratio = np.log1p(filled) - np.log(measured.seconds)
    known = np.isfinite(measured.seconds)
    assert np.ptp(ratio[known]) < 1e-6
    truth = np.log(seconds(measured.task.spaces[0]))
    rest = np.isnan(measured.seconds) & np.isfinite(truth)
    error = (np.log1p(filled) - truth)[rest] - ratio[known].mean()
    assert np.sqrt(np.mean(error**2)) < 0.35 * truth[rest].std()


def test_a_problem_of_an_unknown_operation_gets_the_default() -> None:
    measured = TEST[0]
    assert Nearest([]).propose([measured.task], 3) == [[Candidate(measured.task.default)]]


def test_the_nearest_problem_is_the_problem_itself_on_the_same_device_and_its_fastest_come_first() -> None:
    for measured in TRAINING[:3]:
        (candidates,) = Nearest(TRAINING).propose([measured.task], 3)
        assert [candidate.configuration for candidate in candidates] == measured.fastest(3)
