"""Evolutionary search: children of the fastest configurations mix the values of two parents and change some of them.

A steady-state genetic algorithm (Whitley, GENITOR, 1989) with tournaments, uniform crossover and elitism: a child that
is faster than the slowest of the population replaces it.
"""

from __future__ import annotations

import numpy as np

from .searcher import Searcher

POPULATION = 20  # size of the population; the search begins with as many random configurations
TOURNAMENT = 3  # configurations drawn, of which the fastest becomes a parent
TRIES = 30  # children without a valid new one, after which a random configuration is proposed


class Evolutionary(Searcher):
    """The population is the fastest configurations observed so far."""

    def propose(self, count: int) -> list[int]:
        correct = [number for number in self.observed if np.isfinite(self.seconds[number])]
        if len(self.observed) < POPULATION or len(correct) < 2:
            return self.fresh(min(count, max(1, POPULATION - len(self.observed))))
        population = sorted(correct, key=lambda number: self.seconds[number])[:POPULATION]
        children: list[int] = []
        while len(children) < count:
            child = self._child(population, children)
            if child is None:
                return children + self.fresh(count - len(children), children)
            children.append(child)
        return children

    def _child(self, population: list[int], excluded: list[int]) -> int | None:
        """A new configuration that is not in `excluded`; None if `TRIES` children were not new."""
        for _ in range(TRIES):
            mother, father = (population[int(self.generator.integers(len(population), size=TOURNAMENT).min())]
                              for _ in range(2))
            child = self._mutated(self._crossed(mother, father))
            if not self.proposed[child] and child not in excluded:
                return child
        return None

    def _crossed(self, mother: int, father: int) -> int:
        """Take each value from a random parent; the mother if the result is invalid or the kernels differ."""
        (index, row), (father_index, father_row) = self.task.locate(mother), self.task.locate(father)
        if index != father_index:
            return mother
        space = self.task.spaces[index]
        mixed = np.where(self.generator.random(space.rows.shape[1]) < 0.5, space.rows[row], space.rows[father_row])
        child = int(space.index.find(mixed[None])[0])
        return mother if child < 0 else child + int(self.task.begins[index])

    def _mutated(self, number: int) -> int:
        """Change no parameter (p = 0.3), one (p = 0.5) or two (p = 0.2)."""
        steps = int(self.generator.choice(3, p=(0.3, 0.5, 0.2)))
        numbers = np.array([number])
        for _ in range(steps):
            numbers = self.task.step(numbers, self.generator)
        return int(numbers[0])
