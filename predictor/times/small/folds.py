"""Folds: the parts of a cross-validation. Each problem is judged once, by models that have not seen it.

The parts have whole problems, with all their devices. Problems near a judged one (see `similarity.near`) are not
fitted to either, since they would give its answer away. If so few problems would remain that nothing could be learned,
near ones are kept, and the fold says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.kernels.task import MeasuredTask

FOLDS = 5
LEAST_SHARE = 0.5  # of the other problems that remain without those near a judged one; else near ones are kept


@dataclass(frozen=True, slots=True)
class Fold:
    """The tasks to fit to and those to judge by."""

    fitting: Sequence[MeasuredTask]
    judged: Sequence[MeasuredTask]
    near: bool  # whether a fitted problem is near a judged one


def folds_of(tasks: Sequence[MeasuredTask], seed: int, count: int = FOLDS) -> list[Fold]:
    """Split tasks into folds by their problems; there are at most as many folds as problems."""
    keys = sorted({measured.problem.key for measured in tasks})
    order = np.random.default_rng([seed, len(keys)]).permutation(len(keys))
    folds: list[Fold] = []
    for number in range(min(count, len(keys))):
        chosen = {keys[index] for index in order[number::count]}
        judged = [measured for measured in tasks if measured.problem.key in chosen]
        others = [measured for measured in tasks if measured.problem.key not in chosen]
        index = SimilarityIndex(measured.problem for measured in judged)
        far = [measured for measured in others if not index.has_near(measured.problem)]
        enough = len({measured.problem.key for measured in far}) >= LEAST_SHARE * (len(keys) - len(chosen))
        folds.append(Fold(far if enough else others, judged, not enough))
    return folds
