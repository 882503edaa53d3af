"""Smoothing: one step to the next valid value of each parameter, and nothing beyond."""

from __future__ import annotations

import numpy as np

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models.transfer import OWN, smoothed, steps
from tests.support.tasks import task_of

SPACE = SearchSpace(
    Kernel("test.k", "gemm", ("test",), (Parameter("a", (1, 2, 3, 4)), Parameter("b", (0, 1, 2)), Parameter("c", (7,))),
           (Constraint.of("a != 2 or b != 1", "a hole"),), ()),
    Problem.make("gemm", m=8, n=8, k=8), Device("test:one", "test", "paper", "none"))


def test_steps_are_the_neighbours_of_a_task_at_distance_one() -> None:
    task = task_of(SPACE)
    pairs = {frozenset(pair) for first, second in steps(SPACE)
             for pair in zip(first.tolist(), second.tolist(), strict=True)}
    expected = set()
    for number in range(len(task)):
        near = task.neighbours(number)
        expected |= {frozenset((number, other)) for other in near.numbers[np.abs(near.steps) == 1].tolist()}
    assert pairs == expected


def test_a_value_is_mixed_with_the_mean_around_it_and_what_is_unknown_does_not_count() -> None:
    task = task_of(SPACE)
    values = np.arange(len(task), dtype=float)
    values[3] = np.nan
    mixed = smoothed(task, values)
    near = task.neighbours(0)
    around = [0, *(number for number in near.numbers[np.abs(near.steps) == 1].tolist() if number != 3)]
    assert mixed[0] == OWN * values[0] + (1 - OWN) * values[around].mean()
    assert np.isnan(mixed[3])
    assert np.isfinite(np.delete(mixed, 3)).all()
