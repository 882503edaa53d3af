"""TreeChoice: boosted trees that choose the solver, a baseline of the choice by a model of sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.integrations.miopen.predictor.chains import tree_columns
from seqtune.integrations.miopen.predictor.labels import SolverTimings


class TreeChoice:
    """A classifier of boosted trees that predicts the fastest solver from the features of a query.

    It learns from a random sample of at most `most` queries.
    """

    def __init__(self, timings: SolverTimings, most: int, rounds: int = 60, threads: int = 2, seed: int = 0) -> None:
        from seqtune.tuner.cost_models.boosting import Boosting

        chosen = np.random.default_rng(seed).permutation(len(timings))[:most]
        timings = timings.take(np.sort(chosen))
        self._solvers, wanted = np.unique(timings.seconds.argmin(axis=1), return_inverse=True)
        boosting = Boosting("multi:softprob", rounds, depth=8, rate=0.2, threads=threads, seed=seed,
                            more={"num_class": max(2, len(self._solvers))})
        self._model: Any = boosting.grow(tree_columns(timings.pairs()), wanted)

    def choose(self, timings: SolverTimings) -> NDArray[np.int64]:
        """The most probable of the timed solvers of each query, (query,). The timings have the names of training."""
        columns = tree_columns(timings.pairs())
        margins = np.asarray(self._model.inplace_predict(columns, predict_type="margin"))
        scores = np.full(timings.seconds.shape, -1e9)
        scores[:, self._solvers] = margins[:, :len(self._solvers)]
        return np.asarray(np.where(np.isfinite(timings.seconds), scores, -np.inf).argmax(axis=1))
