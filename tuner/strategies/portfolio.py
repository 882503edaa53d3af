"""Portfolio: the default strategy. It chooses among methods of proposing by the speed of their earlier proposals.

The context's `seeds` (the predictor's proposals) come first. Then a surrogate (`Surrogate`) predicts the time of every
configuration and its uncertainty. Two methods share all results: *global* takes the greatest expected improvement in
the whole space (Jones, Schonlau and Welch, 1998); *local* takes the same among the neighbours of the fastest
configurations, as Droplet Search would. The method whose proposals were faster is chosen more often. The improvement to
expect is small, medium and large in turn, as Jones (2001) advises for models that are too sure: aiming only at the
likeliest improvement stalls among near-ties.

With a history, or with a predictor that knows how slow each configuration should be, a surrogate starts from these
times and corrects them. A second surrogate without them learns from the same results; as soon as they are likelier
under it, it decides. It also decides every HEDGE-th proposal if the history is of other devices, and otherwise after
HEDGED_RESULTS results. Times of other devices also predict how fast the best configuration is.
Without that, a search that starts among slow configurations could not know it: the first results only show that they
are similar.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats

from ..cost_models.gaussian_process import FLAT, MeanPrior
from ..cost_models.surrogate import MAX_POOL, Surrogate, squash, squashed_log
from ..cost_models.transfer import WORST, Sources, sources
from .searcher import Searcher
from .strategy import SearchContext

START = 10  # random configurations before the first fit, without seeds and history
MAX_MEASUREMENTS = 320  # on which a surrogate is conditioned
ELITE = 3  # fast configurations whose neighbours the local method proposes
ELITE_DISTANCE = 3  # minimum number of parameters in which they differ, so that their neighbours hardly overlap
TARGETS = (0.03, 0.1, 0.3)  # improvements to expect, in turn, in log time
HEDGE = 4  # with a history, every HEDGE-th proposal is by the surrogate without it: at once if it is of other devices
HEDGED_RESULTS = 12  # otherwise from so many results on; earlier it costs more than it gains
MIN_RESULTS = 4  # before the evidence of the surrogates is compared
FADING_RESULTS = 20  # after which the best time that the history predicts no longer counts
MEAN_WEIGHT = 1.0  # of that prediction at the beginning, in measurements
BATCH = 4  # configurations proposed before new results are needed; fewer are better, and slower


def expected_times(context: SearchContext) -> Sources | None:
    """The times to expect before anything is measured: from the history, from the predictor, or from both.

    Times of the same problem on other devices tell more than the predictor. Times of other problems and the predictor
    count alike, each with a linear term of its own in the surrogate.
    """
    history = sources(context.task, context.history, context.seed)
    if not len(context.slowness) or (history is not None and history.fastest is not None):
        return history
    slowness = np.minimum(np.array(context.slowness, float), WORST)
    if history is None:
        return Sources(slowness, slowness[:, None])
    return Sources((history.prior + slowness) / 2, np.column_stack([history.by_source, slowness]))


class Portfolio(Searcher):
    """Proposes the context's seeds first and learns from its history."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context)
        self._context = context
        self._seeds = self.valid_numbers(context.seeds)
        self._conditioned: list[int] = []  # numbers on which the surrogates are conditioned
        self._pending: dict[int, float] = {}  # proposed, without a result yet: the predicted value of each number
        self._fitted = -1  # number of results at the last fit of the hyperparameters
        self._credit = {"global": 1.0, "local": 1.0}  # of each method
        self._proposals = dict.fromkeys(self._credit, 0)  # of each method
        self._method_of: dict[int, str] = {}  # the method that proposed each number
        self._near: dict[int, Numbers] = {}  # the neighbours of numbers that were fastest

    # The next four are made when the seeds have been proposed, so that these are measured at once.

    @cached_property
    def _expected(self) -> Sources | None:
        return expected_times(self._context)

    @cached_property
    def _without_history(self) -> Surrogate:
        return Surrogate(self.task, self.generator)

    @cached_property
    def _surrogate(self) -> Surrogate:
        """The surrogate with the times to expect; the one without history if nothing is expected."""
        if self._expected is None:
            return self._without_history
        return Surrogate(self.task, self.generator, self._expected.prior, self._expected.by_source)

    @cached_property
    def _base(self) -> Numbers:
        """The configurations that are always in the pool: all, or a sample."""
        if len(self.task) <= MAX_POOL:
            return np.arange(len(self.task))
        return np.sort(self.generator.choice(len(self.task), MAX_POOL, replace=False))

    @property
    def _fastest(self) -> float | None:
        """The best time that the history predicts."""
        return None if self._expected is None else self._expected.fastest

    def propose(self, count: int) -> list[int]:
        if self._seeds:
            numbers, self._seeds = self._seeds[:count], self._seeds[count:]
            return numbers
        if self._surrogate is self._without_history and (len(self.observed) < START or self.best is None):
            return self.fresh(min(count, max(1, START - int(self.proposed.sum()))))
        self._update()
        numbers = []
        for _ in range(min(count, BATCH)):
            number = self._choose(numbers)
            if number is None:
                break
            numbers.append(number)
        return numbers or self.fresh(count)

    def learn(self, number: int, measurement: Measurement) -> None:
        self._pending.pop(number, None)
        method = self._method_of.get(number)
        if method is not None:
            seconds = self.seconds[self.observed]
            rank = float((seconds < self.seconds[number]).mean())
            self._credit[method] = 0.9 * self._credit[method] + 0.1 * (1 - rank) ** 8

    def _values(self, numbers: Sequence[int]) -> Floats:
        """The values that surrogates learn: squashed log(time / reference).

        A failure has the value of the slowest, a configuration without a result the value that was predicted.
        """
        seconds = self.seconds[np.array(numbers, dtype=np.int64)]
        correct = np.isfinite(seconds)
        values = np.full(len(seconds), 1.0)
        values[correct] = squash(np.log(seconds[correct] / self._reference()))
        values[np.isinf(seconds)] = values[correct].max(initial=1.0)
        for index in np.flatnonzero(np.isnan(seconds)).tolist():
            values[index] = self._pending[numbers[index]]
        return values

    def _reference(self) -> float:
        """The time to which values are relative: the best so far, or early on a faster one from the history."""
        best = 1.0 if self.best is None else float(self.seconds[self.best])
        if self._fastest is None or self.best is None:
            return self._fastest or best
        return float(best * min(1.0, self._fastest / best)**self._fading())

    def _fading(self) -> float:
        """The influence of the predicted best time: it falls from 1 to 0 with the number of results."""
        return max(0.0, 1 - len(self.observed) / FADING_RESULTS)

    def _mean_prior(self, surrogate: Surrogate) -> MeanPrior:
        """The mean that a surrogate with history should have if the history predicts the best time correctly."""
        if self._fastest is None or surrogate is self._without_history:
            return FLAT
        return MeanPrior(squashed_log(self._fastest / self._reference()), MEAN_WEIGHT * self._fading())

    def _update(self) -> None:
        """Condition the surrogates on all results; from time to time fit their hyperparameters again."""
        count = len(self.observed)
        too_many = len(self._conditioned) > MAX_MEASUREMENTS + 50
        if self._fitted < 0 or count - self._fitted >= max(3, count // 10) or too_many:
            self._conditioned = self._chosen()
            if self._fitted < 0 or len(self._base) < len(self.task):
                self._pool = np.unique(np.concatenate([self._base, *map(self._neighbours, self._elite())]))
                for surrogate in self._surrogates():
                    surrogate.set_pool(self._pool)
            numbers = np.array(self._conditioned, dtype=np.int64)
            values = self._values(self._conditioned)
            for surrogate in self._surrogates():
                surrogate.fit(numbers, values, 20 if self._fitted < 0 else 8)
                surrogate.condition(numbers)
            self._fitted = count
        conditioned = set(self._conditioned)
        for number in self.observed[self._fitted:]:
            if number not in conditioned:
                self._append(number)

    def _surrogates(self) -> list[Surrogate]:
        if self._surrogate is self._without_history:
            return [self._surrogate]
        return [self._surrogate, self._without_history]

    def _chosen(self) -> list[int]:
        """The measurements to condition on: all, or the fastest half and as many random others."""
        pending = list(self._pending)
        if len(self.observed) <= MAX_MEASUREMENTS:
            return self.observed + pending
        order = sorted(self.observed, key=lambda number: (self.seconds[number], number))
        half = MAX_MEASUREMENTS // 2
        rest: list[int] = self.generator.permutation(order[half:])[:half].tolist()
        return order[:half] + rest + pending

    def _append(self, number: int) -> None:
        for surrogate in self._surrogates():
            surrogate.append(number)
        self._conditioned.append(number)

    def _elite(self) -> list[int]:
        """The fastest configuration, the fastest of those far from it, and so on."""
        correct = [number for number in self.observed if np.isfinite(self.seconds[number])]
        elite: list[int] = []
        for number in sorted(correct, key=lambda number: (self.seconds[number], number)):
            distances = self.task.differences(number, np.array(elite, np.int64))
            if len(elite) < ELITE and (distances >= ELITE_DISTANCE).all():
                elite.append(number)
        return elite

    def _neighbours(self, number: int) -> Numbers:
        if number not in self._near:
            self._near[number] = self.task.neighbours(number).numbers
        return self._near[number]

    def _deciding(self, numbers: Numbers, values: Floats) -> Surrogate:
        """The surrogate that decides the next proposal."""
        if self._surrogate is self._without_history or len(self.observed) < MIN_RESULTS:
            return self._surrogate
        is_hedged = self._fastest is not None or len(self.observed) >= HEDGED_RESULTS
        if is_hedged and sum(self._proposals.values()) % HEDGE == 0:
            return self._without_history
        return max(self._surrogates(),
                   key=lambda surrogate: surrogate.evidence(numbers, values, self._mean_prior(surrogate)))

    def _choose(self, excluded: list[int]) -> int | None:
        """The best configuration of the method that is chosen now; None if the pool has no new one."""
        numbers, values = np.array(self._conditioned, dtype=np.int64), self._values(self._conditioned)
        if len(numbers):
            surrogate = self._deciding(numbers, values)
            mean, deviation = surrogate.predict(numbers, values, self._mean_prior(surrogate))
        else:
            mean, deviation = self._surrogate.prior[self._pool], np.ones(len(self._pool))
        gain = -mean
        if self.best is not None:
            target = TARGETS[sum(self._proposals.values()) % len(TARGETS)]
            best = squashed_log(float(self.seconds[self.best]) / self._reference())
            gain = log_improvement(mean + target - best, deviation)
        is_new = ~self.proposed[self._pool]
        is_new[np.isin(self._pool, excluded)] = False
        if not is_new.any():
            return None
        method = max(self._credit, key=lambda name: self._credit[name] / (self._proposals[name] + 1))
        candidates = np.flatnonzero(is_new)
        if method == "local" and self.best is not None:
            near = np.concatenate([self._neighbours(number) for number in self._elite()])
            neighbours = np.flatnonzero(is_new & np.isin(self._pool, near))
            if len(neighbours):
                candidates = neighbours
        chosen = int(candidates[np.argmax(gain[candidates])])
        number = int(self._pool[chosen])
        self._proposals[method] += 1
        self._method_of[number] = method
        self._pending[number] = float(mean[chosen])
        self._append(number)
        return number


def log_improvement(mean: Floats, deviation: Floats) -> Floats:
    """The logarithm of the expected amount by which normal variables are below 0, accurate in the far tails too."""
    z = -mean / deviation
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    # Abramowitz and Stegun 26.2.17, for the lower tail
    t = 1 / (1 + 0.2316419 * np.abs(z))
    tail = density * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    below = np.where(z > 0, 1 - tail, tail)
    near = np.log(np.maximum(density + z * below, 1e-300))
    far = -z * z / 2 - 0.918938533 - 2 * np.log(np.maximum(np.abs(z), 1.0))
    return np.asarray(np.log(deviation) + np.where(z > -3.5, near, far))
