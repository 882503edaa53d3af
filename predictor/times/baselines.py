"""Baselines: what a prediction must be compared with. Each is fitted on measured tasks and proposes
configurations.

A new baseline is one class here and one line in BASELINES.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Configuration, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..candidate import Candidate
from ..model import Predictor
from ..trees.cost_trees import Trees

Wish = tuple[str, dict[str, Setting]]  # a kernel's name and settings that need not be valid


class Default:
    """The safe default alone, whatever the number asked for."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [[Candidate(task.default)] for task in tasks]


class Fixed:
    """The configurations that serve the device's training problems best: a greedy portfolio, made legal.

    The first is the one with the best geometric mean over the training problems of that type; each next one adds most
    to the mean of the best so far. Training problems were sampled, so what was not measured is filled in by trees
    fitted on the same training rows: without that most candidates would be judged on a handful of problems.
    """

    candidates = 150  # looked at in full: those with the best mean where they are valid as they are
    length = 16  # of the portfolio: more than are asked for, since made legal some become equal

    def __init__(self, fitting: Sequence[MeasuredTask], trees: Trees) -> None:
        groups: dict[tuple[str, str], list[MeasuredTask]] = {}
        for measured in fitting:
            groups.setdefault((measured.device.name, measured.problem.type), []).append(measured)
        self._portfolios = {group: self._portfolio(found, trees) for group, found in groups.items()}

    def _portfolio(self, fitting: list[MeasuredTask], trees: Trees) -> list[Wish]:
        seen: dict[tuple[str, str], Wish] = {}
        for measured in fitting:
            for number in np.flatnonzero(measured.known).tolist():
                configuration = measured.task[number]
                seen.setdefault((configuration.kernel, configuration.key),
                                (configuration.kernel, dict(configuration.settings)))
        wishes = list(seen.values())
        filled = [-np.log1p(trees.fill(measured)) for measured in fitting]
        direct = np.full((len(wishes), len(fitting)), np.nan)
        for column, (measured, scores) in enumerate(zip(fitting, filled, strict=True)):
            for kernel in measured.task.kernels:
                chosen = np.array([index for index, wish in enumerate(wishes) if wish[0] == kernel.name], int)
                numbers = measured.task.numbers(kernel.name, [wishes[index][1] for index in chosen])
                direct[chosen[numbers >= 0], column] = scores[numbers[numbers >= 0]]
        # for this first cut, a wish that is not valid as it is counts as the problem's average one
        missing = np.nanmean(direct, axis=0)
        hopeful = np.where(np.isnan(direct), missing, direct).mean(axis=1)
        chosen = np.argsort(-hopeful, kind="stable")[:self.candidates]
        scores = np.array([[self._legal_score(wishes[place], measured, log_shares) for measured, log_shares
                            in zip(fitting, filled, strict=True)] for place in chosen])
        best = np.full(len(fitting), -np.inf)
        portfolio: list[Wish] = []
        for _ in range(min(self.length, len(chosen))):
            gains = np.maximum(scores, best).mean(axis=1)
            pick = int(np.argmax(gains))
            portfolio.append(wishes[chosen[pick]])
            best = np.maximum(best, scores[pick])
            scores[pick] = -np.inf
        return portfolio

    @staticmethod
    def _legal_score(wish: Wish, measured: MeasuredTask, log_shares: Floats) -> float:
        for space, part in measured.task.parts():
            if space.kernel.name == wish[0]:
                return float(log_shares[part][nearest_row(space, wish[1])])
        return float(log_shares[measured.task.number(measured.task.default)])

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [made_legal(self._portfolios.get((task.device.name, task.problem.type), []), task, count)
                for task in tasks]


