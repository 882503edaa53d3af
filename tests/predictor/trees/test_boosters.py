"""Boosters: the trees of a ranker predict the same in XGBoost, and boosting goes on from them."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.trees.boosters import boosters_of
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.forest import WORST, Forest
from seqtune.predictor.trees.ranker import Ranker
from seqtune.tuner.cost_models.features import features
from tests.support.synthetic import DIRECT, MIDDLE, WIDE, problems, seconds

OPTIONS = TreesOptions(rounds=30, depth=4, models=2, threads=1)


def task(number: int, device: Device = WIDE, slower: float = 0.0) -> MeasuredTask:
    problem = problems(12)[number]
    space = SearchSpace(DIRECT, problem, device)
    times = seconds(space)
    times = times * np.exp(slower * (space.columns()["tile_k"] > 2))
    return MeasuredTask(Task(problem, device, (space,)), times)


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return Ranker.of(Trees([task(number) for number in range(6)], OPTIONS))


def test_the_boosters_of_a_ranker_predict_what_its_forests_do(ranker: Ranker) -> None:
    rows = features(task(7).task.spaces[0])
    for forest, booster in zip(ranker.forests[DIRECT.name], boosters_of(ranker, {DIRECT.name})[DIRECT.name],
                               strict=True):
        assert np.allclose(booster.inplace_predict(rows), forest.margins(rows)[:, 0], atol=1e-5)
        again = Forest.of(booster, 1)
        assert all(np.array_equal(old, new) for old, new in zip(
            forest.arrays().values(), again.arrays().values(), strict=True))
    assert boosters_of(ranker, {"another"}) == {}


def test_further_trees_continue_those_of_a_ranker(ranker: Ranker) -> None:
    new = [task(number, MIDDLE, slower=1.0) for number in range(6, 10)]
    trees = Trees(new, OPTIONS, boosters_of(ranker, {DIRECT.name}), added=10)
    after = Ranker.of(trees)
    assert [len(forest.roots) for forest in after.forests[DIRECT.name]] == [40, 40]
    for old, continued in zip(ranker.forests[DIRECT.name], after.forests[DIRECT.name], strict=True):
        assert np.array_equal(continued.roots[:30], old.roots)
        assert np.array_equal(continued.value[:len(old.value)], old.value)

    def error(model: Ranker) -> float:
        measured = task(11, MIDDLE, slower=1.0)
        wanted = np.minimum(np.log(measured.seconds / measured.best), WORST)
        return float(np.abs(model.slowness(measured.task, np.arange(len(measured.task))) - wanted).mean())

    assert error(after) < error(ranker)
