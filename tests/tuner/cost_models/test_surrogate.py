"""Features, coordinates and the Gaussian process: names and order do not matter, and predictions are right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models.coordinates import Coordinates
from seqtune.tuner.cost_models.gaussian_process import GaussianProcess, MeanPrior
from seqtune.tuner.strategies.portfolio import log_improvement
from tests.support.tasks import task_of

DEVICE = Device("test:1", "test", "paper", "none")
PROBLEM = Problem.make("gemm", m=30, n=40, k=50)
VALUES: dict[str, tuple[int | str, ...]] = {
    "block": (8, 1, 2, 4, 16), "tile": (1, 2, 3, 4), "order": ("rows", "columns", "blocks"), "pad": (0, 1)}


def space(names: tuple[str, ...] = ("block", "tile", "order", "pad"), called: str = "{}") -> SearchSpace:
    """The same space with its parameters in the order `names`, renamed by the format string `called`."""
    block, tile, pad = called.format("block"), called.format("tile"), called.format("pad")
    kernel = Kernel("test.k", "gemm", ("test",), tuple(Parameter(called.format(name), VALUES[name]) for name in names),
                    (Constraint.of(f"{block} * {tile} <= 32", "too large"),
                     Constraint.of(f"{pad} == 0 or {block} % ({tile} * 2) == 0", "no padding")), ())
    return SearchSpace(kernel, PROBLEM, DEVICE)


def true_values(searched: SearchSpace) -> NDArray[np.float64]:
    """A value for every configuration, independent of the names and the order of the parameters."""
    columns = {name.removeprefix("other_"): values for name, values in searched.columns().items()}
    return np.asarray(np.abs(np.log2(columns["block"] * columns["tile"]) - 3)
                      + 0.5 * (columns["order"] != "blocks") + 0.3 * (columns["pad"] == 1) * (columns["tile"] > 2))


def predicted(searched: SearchSpace, training: list[dict[str, Setting]]) -> dict[frozenset[object], float]:
    """The prediction for every configuration, by its settings, from the true values of the training settings."""
    coordinates = Coordinates(task_of(searched), np.random.default_rng(0))
    process = GaussianProcess(coordinates.axes)
    prefix = "other_" if searched.kernel.parameters[0].name.startswith("other_") else ""
    numbers = np.array([searched.row(searched.nearest({prefix + name: value for name, value in settings.items()}))
                        for settings in training])
    slopes = np.zeros((len(searched), 0))
    levels, values = coordinates.of(np.arange(len(searched))), true_values(searched)[numbers]
    process.fit(levels[numbers], slopes[numbers], values, 10)
    process.set_pool(levels, slopes)
    process.condition(levels[numbers], slopes[numbers])
    mean, _ = process.predict(values)
    return {frozenset((name.removeprefix("other_"), value) for name, value in searched[row].settings): float(mean[row])
            for row in range(len(searched))}


def test_names_and_order_of_the_parameters_do_not_matter() -> None:
    plain = space()
    generator = np.random.default_rng(1)
    training = [dict(configuration.settings) for configuration in plain.sample(generator, 25)]
    first = predicted(plain, training)
    second = predicted(space(("pad", "order", "tile", "block"), "other_{}"), training)
    assert first.keys() == second.keys()
    assert max(abs(first[settings] - second[settings]) for settings in first) < 1e-3


def test_a_process_learns_which_quantities_matter_and_how_uncertain_it_is() -> None:
    searched = space()
    coordinates = Coordinates(task_of(searched), np.random.default_rng(0))
    levels, slopes = coordinates.of(np.arange(len(searched))), np.zeros((len(searched), 0))
    values = true_values(searched)
    numbers = np.random.default_rng(2).permutation(len(searched))[:30]
    process = GaussianProcess(coordinates.axes)
    process.fit(levels[numbers], slopes[numbers], values[numbers], 20)
    process.set_pool(levels, slopes)
    process.condition(levels[numbers], slopes[numbers])
    mean, deviation = process.predict(values[numbers])
    others = np.setdiff1d(np.arange(len(searched)), numbers)
    assert np.corrcoef(mean[others], values[others])[0, 1] > 0.9
    assert deviation[others].mean() > 1.5 * deviation[numbers].mean()
    assert np.abs(mean[numbers] - values[numbers]).max() < 0.2


def test_appending_equals_conditioning_again() -> None:
    searched = space()
    coordinates = Coordinates(task_of(searched), np.random.default_rng(0))
    levels, values = coordinates.of(np.arange(len(searched))), true_values(searched)
    slopes = values[:, None] + np.random.default_rng(3).normal(size=(len(searched), 1))
    whole, grown = GaussianProcess(coordinates.axes), GaussianProcess(coordinates.axes)
    numbers = np.arange(0, 60, 5)
    for process in (whole, grown):
        process.set_pool(levels, slopes)
    whole.condition(levels[numbers], slopes[numbers])
    grown.condition(levels[numbers[:3]], slopes[numbers[:3]])
    for number in numbers[3:, None]:
        grown.append(levels[number], slopes[number])
    for expected, other in zip(whole.predict(values[numbers]), grown.predict(values[numbers]), strict=True):
        assert np.allclose(expected, other, atol=1e-3)
    assert whole.evidence(values[numbers]) == pytest.approx(grown.evidence(values[numbers]), abs=1e-2)


def test_a_prior_of_the_mean_counts_by_its_weight() -> None:
    searched = space()
    coordinates = Coordinates(task_of(searched), np.random.default_rng(0))
    levels, slopes = coordinates.of(np.arange(len(searched))), np.zeros((len(searched), 0))
    process = GaussianProcess(coordinates.axes)
    process.set_pool(levels, slopes)
    process.condition(levels[:2], slopes[:2])
    values = np.array([1.0, 1.1])
    means = [process.predict(values, MeanPrior(0.0, weight))[0][-1] for weight in (0.0, 1.0, 100.0)]
    assert means[0] > means[1] > means[2]
    assert process.evidence(values, MeanPrior(1.0, 1.0)) > process.evidence(values, MeanPrior(-2.0, 1.0))


@pytest.mark.parametrize("z", [-8.0, -3.4, -3.6, -1.0, 0.0, 2.0, 10.0])
def test_the_logarithm_of_the_expected_improvement_is_accurate_in_the_tails(z: float) -> None:
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    exact = math.log(0.5 * (density + z * math.erfc(-z / math.sqrt(2)) / 2)) if z > -5 else math.log(
        0.5 * density / (z * z) * (1 - 3 / (z * z) + 15 / z**4))
    assert log_improvement(np.array([-z * 0.5]), np.array([0.5]))[0] == pytest.approx(exact, abs=0.25)
