"""Folds: the parts of a cross-validation. Each problem is held out once, from models that have not seen it.

The parts have whole problems, with all their devices. Problems near a held-out one (see `similarity.near`) are not
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
LEAST_SHARE = 0.5  # of the other problems that remain without those near a held-out one; else near ones are kept


@dataclass(frozen=True, slots=True)
class Fold:
    """The tasks to fit to and those to evaluate on."""

    fitting: Sequence[MeasuredTask]
    held_out: Sequence[MeasuredTask]
    near: bool  # whether a fitted problem is near a held-out one


def folds_of(tasks: Sequence[MeasuredTask], seed: int, count: int = FOLDS) -> list[Fold]:
    """Split tasks into folds by their problems; there are at most as many folds as problems."""
    keys = sorted({measured.problem.key for measured in tasks})
    order = np.random.default_rng([seed, len(keys)]).permutation(len(keys))
    folds: list[Fold] = []
    for number in range(min(count, len(keys))):
        chosen = {keys[index] for index in order[number::count]}
        held_out = [measured for measured in tasks if measured.problem.key in chosen]
        others = [measured for measured in tasks if measured.problem.key not in chosen]
        index = SimilarityIndex(measured.problem for measured in held_out)
        far = [measured for measured in others if not index.has_near(measured.problem)]
        enough = len({measured.problem.key for measured in far}) >= LEAST_SHARE * (len(keys) - len(chosen))
        folds.append(Fold(far if enough else others, held_out, not enough))
    return folds
