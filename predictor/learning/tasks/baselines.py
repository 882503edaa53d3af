"""Baselines: simple predictors to compare a model with. Each is fitted to measured tasks and proposes configurations.

A new baseline is one class and one line in BASELINES. Configurations that are invalid for a task are replaced by the
nearest valid ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import lgamma

import numpy as np

from seqtune.kernels.kernel import Configuration, Setting
from seqtune.kernels.problem_sets.similarity import distance
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import ChosenTask, Floats, KnownTask, MeasuredTask, Task

from ...candidate import Candidate
from ...checkpoint_parts import TreesAlone
from ...predictors import Predictor
from ...trees.cost_trees import Trees
from ...trees.ranker import Ranker
from ...untrained import AnalyticPredictor

Preference = tuple[str, Mapping[str, Setting]]  # a kernel's name and settings, which need not be valid
CANDIDATES = 150  # compared in full: those with the best mean among the problems for which they are valid
LENGTH = 16  # of a portfolio: more than are requested, since some become equal when they are made valid


def portfolio(fitting: Sequence[MeasuredTask], trees: Trees) -> list[Preference]:
    """The configurations that are best on average for tasks of one operation on one device, chosen greedily.

    The first configuration has the best geometric mean speed over the problems; each next one improves the mean of the
    best so far most. Training problems have only some of their configurations measured, so trees fitted to the same
    rows estimate the other times; else most candidates would be compared on a few problems.
    """
    preferences = _distinct(fitting)
    filled = [-np.log1p(trees.fill(measured)) for measured in fitting]
    chosen = _most_promising(preferences, fitting, filled)
    scores = np.array([[_valid_score(preferences[index], measured, log_shares) for measured, log_shares
                        in zip(fitting, filled, strict=True)] for index in chosen])
    best, picked = np.full(len(fitting), -np.inf), list[Preference]()
    for _ in range(min(LENGTH, len(chosen))):
        pick = int(np.argmax(np.maximum(scores, best).mean(axis=1)))
        picked.append(preferences[chosen[pick]])
        best = np.maximum(best, scores[pick])
        scores[pick] = -np.inf
    return picked


def _distinct(fitting: Sequence[MeasuredTask]) -> list[Preference]:
    """Every configuration that was measured for one of the tasks."""
    distinct: dict[tuple[str, str], Preference] = {}
    for measured in fitting:
        for number in np.flatnonzero(measured.known).tolist():
            configuration = measured.task[number]
            distinct.setdefault((configuration.kernel, configuration.key),
                                (configuration.kernel, dict(configuration.settings)))
    return list(distinct.values())


def _most_promising(preferences: Sequence[Preference], fitting: Sequence[MeasuredTask],
                    filled: Sequence[Floats]) -> list[int]:
    """The indices of CANDIDATES preferences with the best mean scores.

    A preference that is not valid for a problem has the problem's average score here.
    """
    direct = np.full((len(preferences), len(fitting)), np.nan)
    for column, (measured, scores) in enumerate(zip(fitting, filled, strict=True)):
        for kernel in measured.task.kernels:
            chosen = np.array([index for index, (name, _) in enumerate(preferences) if name == kernel.name], int)
            numbers = measured.task.numbers(kernel.name, [preferences[index][1] for index in chosen])
            direct[chosen[numbers >= 0], column] = scores[numbers[numbers >= 0]]
    means = np.where(np.isnan(direct), np.nanmean(direct, axis=0), direct).mean(axis=1)
    order: list[int] = np.argsort(-means, kind="stable")[:CANDIDATES].tolist()
    return order


def _valid_score(preference: Preference, measured: MeasuredTask, log_shares: Floats) -> float:
    """The log share of the valid configuration nearest to a preference."""
    for space, part in measured.task.parts():
        if space.kernel.name == preference[0]:
            return float(log_shares[part][nearest_row(space, preference[1])])
    return float(log_shares[measured.task.number(measured.task.default)])


def nearest_row(space: SearchSpace, settings: Mapping[str, Setting]) -> int:
    """The row of the configuration that `SearchSpace.nearest` gives; fast if the settings are valid."""
    row = int(space.find([settings])[0])
    return row if row >= 0 else space.row(space.nearest(settings))


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


FASTEST = 16  # configurations of the nearest problem: more than are requested, since some become equal when made valid
AVERAGED = 24  # problems of a device and an operation from which the portfolio is chosen


class Default:
    """The baseline that proposes only the safe default."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [[Candidate(task.default)] for task in tasks]