class Nearest:
    """The best measured configurations of the training problem most like this one on the same device, made legal."""

    def __init__(self, fitting: Sequence[MeasuredTask]) -> None:
        self._groups: dict[tuple[str, str], list[MeasuredTask]] = {}
        for measured in fitting:
            self._groups.setdefault((measured.device.name, measured.problem.type), []).append(measured)
        self._points = {group: np.array([_point(measured.problem) for measured in found])
                        for group, found in self._groups.items()}

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [made_legal(self._wishes(task), task, count) for task in tasks]

    def _wishes(self, task: Task) -> list[Wish]:
        group = task.device.name, task.problem.type
        if group not in self._groups:
            return []
        points = self._points[group]
        scale = np.maximum(points.std(axis=0), 1e-9)
        scale[points.std(axis=0) == 0] = 1.0
        distance = (((points - _point(task.problem)) / scale) ** 2).sum(axis=1)
        neighbour = self._groups[group][int(np.argmin(distance))]
        order = np.argsort(np.where(np.isnan(neighbour.seconds), np.inf, neighbour.seconds), kind="stable")
        good = order[:int(np.isfinite(neighbour.seconds).sum())][:50]
        best = [neighbour.task[number] for number in good.tolist()]
        return [(configuration.kernel, dict(configuration.settings)) for configuration in best]


class TreesMethod:
    """Every valid configuration scored by trees; the best scores."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [[Candidate(task[number]) for number
                 in np.argsort(self._trees.predict(task.spaces), kind="stable")[:count].tolist()] for task in tasks]


@dataclass(frozen=True, slots=True)
class Baseline:
    """How a baseline is fitted, and what it promises."""

    fit: Callable[[Sequence[MeasuredTask], Callable[[], Trees]], Predictor]  # the second makes trees, once for all
    fills: bool  # it proposes fewer than asked for only where the task has fewer


BASELINES: Mapping[str, Baseline] = {
    "fixed": Baseline(lambda fitting, trees: Fixed(fitting, trees()), fills=False),
    "nearest": Baseline(lambda fitting, trees: Nearest(fitting), fills=False),
    "trees": Baseline(lambda fitting, trees: TreesMethod(trees()), fills=True),
    "default": Baseline(lambda fitting, trees: Default(), fills=False),
}


def random_log_share(shares: Floats, count: int) -> float:
    """Exact expectation of the log of the best of `count` shares drawn without replacement.

    The i-th smallest of m (from 1) is the best of n with probability C(i-1, n-1) / C(m, n).
    """
    ordered = np.log(np.sort(shares))
    total, count = len(ordered), min(count, len(ordered))
    ways = [_log_choose(place, count - 1) - _log_choose(total, count) for place in range(count - 1, total)]
    return float(np.exp(ways) @ ordered[count - 1:])


def _log_choose(total: int, count: int) -> float:
    return lgamma(total + 1) - lgamma(count + 1) - lgamma(total - count + 1)


def made_legal(wishes: Iterable[Wish], task: Task, count: int) -> list[Candidate]:
    """The nearest valid configuration of each wish, distinct, up to `count`; the default where no wish fits."""
    found: dict[Configuration, None] = {}
    by_name = {space.kernel.name: space for space in task.spaces}
    for name, wish in wishes:
        if name in by_name and len(found) < count:
            found.setdefault(by_name[name][nearest_row(by_name[name], wish)])
    return [Candidate(configuration) for configuration in found or [task.default]]


def nearest_row(space: SearchSpace, wish: Mapping[str, Setting]) -> int:
    """The row that `SearchSpace.nearest` gives; quick where the wish is valid as it is."""
    row = int(space.find([wish])[0])
    return row if row >= 0 else space.row(space.nearest(wish))


def _point(problem: Problem) -> NDArray[np.float64]:
    """Features and derived quantities as numbers: sizes by their logarithm, words by which they are, unknown as 0."""
    found = []
    for value in problem.names().values():
        if isinstance(value, int | float):
            found.append(np.log2(value + 1.0))
        else:
            found.append(0.0 if value is None else float(zlib.crc32(str(value).encode()) % 97))
    return np.array(found)
