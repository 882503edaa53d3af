"""CostModel: boosted trees (XGBoost) that score configurations without running them; a lower score is faster.

`ranking` fits the order of some hundred measurements of one problem, as AutoTVM does (Chen et al., "Learning to
Optimize Tensor Programs", NeurIPS 2018); `regression` fits log(time / best time) over many problems and devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .boosting import RANKING, Boosting
from .features import features

if TYPE_CHECKING:
    import xgboost

_RANKING = Boosting(
    RANKING, rounds=40, depth=4, rate=0.25, subsample=0.9, columns=0.7, least_weight=0.1, bins=64,  # 20 ms for 200 rows
    more={"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8})
_REGRESSION = Boosting("reg:squarederror", rounds=150, depth=6, rate=0.1, least_weight=3.0, bins=64)


class CostModel:
    """A fitted model. It predicts from rows with the features on which it was fitted."""

    def __init__(self, booster: xgboost.Booster) -> None:
        self._booster = booster

    @classmethod
    def ranking(cls, rows: NDArray[np.float32], seconds: Floats, seed: int = 0) -> CostModel:
        """Fit the order of one problem's times on one device; a failure (inf) is slower than everything else.

        Shapes: `rows` (row, feature), `seconds` (row,), of which at least one is finite.
        """
        speed = seconds.min() / seconds  # AutoTVM's label: throughput relative to the best
        return cls(replace(_RANKING, seed=seed).grow(rows, -speed))

    @classmethod
    def regression(cls, rows: NDArray[np.float32], ratios: Floats, weights: Floats, seed: int = 0) -> CostModel:
        """Fit `ratios`, log(time / best time of the same problem and device); shapes as in `ranking`."""
        return cls(replace(_REGRESSION, seed=seed).grow(rows, ratios, weights))

    def predict(self, rows: NDArray[np.float32]) -> Floats:
        """The score of each row (row, feature): lower is faster."""
        return np.asarray(self._booster.inplace_predict(rows), dtype=float)


class TaskFeatures:
    """The features of a task's configurations: each kernel has its own columns, which are nan for other kernels."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._widths = [features(space, np.arange(min(1, len(space)))).shape[1] for space in task.spaces]

    def __call__(self, numbers: Numbers | Sequence[int]) -> NDArray[np.float32]:
        """The features of the configurations with these numbers: (configuration, feature)."""
        numbers = np.asarray(numbers)
        table = np.full((len(numbers), sum(self._widths)), np.nan, np.float32)
        left = 0
        for (space, part), width in zip(self._task.parts(), self._widths, strict=True):
            chosen = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
            if len(chosen):
                table[chosen, left:left + width] = features(space, numbers[chosen] - part.start)
            left += width
        return table
