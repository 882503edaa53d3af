"""Trees of measured times: what they say of kernels of which little is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.forest import WORST
from tests.support.synthetic import DIRECT, WIDE, problems, seconds
from tests.support.tasks import task_of

OPTIONS = TreesOptions(rounds=200, models=2, threads=1)
SLOW = replace(DIRECT, name="fake.slow")


def measured(index: int, slow_rows: int) -> MeasuredTask:
    """The times of a kernel, and of some configurations of another that is 10 times as slow as the best."""
    fast, slow = (SearchSpace(kernel, problems(8)[index], WIDE) for kernel in (DIRECT, SLOW))
    times = seconds(fast)
    others = np.full(len(slow), np.nan)
    others[:slow_rows] = 10 * np.nanmin(times)
    return MeasuredTask(task_of(fast, slow), np.concatenate([times, others]))


def test_a_kernel_of_which_a_few_slow_configurations_are_known_is_not_expected_to_be_fast() -> None:
    trees = Trees([measured(index, slow_rows=1) for index in range(4)], OPTIONS)
    asked = measured(5, slow_rows=0).task
    fast, slow = np.split(trees.predict(asked.spaces), [len(asked.spaces[0])])
    assert slow.min() > 1.5
    assert fast.min() < 0.3


def test_a_kernel_without_times_is_expected_to_be_slowest() -> None:
    trees = Trees([measured(index, slow_rows=0) for index in range(4)], OPTIONS)
    asked = measured(5, slow_rows=0).task
    assert (trees.predict(asked.spaces[1:]) == WORST).all()
