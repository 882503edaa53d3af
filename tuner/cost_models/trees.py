"""CostModel: boosted trees (XGBoost) that score configurations without running them; a lower score is faster.

`ranking` fits the order of some hundred measurements of one problem, as AutoTVM does (Chen et al., "Learning to
Optimize Tensor Programs", NeurIPS 2018); `regression` fits log(time / best time) over many problems and devices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xgboost
from numpy.typing import NDArray

from seqtune.kernels.union import Numbers, Union

from .features import features

Floats = NDArray[np.float64]

_COMMON = {"nthread": 1, "verbosity": 0, "tree_method": "hist", "max_bin": 64}
_RANKING = {**_COMMON, "objective": "rank:pairwise", "lambdarank_pair_method": "mean",
            "lambdarank_num_pair_per_sample": 8, "max_depth": 4, "eta": 0.25, "min_child_weight": 0.1,
            "subsample": 0.9, "colsample_bytree": 0.7}
_RANKING_ROUNDS = 40  # 20 ms for 200 measurements
_REGRESSION = {**_COMMON, "objective": "reg:squarederror", "max_depth": 6, "eta": 0.1, "min_child_weight": 3.0,
               "subsample": 0.8, "colsample_bytree": 0.6}
_REGRESSION_ROUNDS = 150


class CostModel:
    """A fitted model. It predicts from rows of features as it was fitted on."""

    def __init__(self, booster: xgboost.Booster) -> None:
        self._booster = booster

    @classmethod
    def ranking(cls, rows: NDArray[np.float32], seconds: Floats, seed: int = 0) -> CostModel:
        """From the times of one problem on one device; what failed (inf) is slower than all else."""
        speed = seconds.min() / seconds  # AutoTVM's label: throughput relative to the best
        matrix = xgboost.DMatrix(rows, -speed, nthread=1)
        matrix.set_group([len(rows)])
        return cls(xgboost.train({**_RANKING, "seed": seed}, matrix, _RANKING_ROUNDS))

    @classmethod
    def regression(cls, rows: NDArray[np.float32], ratios: Floats, weights: Floats, seed: int = 0) -> CostModel:
        """From log(time / best time of its problem and device)."""
        matrix = xgboost.QuantileDMatrix(rows, ratios, weight=weights, nthread=1, max_bin=64)
        return cls(xgboost.train({**_REGRESSION, "seed": seed}, matrix, _REGRESSION_ROUNDS))

    def predict(self, rows: NDArray[np.float32]) -> Floats:
        """A score for each row."""
        return np.asarray(self._booster.inplace_predict(rows), dtype=float)


class UnionFeatures:
    """The features of a union's configurations side by side; those of other kernels are missing (nan)."""

    def __init__(self, union: Union) -> None:
        self._union = union
        self._widths = [features(space, np.arange(min(1, len(space)))).shape[1] for space in union.spaces]

    def __call__(self, numbers: Numbers | Sequence[int]) -> NDArray[np.float32]:
        """(number, feature)"""
        wanted, union = np.asarray(numbers), self._union
        found = np.full((len(wanted), sum(self._widths)), np.nan, np.float32)
        left = 0
        for space, begin, end, width in zip(union.spaces, union.begins, union.ends, self._widths, strict=True):
            mine = np.flatnonzero((wanted >= begin) & (wanted < end))
            if len(mine):
                found[mine, left:left + width] = features(space, wanted[mine] - int(begin))
            left += width
        return found
