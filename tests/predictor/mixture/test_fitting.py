"""Tests of the mixture's weights: they follow the expert that is right, and few problems change them little."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from seqtune.errors import FormatError
from seqtune.predictor.mixture.fitting import Observed, _Arrays, fit_weights
from seqtune.predictor.mixture.weights import BEAM, FIXED_MEAN, OPINIONS, PRIOR, Weights


def observed(count: int, right: str = "nearest", wrong: str = "trees", seed: int = 0) -> list[Observed]:
    """Tasks of which one expert knows the slowness of eight candidates, and another the opposite."""
    generator = np.random.default_rng(seed)
    tasks = []
    for _ in range(count):
        slowness = generator.permutation(np.linspace(0, 0.7, 8))
        tasks.append(Observed({right: slowness.tolist(), wrong: slowness[::-1].tolist(), BEAM: [-2.0] * 8},
                              (-slowness).tolist(), float(generator.uniform())))
    return tasks


def test_many_problems_give_the_weight_to_the_expert_that_is_right() -> None:
    weights = fit_weights(observed(200))
    assert weights.of(("nearest", "trees"), 0.5)["nearest"] > 0.8
    assert np.mean([task.best_of(1, weights) for task in observed(50, seed=1)]) > -0.02


def test_few_problems_change_the_weights_less_and_none_nothing() -> None:
    before = PRIOR.of(("nearest", "trees"), 0.5)["nearest"]
    few, many = (fit_weights(observed(count)).of(("nearest", "trees"), 0.5)["nearest"] for count in (3, 200))
    assert before < few < many
    assert fit_weights([]) == PRIOR


def test_weights_may_depend_on_the_nearness() -> None:
    tasks = observed(300)
    tasks = [task if task.nearness > 0.5 else Observed(
        {"nearest": task.opinions["trees"], "trees": task.opinions["nearest"], BEAM: task.opinions[BEAM]},
        task.log_shares, task.nearness) for task in tasks]
    weights = fit_weights(tasks)
    far, near = (weights.of(("nearest", "trees"), nearness)["nearest"] for nearness in (0.0, 1.0))
    assert far < 0.3 < 0.7 < near


def test_the_gradient_is_that_of_the_softened_regret() -> None:
    generator = np.random.default_rng(3)
    tasks = [Observed({**{name: generator.uniform(0, 0.1, count).tolist() for name in names}, BEAM: generator.uniform(
        -3, 0, count).tolist()}, (-generator.uniform(0, 0.3, count)).tolist(), float(generator.uniform()))
        for count, names in ((5, OPINIONS), (3, OPINIONS[:2]), (9, OPINIONS[1:]))]
    arrays, logits = _Arrays.of(tasks), generator.normal(0, 0.5, (2, len(OPINIONS) + 1))
    gradient, step = arrays.gradient(logits), 1e-6
    for index in np.ndindex(logits.shape):
        moved = [logits.copy(), logits.copy()]
        moved[0][index] -= step
        moved[1][index] += step
        before, after = map(arrays.regret, moved)
        assert gradient[index] == pytest.approx((after - before) / (2 * step), abs=1e-5)


def test_what_was_observed_comes_back_from_json() -> None:
    (task,) = observed(1)
    assert Observed.from_json(json.loads(json.dumps(task.to_json()))) == task
    contents: list[object] = [{}, [], {**task.to_json(), "log_shares": [0.0]}, {**task.to_json(), "opinions": [1]}]
    for content in contents:
        with pytest.raises(FormatError, match="not the opinions of experts"):
            Observed.from_json(content)


def test_the_fixed_mean_counts_trees_and_judge_equally_and_the_beam_as_it_is() -> None:
    assert FIXED_MEAN.of(("trees", "judge", "nearest"), 0.3) == {"trees": 0.5, "judge": 0.5}
    assert FIXED_MEAN.of(("judge",), 0.3) == {"judge": 1.0}
    assert FIXED_MEAN.beam(0.3) == 1.0
    with pytest.raises(ValueError, match="experts must be among"):
        Weights(base={"oracle": 0.0, BEAM: 0.0})
    with pytest.raises(ValueError, match="finite"):
        Weights(base={"trees": math.nan, BEAM: 0.0})
