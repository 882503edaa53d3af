"""Choice: which solver is fastest, told from races by a model of sentences, and by boosted trees as a baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqtune.data.labels import Races

from ..sequence.vocabulary import Vocabulary
from .inputs import tree_columns
from .label_lessons import RaceLesson
from .scores import first_best
from .translator import SentenceModel

Entries = NDArray[np.int64]


@torch.inference_mode()
def choose(model: SentenceModel, vocabulary: Vocabulary, races: Races) -> Entries:
    """Per race the entry of the solver that the model takes for the fastest, among those that the race names.

    Solvers that the vocabulary lacks come last.
    """
    model.eval()
    known = {kernel.name for kernel in vocabulary.kernels}
    mine = np.array([name in known for name in races.names])[races.solver]
    scores = np.full(len(races.solver), -1e9)
    some = _only(races, mine)
    if len(some):
        lesson = RaceLesson.of(some, vocabulary)
        scores[mine] = np.concatenate([lesson.scores(model, rows)[0].numpy() for rows in np.array_split(
            np.arange(len(some)), len(some) // 2048 + 1)])
    return first_best(races, scores)


def _only(races: Races, keep: NDArray[np.bool_]) -> Races:
    """The races with some entries and their solvers alone; those that lose all are left out."""
    counts = np.add.reduceat(keep.astype(np.int64), races.starts[:-1])
    kept = races.take(np.flatnonzero(counts > 0))
    inside = keep[np.repeat(counts > 0, np.diff(races.starts))]
    used, solver = np.unique(kept.solver[inside], return_inverse=True)
    return Races(tuple(races.names[place] for place in used), kept.questions,
                 np.concatenate(([0], np.cumsum(counts[counts > 0]))), solver, kept.seconds[inside])


class TreeChoice:
    """A classifier of boosted trees: the winner of a race from its question."""

    def __init__(self, races: Races, rounds: int = 60, most: int = 60_000, threads: int = 2, seed: int = 0) -> None:
        from seqtune.tuner.cost_models.boosting import Boosting

        chosen = np.random.default_rng(seed).permutation(len(races))[:most]
        races = races.take(np.sort(chosen))
        winners = races.solver[first_best(races, -races.seconds)]
        self._solvers, wanted = np.unique(winners, return_inverse=True)
        self._names = races.names
        boosting = Boosting("multi:softprob", rounds, depth=8, rate=0.2, threads=threads, seed=seed,
                            more={"num_class": max(2, len(self._solvers))})
        self._model: Any = boosting.grow(tree_columns(races.questions), wanted)

    def choose(self, races: Races) -> Entries:
        """Per race the entry of the likeliest winner among the solvers that it names."""
        races = races.named(self._names)
        margins = np.asarray(self._model.inplace_predict(tree_columns(races.questions), predict_type="margin"))
        column = np.full(len(races.names), -1)
        column[self._solvers] = np.arange(len(self._solvers))
        owner = np.repeat(np.arange(len(races)), np.diff(races.starts))
        scores = np.where(column[races.solver] >= 0, margins[owner, column[races.solver]], -1e9)
        return first_best(races, scores)
