"""SyntheticRanker: small trees that expect the times of the synthetic kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker
from tests.support.synthetic import DIRECT, WIDE, problems, seconds


@cache
def ranker() -> Ranker:
    """A ranker fitted to a sample of 12 problems on the wide device; the kernel must be registered."""
    fitting = []
    for problem in problems(24)[12:]:
        space = SearchSpace(DIRECT, problem, WIDE)
        times = seconds(space)
        times[np.arange(len(space)) % max(1, len(space) // 40) > 0] = np.nan
        fitting.append(MeasuredTask(Task(problem, WIDE, (space,)), times))
    return Ranker.of(Trees(fitting, TreesOptions(rounds=20, models=1, depth=4, threads=1)))
