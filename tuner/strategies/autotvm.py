"""AutoTVM's search: boosted trees rank configurations, simulated annealing over their scores finds a batch to measure.

After Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018), sections 3 and 4, and its implementation in
TVM (XGBTuner): a pairwise rank objective; parallel Markov chains that walk over the model's score and live on from
batch to batch; of the best they met, a batch is picked greedily by score plus a bonus for values of parameters that
the batch does not have yet; and a share of random configurations. Its batches of 64 are for thousands of trials;
ours are smaller, since budgets are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers

from ..cost_models.trees import CostModel, TaskFeatures
from .searcher import Searcher
from .strategy import SearchContext

BATCH = 16  # planned with one model; as many random ones come first
CHAINS = 128
STEPS = 120  # of each chain and plan: the paper's 500 bring nothing in spaces of this size
HOT = 1.0  # temperature of the walk, in standard deviations of the scores met; it falls linearly to zero
CANDIDATES = 4  # times the batch: the best that the chains met, of which the batch is picked
DIVERSITY = 0.3  # what covering one parameter's value anew is worth, in standard deviations of the candidates' scores
RANDOM = 0.05  # share of random configurations (epsilon-greedy)
SCORED_AT_ONCE = 50_000  # smaller spaces are scored whole, which is quicker than step by step


class AutoTVM(Searcher):
    """`BATCH` random ones, then batches planned with a model of all that was told."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context)
        self._features = TaskFeatures(self.task)
        self._all = self._features(np.arange(len(self.task))) if len(self.task) <= SCORED_AT_ONCE else None
        self._chains = self.generator.integers(len(self.task), size=CHAINS)
        self._plan: list[int] = []

    def propose(self, count: int) -> list[int]:
        if len(self.told) < BATCH or self.best is None:
            return self.fresh(min(count, max(1, BATCH - int(self.asked.sum()))))
        if not self._plan:
            self._plan = self._planned()
        found, self._plan = self._plan[:count], self._plan[count:]
        return found

    def _planned(self) -> list[int]:
        told = np.array(self.told)
        model = CostModel.ranking(self._features(told), self.seconds[told], int(self.generator.integers(2**31)))
        whole = None if self._all is None else model.predict(self._all)

        def score(numbers: Numbers) -> NDArray[np.float64]:
            return model.predict(self._features(numbers)) if whole is None else whole[numbers]

        candidates = self._walk(score)
        batch = self._diverse(candidates, score(candidates)) if len(candidates) else []
        lucky = int((self.generator.random(BATCH) < RANDOM).sum())
        batch = batch[:BATCH - lucky]
        return batch + self.fresh(BATCH - len(batch), batch)

    def _walk(self, score: Callable[[Numbers], NDArray[np.float64]]) -> Numbers:
        """The best that the chains meet and that were not asked for, best first."""
        here = self._chains
        energy = score(here)
        met = dict(zip(here.tolist(), energy.tolist(), strict=True))
        hot = HOT * max(float(energy.std()), 1e-6)
        for step in range(STEPS):
            there = self.task.step(here, self.generator, tries=2)
            next_energy = score(there)
            met.update(zip(there.tolist(), next_energy.tolist(), strict=True))
            temperature = max(hot * (1 - step / STEPS), 1e-9)
            chance = np.exp(np.minimum(0.0, (energy - next_energy) / temperature))
            goes = self.generator.random(CHAINS) < chance
            here, energy = np.where(goes, there, here), np.where(goes, next_energy, energy)
        self._chains = here
        numbers = self.unasked(np.array(list(met)))
        order = np.argsort([met[number] for number in numbers.tolist()], kind="stable")
        return numbers[order[:CANDIDATES * BATCH]]

    def _diverse(self, candidates: Numbers, scores: NDArray[np.float64]) -> list[int]:
        """Up to BATCH of them, picked greedily by score and by how many values of parameters they add."""
        bonus = DIVERSITY * max(float(scores.std()), 1e-9)
        covered: set[tuple[int, int, int]] = set()
        values = [self._values(number) for number in candidates.tolist()]
        left = set(range(len(candidates)))
        found: list[int] = []
        while left and len(found) < BATCH:
            chosen = min(left, key=lambda one: (scores[one] - bonus * len(values[one] - covered), one))
            left.remove(chosen)
            covered |= values[chosen]
            found.append(int(candidates[chosen]))
        return found

    def _values(self, number: int) -> set[tuple[int, int, int]]:
        index, row = self.task.locate(number)
        return {(index, column, int(value)) for column, value in enumerate(self.task.spaces[index].rows[row])}
