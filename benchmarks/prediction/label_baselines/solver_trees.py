"""TreeChoice: boosted trees that choose the solver, a baseline of the choice by a model of sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqtune.data.labels import SolverTimings
from seqtune.predictor.choices.inputs import tree_columns
from seqtune.predictor.learning.choices.scores import Entries, first_best


class TreeChoice:
    """A classifier of boosted trees that predicts the fastest solver from the features of a query.

    It learns from all timings, as the model of sentences does; with `most`, from a random sample of so many queries,
    which is quicker.
    """

    def __init__(self, timings: SolverTimings, rounds: int = 60, most: int | None = None, threads: int = 2,
                 seed: int = 0) -> None:
        from seqtune.tuner.cost_models.boosting import Boosting

        if most is not None:
            chosen = np.random.default_rng(seed).permutation(len(timings))[:most]
            timings = timings.take(np.sort(chosen))
        fastest = timings.solver[first_best(timings, -timings.seconds)]
        self.fitted_to = timings
        self._solvers, wanted = np.unique(fastest, return_inverse=True)
        self._names = timings.names
        boosting = Boosting("multi:softprob", rounds, depth=8, rate=0.2, threads=threads, seed=seed,
                            more={"num_class": max(2, len(self._solvers))})
        self._model: Any = boosting.grow(tree_columns(timings.queries), wanted)

    def choose(self, timings: SolverTimings) -> Entries:
        """The entry of the most probable solver among the timed solvers of each query, (query,)."""
        timings = timings.named(self._names)
        margins = np.asarray(self._model.inplace_predict(tree_columns(timings.queries), predict_type="margin"))
        column = np.full(len(timings.names), -1)
        column[self._solvers] = np.arange(len(self._solvers))
        owner = np.repeat(np.arange(len(timings)), np.diff(timings.starts))
        scores = np.where(column[timings.solver] >= 0, margins[owner, column[timings.solver]], -1e9)
        return first_best(timings, scores)
