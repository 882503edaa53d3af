"""Searcher: the base class of our strategies. It records by number what was proposed and what was observed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.row_index import Numbers

from .strategy import SearchContext


class Searcher:
    """A Strategy that works with the numbers of the task. A subclass defines `propose` and may define `learn`."""

    def __init__(self, context: SearchContext) -> None:
        self.task = context.task
        self.trials = context.trials
        self.generator = np.random.default_rng(context.seed)
        self.seconds = np.full(len(self.task), np.nan)  # by number; nan: no result yet, inf: failed
        self.proposed = np.zeros(len(self.task), bool)  # by number
        self.observed: list[int] = []  # numbers with a result, in the order of the results
        self.best: int | None = None  # the number of the fastest
        self.order = self.generator.permutation(len(self.task))  # in which `fresh` draws numbers
        self._numbers: dict[Configuration, int] = {}
        self._drawn = 0  # numbers at the beginning of `order` that were all proposed

    def ask(self, count: int) -> list[Configuration]:
        """Propose up to `count` new configurations; an empty list if all were proposed."""
        if len(self._numbers) == len(self.task):
            return []
        configurations = []
        for number in self.propose(count):
            self.proposed[number] = True
            configuration = self.task[number]
            self._numbers[configuration] = number
            configurations.append(configuration)
        return configurations

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        """Observe the result of a configuration that was proposed."""
        number = self._numbers[configuration]
        self.seconds[number] = measurement.seconds
        self.observed.append(number)
        if np.isfinite(measurement.seconds) and (self.best is None or measurement.seconds < self.seconds[self.best]):
            self.best = number
        self.learn(number, measurement)

    def propose(self, count: int) -> list[int]:
        """Return up to `count` distinct numbers that were not proposed before; an empty list ends the search.

        It is called only while there are such numbers.
        """
        raise NotImplementedError

    def learn(self, number: int, measurement: Measurement) -> None:
        """Learn from the result of a number, after `seconds`, `observed` and `best` were updated."""

    def fresh(self, count: int, excluded: Sequence[int] = ()) -> list[int]:
        """Draw up to `count` random numbers that were not proposed and are not in `excluded`."""
        chosen: list[int] = []
        taken = set(excluded)
        while self._drawn < len(self.order) and self.proposed[self.order[self._drawn]]:
            self._drawn += 1
        for number in map(int, self.order[self._drawn:]):
            if len(chosen) == count:
                break
            if not self.proposed[number] and number not in taken:
                chosen.append(number)
        return chosen

    def unproposed(self, numbers: Numbers) -> Numbers:
        """The given numbers without those that were proposed."""
        return numbers[~self.proposed[numbers]]

    def valid_numbers(self, seeds: Sequence[Configuration]) -> list[int]:
        """The numbers of the given configurations, without duplicates and without invalid configurations."""
        numbers = (self.task.find(configuration) for configuration in dict.fromkeys(seeds))
        return [number for number in numbers if number is not None]
