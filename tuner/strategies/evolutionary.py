"""Evolutionary search: the fastest configurations have children, which mix two parents' values and change some.

A steady-state genetic algorithm (Whitley, GENITOR, 1989) with tournaments, uniform crossover and elitism: a child
takes the place of the slowest as soon as it is faster.
"""

from __future__ import annotations

import numpy as np

from .searcher import Searcher

POPULATION = 20  # kept; as many random ones come first
TOURNAMENT = 3  # of so many drawn, the fastest is a parent
TRIES = 30  # children of which none is valid and new, before a mutant or a random one takes the place


class Evolutionary(Searcher):
    """The population is the fastest so far of all that was told."""

    def propose(self, count: int) -> list[int]:
        born = [number for number in self.told if np.isfinite(self.seconds[number])]
        if len(self.told) < POPULATION or len(born) < 2:
            return self.fresh(min(count, max(1, POPULATION - len(self.told))))
        population = sorted(born, key=lambda number: self.seconds[number])[:POPULATION]
        found: list[int] = []
        while len(found) < count:
            child = self._child(population, found)
            if child is None:
                return found + self.fresh(count - len(found), found)
            found.append(child)
        return found

    def _child(self, population: list[int], besides: list[int]) -> int | None:
        for _ in range(TRIES):
            mother, father = (population[int(self.generator.integers(len(population), size=TOURNAMENT).min())]
                              for _ in range(2))
            child = self._mutant(self._crossing(mother, father))
            if not self.asked[child] and child not in besides:
                return child
        return None

    def _crossing(self, mother: int, father: int) -> int:
        """Each value from either parent; the mother where that is not valid or they are of two kernels."""
        (index, row), (other, other_row) = self.task.locate(mother), self.task.locate(father)
        if index != other:
            return mother
        space = self.task.spaces[index]
        mixed = np.where(self.generator.random(space.rows.shape[1]) < 0.5, space.rows[row], space.rows[other_row])
        child = int(space.index.find(mixed[None])[0])
        return mother if child < 0 else child + int(self.task.begins[index])

    def _mutant(self, number: int) -> int:
        """One parameter changed in most cases, two in some, none in some."""
        steps = int(self.generator.choice(3, p=(0.3, 0.5, 0.2)))
        found = np.array([number])
        for _ in range(steps):
            found = self.task.step(found, self.generator)
        return int(found[0])
