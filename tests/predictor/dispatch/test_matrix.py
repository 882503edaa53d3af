"""Tests of the matrix of shapes and candidates: slowness of what is measured, expected, invalid or unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.predictor.dispatch.matrix import WORST, Matrix, matrix_of, most_helpful
from tests.support.fake_measurer import DEVICE, KERNEL

PROBLEMS = tuple(Problem.make("gemm", m=m, n=4, k=5) for m in (3, 6))
CANDIDATES = tuple(Configuration.of("test.k", {"x": x, "y": 1}) for x in range(4))
UNKNOWN, FAILS = math.nan, math.inf


def matrix(seconds: list[list[float]], expected: list[list[float]]) -> Matrix:
    count = len(seconds)
    return Matrix(PROBLEMS[:count], CANDIDATES[:len(seconds[0])], np.array(seconds), np.array(expected),
                  np.full(count, 1 / count))


@pytest.mark.parametrize(("seconds", "expected", "slowness"), [
    ([2.0, 1.0, FAILS, 100.0], [UNKNOWN] * 4, [math.log(2), 0.0, WORST, WORST]),
    # expected cells are on the level of the measured ones, and never faster than the best of these
    ([1.0, math.exp(0.2), UNKNOWN, UNKNOWN], [0.1, 0.3, 0.6, 0.0], [0.0, 0.2, 0.5, 0.0]),
    ([UNKNOWN, UNKNOWN, FAILS, UNKNOWN], [0.5, 0.2, 0.1, UNKNOWN], [0.3, 0.0, WORST, WORST]),
    ([FAILS, FAILS], [0.0, 0.0], [WORST, WORST]), ([UNKNOWN, UNKNOWN], [UNKNOWN, UNKNOWN], [WORST, WORST]),
    ([1.0, UNKNOWN], [UNKNOWN, 0.1], [0.0, WORST])])  # nothing says on which level the second is expected
def test_slowness_by_what_is_measured_and_expected(seconds: list[float], expected: list[float],
                                                   slowness: list[float]) -> None:
    assert matrix([seconds], [expected]).slowness()[0] == pytest.approx(slowness)


def test_the_matrix_of_tasks_knows_what_is_measured_invalid_and_expected() -> None:
    tasks = [Task.of(problem, DEVICE, [KERNEL]) for problem in PROBLEMS]
    times = {CANDIDATES[0]: 2.0, CANDIDATES[1]: math.inf}
    candidates = [*CANDIDATES[:3], Configuration.of("test.k", {"x": 9, "y": 9}), Configuration.of("other.k", {"x": 1})]

    def expect(task: Task, numbers: np.ndarray) -> Floats:
        return np.array([float(task[number]["x"]) for number in numbers.tolist()])

    made = matrix_of([MeasuredTask.of_times(tasks[0], times), MeasuredTask.of_times(tasks[1], {})], candidates,
                     np.array([0.5, 0.5]), expect)
    assert made.seconds[0].tolist()[:2] == [2.0, math.inf]
    assert np.isnan(made.seconds[0, 2])
    assert (made.seconds[:, 3:] == math.inf).all(), "outside of the space, or of a kernel that does not solve the shape"
    assert made.expected[1].tolist()[:3] == [0.0, 1.0, 2.0]
    assert np.isinf(made.expected[:, 3:]).all()
    assert made.valid.tolist() == [[True, True, True, False, False]] * 2
    assert made.known == 2, "a failure is known, too; what is not valid is no cell"


def test_the_most_helpful_candidates_lower_the_mean_of_the_fastest_one() -> None:
    slowness = np.array([[0.0, 0.5, 0.2, 0.3], [0.9, 0.0, 0.2, 0.3]])
    assert most_helpful(slowness, np.array([0.5, 0.5]), 4) == [2, 1, 0, 3]
    assert most_helpful(slowness, np.array([0.9, 0.1]), 2) == [0, 1]
    assert most_helpful(slowness, np.array([0.5, 0.5]), 3, chosen=[1]) == [1, 0, 2]
    assert most_helpful(slowness, np.array([0.5, 0.5]), 9, chosen=[3])[0] == 3
