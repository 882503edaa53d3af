"""Tests of the refusal of data from which nothing can be learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.learning.tasks.small.folds import FOLDS, folds_of
from seqtune.predictor.learning.tasks.small.sufficiency import check_sufficient, relation
from tests.support.synthetic import WIDE, Data, data

pytestmark = pytest.mark.usefixtures("fake_kernel")


def _data(problems: int = 6, configurations: int = 5) -> Data:
    return data(problems, held_out=0, sampled=configurations, devices=(WIDE,))


def _check(given: Data) -> None:
    check_sufficient(measured_tasks(given, held_out=False), given)


@pytest.mark.parametrize(("problems", "configurations", "complaint"), [
    (1, 9, r"1 problem to learn from; at least 5 are needed, 30 give a useful predictor"),
    (3, 9, r"3 problems to learn from; at least 5 are needed"),
    (6, 1, r"0 of \d problems have more than one measured configuration; .* --trials 50")])
def test_too_little_is_refused_with_what_is_missing(problems: int, configurations: int, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        _check(_data(problems, configurations))


def test_equal_times_are_refused() -> None:
    given = _data(6)
    with pytest.raises(MisuseError, match="0 of 6 problems have configurations of different times"):
        _check(replace(given, frame=given.frame.assign(seconds=1e-3, status="correct")))


def test_failures_alone_are_refused() -> None:
    given = _data(6)
    with pytest.raises(MisuseError, match="all 30 measurements failed"):
        _check(replace(given, frame=given.frame.assign(seconds=np.nan, status="runtime")))


def test_a_kernel_whose_problems_have_different_features_is_refused() -> None:
    toy = Kernel("recorded.toy", "recorded", ("recorded",), (Parameter("block", (1, 2)),), (), ())
    device = Device("recorded:toy", "recorded", "unknown", "none")
    sizes = [*({"size_x": 100 * 2**number} for number in range(5)), {"size_x": 7, "size_y": 7}]
    tasks = [MeasuredTask(Task.of(Problem.make("recorded", **size), device, [toy]), np.array([1.0, 2.0]))
             for size in sizes]
    with pytest.raises(MisuseError, match=r"recorded.toy have different features \(size_x; size_x size_y\)"):
        check_sufficient(tasks, _data())


def _shuffled(tasks: Sequence[MeasuredTask]) -> list[MeasuredTask]:
    """The same tasks with their times in another order, so that these say nothing about configurations."""
    generator, noise = np.random.default_rng(0), []
    for measured in tasks:
        seconds = measured.seconds.copy()
        seconds[measured.known] = generator.permutation(seconds[measured.known])
        noise.append(MeasuredTask(measured.task, seconds))
    return noise


def test_noise_is_told_from_times_that_depend_on_the_configuration() -> None:
    tasks = measured_tasks(_data(12, 40), held_out=False)
    related = relation(folds_of(tasks, seed=0))
    assert related.correlation > 0.5
    assert not related.missing
    assert not related.doubtful
    noise = relation(folds_of(_shuffled(tasks), seed=0))
    assert noise.missing
    few = relation(folds_of(_shuffled(measured_tasks(_data(6, 3), held_out=False)), seed=0))
    assert not few.missing  # a few measurements cannot show that there is no relation


def test_every_problem_is_held_out_once_from_models_that_saw_no_problem_near_it() -> None:
    tasks = measured_tasks(data(20, held_out=0, sampled=5), held_out=False)
    folds = folds_of(tasks, seed=1)
    assert len(folds) == FOLDS
    held_out = [(measured.problem, measured.device) for fold in folds for measured in fold.held_out]
    assert sorted(map(str, held_out)) == sorted(str((measured.problem, measured.device)) for measured in tasks)
    for fold in folds:
        assert not fold.near
        assert not any(near(seen.problem, unseen.problem) for seen in fold.fitting for unseen in fold.held_out)
