"""Baselines: simple predictors to compare a model with. Each is fitted to measured tasks and proposes configurations.

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

Preference = tuple[str, dict[str, Setting]]  # a kernel's name and settings, which need not be valid


class Default:
    """The baseline that proposes only the safe default."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [[Candidate(task.default)] for task in tasks]


class Fixed:
    """The baseline that proposes the same configurations for all problems of an operation: a greedy portfolio.

    The first configuration has the best geometric mean speed over the device's training problems; each next one
    improves the mean of the best so far most. Configurations that are invalid for a problem are replaced by the nearest
    valid ones. Training problems have only some of their configurations measured, so trees fitted to the same rows
    estimate the other times; else most candidates would be compared on a few problems.
    """

    candidates = 150  # compared in full: those with the best mean among the problems for which they are valid
    length = 16  # of the portfolio: more than are requested, since some become equal when they are made valid

    def __init__(self, fitting: Sequence[MeasuredTask], trees: Trees) -> None:
        groups: dict[tuple[str, str], list[MeasuredTask]] = {}
        for measured in fitting:
            groups.setdefault((measured.device.name, measured.problem.type), []).append(measured)
        self._portfolios = {group: self._portfolio(tasks, trees) for group, tasks in groups.items()}

    def _portfolio(self, fitting: list[MeasuredTask], trees: Trees) -> list[Preference]:
        distinct: dict[tuple[str, str], Preference] = {}
        for measured in fitting:
            for number in np.flatnonzero(measured.known).tolist():
                configuration = measured.task[number]
                distinct.setdefault((configuration.kernel, configuration.key),
                                    (configuration.kernel, dict(configuration.settings)))
        preferences = list(distinct.values())
        filled = [-np.log1p(trees.fill(measured)) for measured in fitting]
        direct = np.full((len(preferences), len(fitting)), np.nan)
        for column, (measured, scores) in enumerate(zip(fitting, filled, strict=True)):
            for kernel in measured.task.kernels:
                chosen = np.array([index for index, (name, _) in enumerate(preferences) if name == kernel.name], int)
                numbers = measured.task.numbers(kernel.name, [preferences[index][1] for index in chosen])
                direct[chosen[numbers >= 0], column] = scores[numbers[numbers >= 0]]
        # in this first selection, a preference that is not valid for a problem has the problem's average score
        missing = np.nanmean(direct, axis=0)
        means = np.where(np.isnan(direct), missing, direct).mean(axis=1)
        chosen = np.argsort(-means, kind="stable")[:self.candidates]
        scores = np.array([[self._valid_score(preferences[index], measured, log_shares) for measured, log_shares
                            in zip(fitting, filled, strict=True)] for index in chosen])
        best = np.full(len(fitting), -np.inf)
        portfolio: list[Preference] = []
        for _ in range(min(self.length, len(chosen))):
            gains = np.maximum(scores, best).mean(axis=1)
            pick = int(np.argmax(gains))
            portfolio.append(preferences[chosen[pick]])
            best = np.maximum(best, scores[pick])
            scores[pick] = -np.inf
        return portfolio

    @staticmethod
    def _valid_score(preference: Preference, measured: MeasuredTask, log_shares: Floats) -> float:
        """The log share of the valid configuration nearest to a preference."""
        for space, part in measured.task.parts():
            if space.kernel.name == preference[0]:
                return float(log_shares[part][nearest_row(space, preference[1])])
        return float(log_shares[measured.task.number(measured.task.default)])

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [nearest_valid(self._portfolios.get((task.device.name, task.problem.type), []), task, count)
                for task in tasks]


