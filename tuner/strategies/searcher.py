"""Searcher: what strategies that think in numbers of the union share: what was asked, what was told, what is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.union import Numbers, Union


class Searcher:
    """A Strategy whose subclass says which numbers to `propose`, and may `learn` from each result."""

    def __init__(self, spaces: Sequence[SearchSpace], seed: int, trials: int | None = None) -> None:
        self.union = Union(spaces)
        self.trials = trials
        self.generator = np.random.default_rng(seed)
        self.seconds = np.full(len(self.union), np.nan)  # by number; nan: not told, inf: failed
        self.asked = np.zeros(len(self.union), bool)
        self.told: list[int] = []  # numbers, in order
        self.best: int | None = None  # the number of the fastest
        self._numbers: dict[Configuration, int] = {}
        self._order = self.generator.permutation(len(self.union))  # for `fresh`
        self._drawn = 0

    def ask(self, count: int) -> list[Configuration]:
        """Up to `count` configurations that were not asked for before; none when all were."""
        if len(self._numbers) == len(self.union):
            return []
        found = []
        for number in self.propose(count):
            self.asked[number] = True
            configuration = self.union[number]
            self._numbers[configuration] = number
            found.append(configuration)
        return found

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        """The result of a configuration that was asked for."""
        number = self._numbers[configuration]
        self.seconds[number] = measurement.seconds
        self.told.append(number)
        if np.isfinite(measurement.seconds) and (self.best is None or measurement.seconds < self.seconds[self.best]):
            self.best = number
        self.learn(number, measurement)

    def propose(self, count: int) -> list[int]:
        """1 to `count` distinct numbers that were not asked for; called only while there are any."""
        raise NotImplementedError

    def learn(self, number: int, measurement: Measurement) -> None:
        """The result of that number, after it was noted."""

    def fresh(self, count: int, besides: Sequence[int] = ()) -> list[int]:
        """Up to `count` random numbers that were neither asked for nor are in `besides`."""
        found: list[int] = []
        taken = set(besides)
        while self._drawn < len(self._order) and self.asked[self._order[self._drawn]]:
            self._drawn += 1
        for number in map(int, self._order[self._drawn:]):
            if len(found) == count:
                break
            if not self.asked[number] and number not in taken:
                found.append(number)
        return found

    def unasked(self, numbers: Numbers) -> Numbers:
        """Those that were not asked for."""
        return numbers[~self.asked[numbers]]
