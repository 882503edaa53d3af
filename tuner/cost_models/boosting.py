"""Boosting: how boosted trees grow (XGBoost), for cost models, the translator's teacher and models of labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

RANKING = "rank:pairwise"


@dataclass(frozen=True, slots=True)
class Boosting:
    """The settings of a training. The same settings, rows and seed give the same trees."""

    objective: str  # xgboost's name; the rows of RANKING belong to one group
    rounds: int  # trees, times the classes
    depth: int
    rate: float
    subsample: float = 0.8  # share of the rows that a tree sees
    columns: float = 0.6  # share of the features that a tree sees
    least_weight: float = 1.0  # per leaf
    bins: int = 128  # thresholds tried per feature
    threads: int = 1
    seed: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)  # settings of one objective, by xgboost's names

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by xgboost's names."""
        return {"objective": self.objective, "max_depth": self.depth, "eta": self.rate, "subsample": self.subsample,
                "colsample_bytree": self.columns, "min_child_weight": self.least_weight, "max_bin": self.bins,
                "nthread": self.threads, "seed": self.seed, "tree_method": "hist", "verbosity": 0, **self.more}

    def grow(self, rows: NDArray[np.float32], target: NDArray[Any],
             weights: NDArray[np.float64] | None = None) -> xgboost.Booster:
        """Trees fitted on rows (row, feature) with a target and a weight each."""
        return self.grow_several(rows, target, weights, 1)[0]

    def grow_several(self, rows: NDArray[np.float32], target: NDArray[Any], weights: NDArray[np.float64] | None,
                     count: int) -> list[xgboost.Booster]:
        """Several boosters on the same rows, with seeds from `seed` on."""
        if self.objective == RANKING:
            matrix = xgboost.DMatrix(rows, target, nthread=self.threads)
            matrix.set_group([len(rows)])
        else:
            matrix = xgboost.QuantileDMatrix(rows, target, weight=weights, max_bin=self.bins, nthread=self.threads)
        return [xgboost.train({**self.settings, "seed": self.seed + number}, matrix, self.rounds)
                for number in range(count)]