class Nearest:
    """The baseline that proposes the best configurations of the most similar training problem on the same device.

    Configurations that are invalid for a problem are replaced by the nearest valid ones.
    """

    def __init__(self, fitting: Sequence[MeasuredTask]) -> None:
        self._groups: dict[tuple[str, str], list[MeasuredTask]] = {}
        for measured in fitting:
            self._groups.setdefault((measured.device.name, measured.problem.type), []).append(measured)
        self._points = {group: np.array([_point(measured.problem) for measured in tasks])
                        for group, tasks in self._groups.items()}

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [nearest_valid(self._preferences(task), task, count) for task in tasks]

    def _preferences(self, task: Task) -> list[Preference]:
        group = task.device.name, task.problem.type
        if group not in self._groups:
            return []
        points = self._points[group]
        scale = np.maximum(points.std(axis=0), 1e-9)
        scale[points.std(axis=0) == 0] = 1.0
        distance = (((points - _point(task.problem)) / scale) ** 2).sum(axis=1)
        neighbour = self._groups[group][int(np.argmin(distance))]
        order = np.argsort(np.where(np.isnan(neighbour.seconds), np.inf, neighbour.seconds), kind="stable")
        fastest = order[:int(np.isfinite(neighbour.seconds).sum())][:50]
        best = [neighbour.task[number] for number in fastest.tolist()]
        return [(configuration.kernel, dict(configuration.settings)) for configuration in best]


class TreesMethod:
    """The baseline that scores every valid configuration with trees and proposes the best."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [[Candidate(task[number]) for number
                 in np.argsort(self._trees.predict(task.spaces), kind="stable")[:count].tolist()] for task in tasks]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A function that fits a baseline, and a property of its proposals."""

    fit: Callable[[Sequence[MeasuredTask], Callable[[], Trees]], Predictor]  # the second argument fits trees once
    fills: bool  # whether it proposes fewer than `count` only if the task has fewer


BASELINES: Mapping[str, Baseline] = {
    "fixed": Baseline(lambda fitting, trees: Fixed(fitting, trees()), fills=False),
    "nearest": Baseline(lambda fitting, trees: Nearest(fitting), fills=False),
    "trees": Baseline(lambda fitting, trees: TreesMethod(trees()), fills=True),
    "default": Baseline(lambda fitting, trees: Default(), fills=False),
}


def random_log_share(shares: Floats, count: int) -> float:
    """The exact expectation of the log of the best of `count` shares drawn without replacement.

    The i-th smallest of m (from 1) is the best of n with probability C(i-1, n-1) / C(m, n).
    """
    ordered = np.log(np.sort(shares))
    total, count = len(ordered), min(count, len(ordered))
    log_probabilities = [_log_choose(index, count - 1) - _log_choose(total, count)
                         for index in range(count - 1, total)]
    return float(np.exp(log_probabilities) @ ordered[count - 1:])


def _log_choose(total: int, count: int) -> float:
    return lgamma(total + 1) - lgamma(count + 1) - lgamma(total - count + 1)


def nearest_valid(preferences: Iterable[Preference], task: Task, count: int) -> list[Candidate]:
    """The nearest valid configurations of the preferences, distinct, up to `count`.

    The default configuration is the only candidate if the task has no kernel of a preference.
    """
    configurations: dict[Configuration, None] = {}
    by_name = {space.kernel.name: space for space in task.spaces}
    for name, settings in preferences:
        if name in by_name and len(configurations) < count:
            configurations.setdefault(by_name[name][nearest_row(by_name[name], settings)])
    return [Candidate(configuration) for configuration in configurations or [task.default]]


def nearest_row(space: SearchSpace, settings: Mapping[str, Setting]) -> int:
    """The row of the configuration that `SearchSpace.nearest` gives; fast if the settings are valid."""
    row = int(space.find([settings])[0])
    return row if row >= 0 else space.row(space.nearest(settings))


def _point(problem: Problem) -> NDArray[np.float64]:
    """The names of a problem as numbers: sizes by their logarithm, words by a hash, unknown values as 0."""
    numbers = []
    for value in problem.names().values():
        if isinstance(value, int | float):
            numbers.append(np.log2(value + 1.0))
        else:
            numbers.append(0.0 if value is None else float(zlib.crc32(str(value).encode()) % 97))
    return np.array(numbers)
