"""Baselines: simple predictors to compare a model with. Each is fitted to measured tasks and proposes configurations.

All but the trees are experts of the mixture (`predictor/mixture/experts.py`), asked alone. A new baseline is one class
and one line in BASELINES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import lgamma

import numpy as np

from seqtune.kernels.task import Floats, MeasuredTask, Task

from ...analytic import AnalyticPredictor
from ...candidate import Candidate
from ...mixture.experts import Default, Fixed, Nearest
from ...mixture.portfolio import portfolios
from ...mixture.winners import Entry, Winners
from ...model import Predictor
from ...trees.cost_trees import Trees


class TreesMethod:
    """The baseline that scores every valid configuration with trees and proposes the best."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [[Candidate(task[number]) for number
                 in np.argsort(self._trees.predict(task.spaces), kind="stable")[:count].tolist()] for task in tasks]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A function that fits a baseline, and a property of its proposals."""

    fit: Callable[[Sequence[MeasuredTask], Callable[[], Trees]], Predictor]  # the second argument fits trees once
    fills: bool  # whether it proposes fewer than `count` only if the task has fewer


ANALYTIC = "analytic"  # the baseline for GPUs alone
BASELINES: Mapping[str, Baseline] = {
    "fixed": Baseline(lambda fitting, trees: Fixed(Winners.of(portfolios(fitting, trees()))), fills=False),
    "nearest": Baseline(lambda fitting, trees: Nearest(Winners.of(map(Entry.of, fitting))), fills=False),
    "trees": Baseline(lambda fitting, trees: TreesMethod(trees()), fills=True),
    "default": Baseline(lambda fitting, trees: Default(), fills=False),
    ANALYTIC: Baseline(lambda fitting, trees: AnalyticPredictor(), fills=True),
}


def random_log_share(shares: Floats, count: int) -> float:
    """The exact expectation of the log of the best of `count` shares drawn without replacement.

    The i-th smallest of m (from 1) is the best of n with probability C(i-1, n-1) / C(m, n).
    """
    ordered = np.log(np.sort(shares))
    total, count = len(ordered), min(count, len(ordered))
    log_probabilities = [_log_choose(index, count - 1) - _log_choose(total, count)
                         for index in range(count - 1, total)]
    return float(np.exp(log_probabilities) @ ordered[count - 1:])


def _log_choose(total: int, count: int) -> float:
    return lgamma(total + 1) - lgamma(count + 1) - lgamma(total - count + 1)
