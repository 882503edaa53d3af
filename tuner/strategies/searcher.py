"""Searcher: the base of our strategies. It keeps by number what was asked, what was told and what is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.row_index import Numbers

from .strategy import SearchContext


class Searcher:
    """A Strategy whose subclass says which numbers of the task to `propose`, and may `learn` from each result."""

    def __init__(self, context: SearchContext) -> None:
        self.task = context.task
        self.trials = context.trials
        self.generator = np.random.default_rng(context.seed)
        self.seconds = np.full(len(self.task), np.nan)  # by number; nan: not told, inf: failed
        self.asked = np.zeros(len(self.task), bool)
        self.told: list[int] = []  # numbers, in order
        self.best: int | None = None  # the number of the fastest
        self.order = self.generator.permutation(len(self.task))  # of the random configurations (`fresh`)
        self._numbers: dict[Configuration, int] = {}
        self._drawn = 0

    def ask(self, count: int) -> list[Configuration]:
        """Up to `count` configurations that were not asked for before; none when all were."""
        if len(self._numbers) == len(self.task):
            return []
        configurations = []
        for number in self.propose(count):
            self.asked[number] = True
            configuration = self.task[number]
            self._numbers[configuration] = number
            configurations.append(configuration)
        return configurations

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        """The result of a configuration that was asked for."""
        number = self._numbers[configuration]
        self.seconds[number] = measurement.seconds
        self.told.append(number)
        if np.isfinite(measurement.seconds) and (self.best is None or measurement.seconds < self.seconds[self.best]):
            self.best = number
        self.learn(number, measurement)

    def propose(self, count: int) -> list[int]:
        """Up to `count` distinct numbers that were not asked for, none to end the search; called while there are any.
        """
        raise NotImplementedError

    def learn(self, number: int, measurement: Measurement) -> None:
        """The result of that number, after it was noted."""

    def fresh(self, count: int, besides: Sequence[int] = ()) -> list[int]:
        """Up to `count` random numbers that were neither asked for nor are in `besides`."""
        chosen: list[int] = []
        taken = set(besides)
        while self._drawn < len(self.order) and self.asked[self.order[self._drawn]]:
            self._drawn += 1
        for number in map(int, self.order[self._drawn:]):
            if len(chosen) == count:
                break
            if not self.asked[number] and number not in taken:
                chosen.append(number)
        return chosen

    def unasked(self, numbers: Numbers) -> Numbers:
        """The given numbers without those that were asked for."""
        return numbers[~self.asked[numbers]]

    def valid_numbers(self, seeds: Sequence[Configuration]) -> list[int]:
        """The numbers of configurations to begin with, distinct; those that are not valid are left out."""
        numbers = (self.task.find(configuration) for configuration in dict.fromkeys(seeds))
        return [number for number in numbers if number is not None]
