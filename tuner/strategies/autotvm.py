"""AutoTVM's search: boosted trees rank configurations, simulated annealing over their scores finds a batch to measure.

After Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018), sections 3 and 4, and its implementation in
TVM (XGBTuner). The model has a pairwise rank objective. Parallel Markov chains walk over its scores and continue from
batch to batch. A batch is picked greedily from the best configurations that they visited, by score plus a bonus for
values of parameters that the batch does not have yet; a share of it is random. AutoTVM's batches of 64 are meant for
thousands of trials; ours are smaller because our budgets are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers

from ..cost_models.trees import CostModel, TaskFeatures
from .searcher import Searcher
from .strategy import SearchContext

BATCH = 16  # configurations planned with one model; the search begins with as many random ones
CHAINS = 128
STEPS = 120  # of each chain for each plan; the paper's 500 gain nothing in spaces of this size
HOT = 1.0  # first temperature of the walk, in standard deviations of the first scores; it falls linearly to 0
CANDIDATES = 4  # the batch is picked from this many times its size of the best configurations visited
DIVERSITY = 0.3  # bonus for each new value of a parameter, in standard deviations of the candidates' scores
RANDOM = 0.05  # share of random configurations (epsilon-greedy)
SCORED_AT_ONCE = 50_000  # configurations; smaller tasks are scored at once, which is faster than step by step


class AutoTVM(Searcher):
    """Proposes `BATCH` random configurations, then batches planned with a model fitted on all results."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context)
        self._features = TaskFeatures(self.task)
        self._all = self._features(np.arange(len(self.task))) if len(self.task) <= SCORED_AT_ONCE else None
        self._chains = self.generator.integers(len(self.task), size=CHAINS)
        self._plan: list[int] = []

    def propose(self, count: int) -> list[int]:
        if len(self.observed) < BATCH or self.best is None:
            return self.fresh(min(count, max(1, BATCH - int(self.proposed.sum()))))
        if not self._plan:
            self._plan = self._planned()
        numbers, self._plan = self._plan[:count], self._plan[count:]
        return numbers

    def _planned(self) -> list[int]:
        """The next batch, best first, then its random configurations."""
        observed = np.array(self.observed)
        seed = int(self.generator.integers(2**31))
        model = CostModel.ranking(self._features(observed), self.seconds[observed], seed)
        whole = None if self._all is None else model.predict(self._all)

        def score(numbers: Numbers) -> NDArray[np.float64]:
            return model.predict(self._features(numbers)) if whole is None else whole[numbers]

        candidates = self._walk(score)
        batch = self._diverse(candidates, score(candidates)) if len(candidates) else []
        random_count = int((self.generator.random(BATCH) < RANDOM).sum())
        batch = batch[:BATCH - random_count]
        return batch + self.fresh(BATCH - len(batch), batch)

    def _walk(self, score: Callable[[Numbers], NDArray[np.float64]]) -> Numbers:
        """Move the chains on; return the best new configurations that they visit, best first."""
        current = self._chains
        energy = score(current)
        visited = dict(zip(current.tolist(), energy.tolist(), strict=True))
        hot = HOT * max(float(energy.std()), 1e-6)
        for step in range(STEPS):
            neighbours = self.task.step(current, self.generator, tries=2)
            next_energy = score(neighbours)
            visited.update(zip(neighbours.tolist(), next_energy.tolist(), strict=True))
            temperature = max(hot * (1 - step / STEPS), 1e-9)
            chance = np.exp(np.minimum(0.0, (energy - next_energy) / temperature))
            accepted = self.generator.random(CHAINS) < chance
            current, energy = np.where(accepted, neighbours, current), np.where(accepted, next_energy, energy)
        self._chains = current
        numbers = self.unproposed(np.array(list(visited)))
        order = np.argsort([visited[number] for number in numbers.tolist()], kind="stable")
        return numbers[order[:CANDIDATES * BATCH]]

    def _diverse(self, candidates: Numbers, scores: NDArray[np.float64]) -> list[int]:
        """Pick up to BATCH candidates greedily, by score and by the number of parameter values that they add."""
        bonus = DIVERSITY * max(float(scores.std()), 1e-9)
        covered: set[tuple[int, int, int]] = set()
        values = [self._values(number) for number in candidates.tolist()]
        left = set(range(len(candidates)))
        batch: list[int] = []
        while left and len(batch) < BATCH:
            chosen = min(left, key=lambda index: (scores[index] - bonus * len(values[index] - covered), index))
            left.remove(chosen)
            covered |= values[chosen]
            batch.append(int(candidates[chosen]))
        return batch

    def _values(self, number: int) -> set[tuple[int, int, int]]:
        """The values of a configuration as (space, parameter, index of the value)."""
        index, row = self.task.locate(number)
        return {(index, column, int(value)) for column, value in enumerate(self.task.spaces[index].rows[row])}
