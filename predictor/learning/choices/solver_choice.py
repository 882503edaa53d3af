"""Solver choice: the fastest solver, predicted by a model of sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqtune.data.labels import SolverTimings

from ...sequence.beam import Allowed
from ...translator.numpy_translator import NumpyTranslator
from .scores import Entries, first_best

MOST_QUERIES = 2048  # read at once: their states take 100 MB


def choose(translator: NumpyTranslator, timings: SolverTimings) -> Entries:
    """The entry of the most probable solver among the timed solvers of each query, (query,).

    Solvers that the vocabulary lacks come last.
    """
    names = {kernel.name for kernel in translator.vocabulary.kernels}
    known = np.array([name in names for name in timings.names])[timings.solver]
    scores = np.full(len(timings.solver), -1e9)
    known_timings = _only(timings, known)
    if len(known_timings):
        scores[known] = np.concatenate([_scores(translator, known_timings.take(rows)) for rows in np.array_split(
            np.arange(len(known_timings)), len(known_timings) // MOST_QUERIES + 1)])
    return first_best(timings, scores)


def _scores(translator: NumpyTranslator, timings: SolverTimings) -> NDArray[np.float32]:
    """The log-probability of each timed solver, up to a constant for each query, (entry,)."""
    words = np.array([translator.vocabulary.kernel(name) for name in timings.names])[timings.solver]
    owner = np.repeat(np.arange(len(timings)), np.diff(timings.starts))
    unresolved = np.full((len(words), len(translator.vocabulary.derived)), np.nan, np.float32)
    return translator.start(timings.queries.pairs(), Allowed(owner, words, unresolved))[1]


def _only(timings: SolverTimings, keep: NDArray[np.bool_]) -> SolverTimings:
    """The timings with only the entries to keep and their solvers, without queries that lose all entries."""
    counts = np.add.reduceat(keep.astype(np.int64), timings.starts[:-1])
    remaining = timings.take(np.flatnonzero(counts > 0))
    inside = keep[np.repeat(counts > 0, np.diff(timings.starts))]
    used, solver = np.unique(remaining.solver[inside], return_inverse=True)
    return SolverTimings(tuple(timings.names[index] for index in used), remaining.queries,
                 np.concatenate(([0], np.cumsum(counts[counts > 0]))), solver, remaining.seconds[inside])
