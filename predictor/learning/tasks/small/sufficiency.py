"""Sufficiency: refuses data from which nothing can be learned, with one line that says what is missing.

Two kinds of data are refused: too few problems whose configurations differ in time, and times that have nothing to do
with the configurations. The second is a test: simple trees are fitted without a fold of the problems, and their order
of a fold's configurations is compared with the measured order (Spearman's rank correlation). Under chance alone the
correlation of n configurations has the variance 1 / (n - 1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from seqtune.data.measured_tasks import Data
from seqtune.errors import MisuseError
from seqtune.kernels.task import MeasuredTask

from ....trees.cost_trees import Trees, TreesOptions
from ..shortage import FEWEST, NEEDED, NO_PROBLEM, shortage
from .folds import Fold

QUICK = TreesOptions(rounds=100, rate=0.1, models=1, threads=1)  # good enough to see whether there is anything to learn
UNRELATED = 0.2  # rank correlation; those of 30 problems of seven of our kernel families have 0.48 to 0.93


def check_sufficient(tasks: Sequence[MeasuredTask], data: Data) -> None:
    """Check that enough training problems have different times, and equal features. Raises MisuseError."""
    part = data.frame[~data.frame["held_out"].astype(bool)]
    if not tasks:
        failed = len(part) and not (part["status"] == "correct").any()
        raise MisuseError(f"all {len(part)} measurements failed: nothing to learn from" if failed else NO_PROBLEM)
    several = {measured.problem.key for measured in tasks if measured.known.sum() > 1}
    different = {measured.problem.key for measured in tasks if _distinct_times(measured) > 1}
    total = len({measured.problem.key for measured in tasks})
    if (lacking := shortage(total)) is not None:
        raise MisuseError(lacking)
    if len(several) < FEWEST:
        raise MisuseError(f"{len(several)} of {total} problems have more than one measured configuration; {NEEDED}, "
                          "each with some dozen configurations (seqtune tune --trials 50)")
    if len(different) < FEWEST:
        raise MisuseError(f"{len(different)} of {total} problems have configurations of different times; {NEEDED}")
    _check_features(tasks)


def _distinct_times(measured: MeasuredTask) -> int:
    """The number of distinct times of a task; failures count as one."""
    return len(np.unique(measured.seconds[measured.known]))


def _check_features(tasks: Sequence[MeasuredTask]) -> None:
    """Check that the problems of every kernel have the same features, as models need. Raises MisuseError."""
    names: dict[str, dict[tuple[str, ...], None]] = defaultdict(dict)
    for measured in tasks:
        for family in measured.task.kernels:
            names[family.name].setdefault(tuple(measured.problem.names()))
    for kernel_name, lists in names.items():
        if len(lists) > 1:
            first, second = (" ".join(names) for names in list(lists)[:2])
            raise MisuseError(f"problems of {kernel_name} have different features ({first}; {second:.100}); name the "
                              "same ones for all")


@dataclass(frozen=True, slots=True)
class Relation:
    """How well trees order the configurations of problems that they have not seen."""

    correlation: float  # mean rank correlation with the measured times, weighted by the configurations less 1
    error: float  # standard deviation of that mean if there is no relation

    @property
    def missing(self) -> bool:
        """Whether the times are unrelated to the configurations, as far as this can be known."""
        return self.correlation < 2 * self.error and self.correlation + 2 * self.error < UNRELATED

    @property
    def doubtful(self) -> bool:
        """Whether chance alone may order the configurations as well."""
        return self.correlation < 2 * self.error


def relation(folds: Sequence[Fold]) -> Relation:
    """Measure the relation of configurations and times by cross-validation."""
    total = weight = 0.0
    for fold in folds:
        trees = Trees(fold.fitting, QUICK)
        for measured in fold.held_out:
            ran = np.isfinite(measured.seconds)
            if ran.sum() < 2 or not all(trees.knows(kernel) for kernel in measured.task.kernels):
                continue
            narrowed = MeasuredTask(measured.task.narrowed(ran), measured.seconds[ran])
            ranks = [pd.Series(numbers).rank().to_numpy()
                     for numbers in (trees.predict(narrowed.task.spaces), narrowed.seconds)]
            if min(float(rank.std()) for rank in ranks) > 0:
                total += (len(ranks[0]) - 1) * float(np.corrcoef(ranks[0], ranks[1])[0, 1])
            weight += len(ranks[0]) - 1
    return Relation(total / weight, 1 / math.sqrt(weight)) if weight else Relation(0.0, math.inf)