class Nearest:
    """The baseline that proposes the best configurations of the most similar training problem.

    Of equally similar ones it is that of the same device, or else the first.
    """

    def __init__(self, fitting: Sequence[KnownTask]) -> None:
        self._groups: dict[tuple[str, str], list[KnownTask]] = {}
        for known in fitting:
            self._groups.setdefault(_group(known.task), []).append(known)

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [nearest_valid(self._preferences(task), task, count) for task in tasks]

    def _preferences(self, task: Task) -> list[Preference]:
        own = task.device.identity
        nearest = min(self._groups.get(_group(task), ()), default=None, key=lambda known: (
            distance(task.problem, known.problem), known.device.identity != own,
            known.device.name != task.device.name))
        if nearest is None:
            return []
        costs = -nearest.weights if isinstance(nearest, ChosenTask) else nearest.seconds
        best = np.argsort(costs, kind="stable")[:min(FASTEST, int(np.isfinite(costs).sum()))]
        numbers = nearest.numbers[best] if isinstance(nearest, ChosenTask) else best
        return [(configuration.kernel, dict(configuration.settings)) for configuration
                in (nearest.task[number] for number in numbers.tolist())]


class Fixed:
    """The baseline that proposes the same configurations for all problems of an operation: the device's portfolio.

    On another device it is that of the first device of the backend.
    """

    def __init__(self, fitting: Sequence[MeasuredTask], trees: Trees) -> None:
        parts: dict[tuple[str, str], dict[str, list[MeasuredTask]]] = {}
        for measured in fitting:
            parts.setdefault(_group(measured.task), {}).setdefault(measured.device.name, []).append(measured)
        self._portfolios = {group: {name: portfolio(_drawn(tasks), trees) for name, tasks in devices.items()}
                            for group, devices in parts.items()}

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [nearest_valid(self._preferences(task), task, count) for task in tasks]

    def _preferences(self, task: Task) -> list[Preference]:
        portfolios = self._portfolios.get(_group(task), {})
        return portfolios.get(task.device.name) or next(iter(portfolios.values()), [])


def _group(task: Task) -> tuple[str, str]:
    return task.device.backend, task.problem.type


def _drawn(tasks: Sequence[MeasuredTask]) -> list[MeasuredTask]:
    chosen = np.sort(np.random.default_rng(0).permutation(len(tasks))[:AVERAGED])
    return [tasks[index] for index in chosen.tolist()]


def trees_alone(trees: Trees) -> TreesAlone:
    """Trees as the baseline that scores every valid configuration and proposes the best."""
    ranker = Ranker.of(trees)
    return TreesAlone(lambda task: ranker)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A function that fits a baseline, and a property of its proposals."""

    fit: Callable[[Sequence[MeasuredTask], Callable[[], Trees]], Predictor]  # the second argument fits trees once
    fills: bool  # whether it proposes fewer than `count` only if the task has fewer


ANALYTIC = "analytic"  # the baseline for GPUs alone
BASELINES: Mapping[str, Baseline] = {
    "fixed": Baseline(lambda fitting, trees: Fixed(fitting, trees()), fills=False),
    "nearest": Baseline(lambda fitting, trees: Nearest(fitting), fills=False),
    "trees": Baseline(lambda fitting, trees: trees_alone(trees()), fills=True),
    "default": Baseline(lambda fitting, trees: Default(), fills=False),
    ANALYTIC: Baseline(lambda fitting, trees: AnalyticPredictor(), fills=True),
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
