"""Portfolio: the default. Several ways to choose the next configuration share what is told, and earn their turns.

`seeds` (the predictor's beam) come first. Then a surrogate of the whole space (`Surrogate`) says of every configuration
how fast it is likely to be. The ways are: *anywhere*, the greatest expected improvement in the whole space (Jones,
Schonlau and Welch, 1998); and *near*, the same among the neighbours of the fastest, as Droplet Search would try them.
Whose proposals turn out faster has more turns. What is to be improved upon is in turn a little, more and much faster
than the best, as Jones (2001) advises where a model may be too sure: else a search lingers where many are nearly as
fast as the best.

With a history the surrogate starts from what the sources say and corrects it. Beside it a surrogate without history
learns from the same results; as soon as these are likelier under the latter, it decides.
After other devices the latter has some turns anyway.
The times of other devices also tell about how fast the fastest is, so that a start where all is slow is known to be
one: the first results tell no more than that they are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats

from ..cost_models.gaussian_process import FLAT, Level
from ..cost_models.surrogate import POOL, Guess, bend, bent
from ..cost_models.transfer import sources
from .searcher import Searcher
from .strategy import SearchContext

START = 10  # random configurations where nothing is known
MOST = 320  # measurements that a surrogate rests on
ELITE = 3  # fast configurations whose neighbours are near
APART = 3  # parameters at least in which they differ: neighbours of neighbours are one elite's
TARGETS = (0.03, 0.1, 0.3)  # improvements that are hoped for in turn, in log time
HEDGE = 4  # after other devices one proposal of so many asks the surrogate without
EVIDENCE = 4  # results at least that tell which surrogate is likelier
SOON = 20  # results after which the level that the history expects no longer counts
LEVEL = 1.0  # how many measurements that level is worth at first
AT_ONCE = 4  # configurations proposed on the same knowledge; fewer are better, and slower


class Portfolio(Searcher):
    """Begins with the context's seeds and learns from its history."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context)
        self._seeds = self.valid_numbers(context.seeds)
        found = sources(self.task, context.history, context.seed) if context.history else None
        self._guess = self._scratch = Guess(self.task, self.generator)
        if found is not None:
            self._guess = Guess(self.task, self.generator, found.prior, found.each)
        self._fastest = None if found is None else found.fastest
        self._base = np.arange(len(self.task))
        if len(self.task) > POOL:
            self._base = np.sort(self.generator.choice(len(self.task), POOL, replace=False))
        self._pool = self._base
        self._given: list[int] = []  # numbers that the guesses rest on
        self._believed: dict[int, float] = {}  # of those not told yet
        self._fitted = -1  # how many were told when the weights were learned
        self._ways = {"anywhere": 1.0, "near": 1.0}  # credit
        self._turns = dict.fromkeys(self._ways, 0)
        self._whose: dict[int, str] = {}

    def propose(self, count: int) -> list[int]:
        if self._seeds:
            found, self._seeds = self._seeds[:count], self._seeds[count:]
            return found
        if self._guess is self._scratch and (len(self.told) < START or self.best is None):
            return self.fresh(min(count, max(1, START - int(self.asked.sum()))))
        self._update()
        found = []
        for _ in range(min(count, AT_ONCE)):
            number = self._choose(found)
            if number is None:
                break
            found.append(number)
        return found or self.fresh(count)

    def learn(self, number: int, measurement: Measurement) -> None:
        self._believed.pop(number, None)
        way = self._whose.get(number)
        if way is not None:
            told = self.seconds[self.told]
            rank = float((told < self.seconds[number]).mean())
            self._ways[way] = 0.9 * self._ways[way] + 0.1 * (1 - rank) ** 8

    def _values(self, numbers: Sequence[int]) -> Floats:
        """What surrogates learn: bent log(time / reference); failures like the slowest, those not told as believed."""
        seconds = self.seconds[np.array(numbers, dtype=np.int64)]
        good = np.isfinite(seconds)
        found = np.full(len(seconds), 1.0)
        found[good] = bend(np.log(seconds[good] / self._reference()))
        found[np.isinf(seconds)] = found[good].max(initial=1.0)
        for place in np.flatnonzero(np.isnan(seconds)).tolist():
            found[place] = self._believed[numbers[place]]
        return found

    def _reference(self) -> float:
        """The time that values are relative to: the best, and as long as it is expected a faster one."""
        best = 1.0 if self.best is None else float(self.seconds[self.best])
        if self._fastest is None or self.best is None:
            return self._fastest or best
        return float(best * min(1.0, self._fastest / best)**self._early())

    def _early(self) -> float:
        """From 1 to 0."""
        return max(0.0, 1 - len(self.told) / SOON)

    def _level(self, guess: Guess) -> Level:
        """Where a guess from the history expects what it thinks the fastest."""
        if self._fastest is None or guess is self._scratch:
            return FLAT
        return Level(bent(self._fastest / self._reference()), LEVEL * self._early())

    def _update(self) -> None:
        """Lets the guesses know all that was told; now and then learns weights anew."""
        told = len(self.told)
        if self._fitted < 0 or told - self._fitted >= max(3, told // 10) or len(self._given) > MOST + 50:
            self._given = self._chosen()
            if self._fitted < 0 or len(self._base) < len(self.task):
                near = [self.task.neighbours(number).numbers for number in self._elite()]
                self._pool = np.unique(np.concatenate([self._base, *near]))
                for guess in self._guesses():
                    guess.watch(self._pool)
            numbers = np.array(self._given, dtype=np.int64)
            values = self._values(self._given)
            for guess in self._guesses():
                guess.learn(numbers, values, 20 if self._fitted < 0 else 8)
                guess.condition(numbers)
            self._fitted = told
        known = set(self._given)
        for number in self.told[self._fitted:]:
            if number not in known:
                self._add(number)

    def _guesses(self) -> list[Guess]:
        return [self._guess] if self._guess is self._scratch else [self._guess, self._scratch]

    def _chosen(self) -> list[int]:
        """The measurements to rest on: all, or the fastest and as many random others."""
        pending = list(self._believed)
        if len(self.told) <= MOST:
            return self.told + pending
        order = sorted(self.told, key=lambda number: (self.seconds[number], number))
        rest: list[int] = self.generator.permutation(order[MOST // 2:])[:MOST // 2].tolist()
        return order[:MOST // 2] + rest + pending

    def _add(self, number: int) -> None:
        for guess in self._guesses():
            guess.append(number)
        self._given.append(number)

    def _elite(self) -> list[int]:
        """The fastest, the fastest of those far from it, and so on."""
        good = [number for number in self.told if np.isfinite(self.seconds[number])]
        found: list[int] = []
        for number in sorted(good, key=lambda number: (self.seconds[number], number)):
            if len(found) < ELITE and (self.task.differences(number, np.array(found, np.int64)) >= APART).all():
                found.append(number)
        return found

    def _trusted(self, numbers: Numbers, values: Floats) -> Guess:
        if self._guess is self._scratch or len(self.told) < EVIDENCE:
            return self._guess
        if self._fastest is not None and sum(self._turns.values()) % HEDGE == 0:
            return self._scratch
        return max(self._guesses(), key=lambda guess: guess.evidence(numbers, values, self._level(guess)))

    def _choose(self, besides: list[int]) -> int | None:
        """The best of the way whose turn it is."""
        numbers, values = np.array(self._given, dtype=np.int64), self._values(self._given)
        if len(numbers):
            guess = self._trusted(numbers, values)
            mean, deviation = guess.predict(numbers, values, self._level(guess))
        else:
            mean, deviation = self._guess.prior[self._pool], np.ones(len(self._pool))
        worth = -mean
        if self.best is not None:
            target = TARGETS[sum(self._turns.values()) % len(TARGETS)]
            best = bent(float(self.seconds[self.best]) / self._reference())
            worth = log_improvement(mean + target - best, deviation)
        open_ = ~self.asked[self._pool]
        open_[np.isin(self._pool, besides)] = False
        if not open_.any():
            return None
        way = max(self._ways, key=lambda one: self._ways[one] / (self._turns[one] + 1))
        candidates = np.flatnonzero(open_)
        if way == "near" and self.best is not None:
            near = np.concatenate([self.task.neighbours(number).numbers for number in self._elite()])
            close = np.flatnonzero(open_ & np.isin(self._pool, near))
            if len(close):
                candidates = close
        chosen = int(candidates[np.argmax(worth[candidates])])
        number = int(self._pool[chosen])
        self._turns[way] += 1
        self._whose[number] = way
        self._believed[number] = float(mean[chosen])
        self._add(number)
        return number


def log_improvement(mean: Floats, deviation: Floats) -> Floats:
    """The logarithm of the expected improvement on 0 of normal variables, far tails included."""
    z = -mean / deviation
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    # Abramowitz and Stegun 26.2.17, for the lower tail
    t = 1 / (1 + 0.2316419 * np.abs(z))
    tail = density * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    below = np.where(z > 0, 1 - tail, tail)
    near = np.log(np.maximum(density + z * below, 1e-300))
    far = -z * z / 2 - 0.918938533 - 2 * np.log(np.maximum(np.abs(z), 1.0))
    return np.asarray(np.log(deviation) + np.where(z > -3.5, near, far))
