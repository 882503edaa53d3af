"""Features, scales and the surrogate: numbering and names mean nothing, and what is learned is right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models.coordinates import Levels
from seqtune.tuner.cost_models.features import features, quantities
from seqtune.tuner.cost_models.gaussian_process import Level, Surrogate
from seqtune.tuner.strategies.portfolio import log_improvement
from tests.support.tasks import task_of

DEVICE = Device("test:1", "test", "paper", "none")
PROBLEM = Problem.make("gemm", m=30, n=40, k=50)
VALUES: dict[str, tuple[int | str, ...]] = {
    "block": (8, 1, 2, 4, 16), "tile": (1, 2, 3, 4), "order": ("rows", "columns", "blocks"), "pad": (0, 1)}


def space(names: tuple[str, ...] = ("block", "tile", "order", "pad"), called: str = "{}") -> SearchSpace:
    """The same space with its parameters in that order, under those names."""
    block, tile, pad = called.format("block"), called.format("tile"), called.format("pad")
    kernel = Kernel("test.k", "gemm", ("test",), tuple(Parameter(called.format(name), VALUES[name]) for name in names),
                    (Constraint.of(f"{block} * {tile} <= 32", "too large"),
                     Constraint.of(f"{pad} == 0 or {block} % ({tile} * 2) == 0", "no padding")), ())
    return SearchSpace(kernel, PROBLEM, DEVICE)


def test_what_constraints_speak_of_is_a_feature() -> None:
    assert [one.text for one in quantities(space().kernel)] == ["block * tile", "block // (tile * 2)"]
    found = features(space(), np.arange(5))
    assert found.shape[0] == 5
    assert found.shape == features(space(), np.arange(5, 10)).shape


def told(found: SearchSpace) -> NDArray[np.float64]:
    """A value for every configuration, whatever the parameters are called and wherever they stand."""
    columns = {name.removeprefix("other_"): values for name, values in found.columns().items()}
    return np.asarray(np.abs(np.log2(columns["block"] * columns["tile"]) - 3)
                      + 0.5 * (columns["order"] != "blocks") + 0.3 * (columns["pad"] == 1) * (columns["tile"] > 2))


def predicted(found: SearchSpace, training: list[dict[str, int | str]]) -> dict[frozenset[object], float]:
    """What a surrogate says of every configuration after it was told of some."""
    levels = Levels(task_of(found), np.random.default_rng(0))
    surrogate = Surrogate(levels.scales)
    prefix = "other_" if found.kernel.parameters[0].name.startswith("other_") else ""
    numbers = np.array([found.row(found.nearest({prefix + name: value for name, value in one.items()}))
                        for one in training])
    slopes = np.zeros((len(found), 0))
    places, values = levels.of(np.arange(len(found))), told(found)[numbers]
    surrogate.learn(places[numbers], slopes[numbers], values, 10)
    surrogate.watch(places, slopes)
    surrogate.condition(places[numbers], slopes[numbers])
    mean, _ = surrogate.predict(values)
    return {frozenset((name.removeprefix("other_"), value) for name, value in found[row].settings): float(mean[row])
            for row in range(len(found))}


def test_names_and_order_of_the_parameters_do_not_matter() -> None:
    plain = space()
    generator = np.random.default_rng(1)
    training = [dict(one.settings) for one in plain.sample(generator, 25)]
    first = predicted(plain, training)
    second = predicted(space(("pad", "order", "tile", "block"), "other_{}"), training)
    assert first.keys() == second.keys()
    assert max(abs(first[one] - second[one]) for one in first) < 1e-3


def test_a_surrogate_learns_what_matters_and_knows_how_little_it_knows() -> None:
    found = space()
    levels = Levels(task_of(found), np.random.default_rng(0))
    places, slopes, values = levels.of(np.arange(len(found))), np.zeros((len(found), 0)), told(found)
    numbers = np.random.default_rng(2).permutation(len(found))[:30]
    surrogate = Surrogate(levels.scales)
    surrogate.learn(places[numbers], slopes[numbers], values[numbers], 20)
    surrogate.watch(places, slopes)
    surrogate.condition(places[numbers], slopes[numbers])
    mean, deviation = surrogate.predict(values[numbers])
    others = np.setdiff1d(np.arange(len(found)), numbers)
    assert np.corrcoef(mean[others], values[others])[0, 1] > 0.9
    assert deviation[others].mean() > 1.5 * deviation[numbers].mean()
    assert np.abs(mean[numbers] - values[numbers]).max() < 0.2


def test_appending_is_conditioning_anew() -> None:
    found = space()
    levels = Levels(task_of(*[found]), np.random.default_rng(0))
    places, values = levels.of(np.arange(len(found))), told(found)
    slopes = values[:, None] + np.random.default_rng(3).normal(size=(len(found), 1))
    whole, grown = Surrogate(levels.scales), Surrogate(levels.scales)
    numbers = np.arange(0, 60, 5)
    for one in (whole, grown):
        one.watch(places, slopes)
    whole.condition(places[numbers], slopes[numbers])
    grown.condition(places[numbers[:3]], slopes[numbers[:3]])
    for number in numbers[3:, None]:
        grown.append(places[number], slopes[number])
    for expected, other in zip(whole.predict(values[numbers]), grown.predict(values[numbers]), strict=True):
        assert np.allclose(expected, other, atol=1e-3)
    assert whole.evidence(values[numbers]) == pytest.approx(grown.evidence(values[numbers]), abs=1e-2)


def test_an_expected_level_counts_like_that_many_measurements() -> None:
    found = space()
    levels = Levels(task_of(*[found]), np.random.default_rng(0))
    places, slopes = levels.of(np.arange(len(found))), np.zeros((len(found), 0))
    surrogate = Surrogate(levels.scales)
    surrogate.watch(places, slopes)
    surrogate.condition(places[:2], slopes[:2])
    values = np.array([1.0, 1.1])
    means = [surrogate.predict(values, Level(0.0, weight))[0][-1] for weight in (0.0, 1.0, 100.0)]
    assert means[0] > means[1] > means[2]
    assert surrogate.evidence(values, Level(1.0, 1.0)) > surrogate.evidence(values, Level(-2.0, 1.0))


@pytest.mark.parametrize("z", [-8.0, -3.4, -3.6, -1.0, 0.0, 2.0, 10.0])
def test_the_logarithm_of_the_expected_improvement_is_right_far_out_too(z: float) -> None:
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    exact = math.log(0.5 * (density + z * math.erfc(-z / math.sqrt(2)) / 2)) if z > -5 else math.log(
        0.5 * density / (z * z) * (1 - 3 / (z * z) + 15 / z**4))
    assert log_improvement(np.array([-z * 0.5]), np.array([0.5]))[0] == pytest.approx(exact, abs=0.25)
