"""TrialSelection: which configurations of which problems are kept of a long data set, in bounded memory.

All choices follow from hashes, so they do not depend on the order of the rows, on how files divide them, or on the
size of batches:

- Problems are drawn. Those whose hash is below a threshold are kept, with all their devices; the threshold is halved
  whenever more than `most_cases` pairs of problem and device are left.
- A case, which is a problem on a device, keeps its fastest configurations and, of the others, those with the least
  hashes, which are a uniform sample (bottom-k sampling; Cohen and Kaplan, 2007). A configuration among the k least of
  all rows is among the k least of every part of them, so that none is missed in a single pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Seconds = NDArray[np.float32]

PARTS = 4  # of a case's kept configurations: one part holds the fastest, the others a sample
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # splitmix64 (Steele, Lea and Flood, 2014)


@dataclass(frozen=True, slots=True)
class SelectionLimits:
    """The most that a selection keeps. The shipped data sets have 2,800 cases with 280,000 configurations."""

    cases: int = 4_000  # about 0.25 MB of targets and 0.1 MB of times each
    configurations: int = 500_000  # of all cases; the trees are fitted to them, with some KB of features each
    each: int = 1_024  # of one case; a quarter more are held during the pass: 140 MB in all
    pending: int = 2_000_000  # trials that are collected before they are reduced: 56 MB


class TrialSelection:
    """The trials seen so far, reduced; a trial is a configuration of a case with its least time."""

    def __init__(self, limits: SelectionLimits) -> None:
        self.limits = limits
        self.halvings = 0  # times that the threshold for problems was halved
        self._parts: list[tuple[Hashes, Hashes, Hashes, Seconds]] = []
        self._pending = 0

    def add(self, problem: Hashes, case: Hashes, trial: Hashes, seconds: Seconds) -> None:
        """Add rows, (row,) each: hashes of the problem, the case and the trial, and seconds, infinite for a failure."""
        drawn = self._drawn(problem)
        self._parts.append((problem[drawn], case[drawn], trial[drawn], seconds[drawn]))
        self._pending += int(drawn.sum())
        if self._pending > self.limits.pending:
            self._reduce()

    def chosen(self) -> tuple[Hashes, int, int]:
        """The hashes of the chosen trials in ascending order, the number of cases, and the most trials of one case."""
        _, case, trial, seconds = self._reduce()
        index, distinct = pd.factorize(case)
        counts = np.bincount(index, minlength=len(distinct))
        low, high = 1, self.limits.each
        while low < high:  # the largest number per case with which all fit
            middle = (low + high + 1) // 2
            low, high = (middle, high) if np.minimum(counts, middle).sum() <= self.limits.configurations else (
                low, middle - 1)
        fast = (_rank(index, seconds) < low // PARTS) & np.isfinite(seconds)
        return trial[_rank(index, ~fast) < low], len(distinct), low

    def _drawn(self, problem: Hashes) -> NDArray[np.bool_]:
        return np.asarray(problem >> np.uint64(64 - self.halvings) == 0) if self.halvings else np.ones(
            len(problem), bool)

    def _reduce(self) -> tuple[Hashes, Hashes, Hashes, Seconds]:
        """Keep each trial once, with its least time, and of each case what `limits.each` allows."""
        problem, case, trial = (np.concatenate([np.empty(0, np.uint64), *(part[column] for part in self._parts)])
                                for column in range(3))
        seconds = np.concatenate([np.empty(0, np.float32), *(part[3] for part in self._parts)])
        self._parts.clear()
        order = np.argsort(trial)
        trial = trial[order]
        begins = np.flatnonzero(np.append(True, trial[1:] != trial[:-1])) if len(trial) else order
        seconds = np.minimum.reduceat(seconds[order], begins) if len(trial) else seconds
        problem, case, trial = problem[order[begins]], case[order[begins]], trial[begins]
        while len(pd.unique(case)) > self.limits.cases:
            self.halvings += 1
            drawn = self._drawn(problem)
            problem, case, trial, seconds = problem[drawn], case[drawn], trial[drawn], seconds[drawn]
        each = self.limits.each  # kept by hash as well: what is among the fastest now may not be later
        index = pd.factorize(case)[0]
        chosen = (_rank(index, seconds) < each // PARTS) | (_rank(index) < each)
        reduced = problem[chosen], case[chosen], trial[chosen], seconds[chosen]
        self._parts.append(reduced)
        self._pending = 0
        return reduced


def _rank(case: NDArray[np.int64], before: NDArray[Any] | None = None) -> NDArray[np.int64]:
    """The rank of each trial among those of its case, by the values of `before`, if given, and then by its hash.

    Trials are in the order of their hashes. Cases have indices from 0, which a radix sort orders if they are small.
    """
    by_value = np.arange(len(case)) if before is None else np.argsort(before, kind="stable")
    indices = case[by_value]
    order = np.argsort(indices.astype(np.uint16) if len(case) and case.max() < 1 << 16 else indices, kind="stable")
    counts = np.bincount(case)
    ranks = np.empty(len(case), np.int64)
    ranks[by_value[order]] = np.arange(len(case)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


def mixed(*hashes: Hashes) -> Hashes:
    """Mix hashes into one, whose bits are all like random bits; the order of the arguments matters."""
    value = np.zeros_like(hashes[0])
    for part in hashes:
        value = (value ^ part) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in _ROUNDS:
            value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
        value ^= value >> np.uint64(31)
    return value
