"""Portfolio: the configurations that are best for a device's training problems on average, chosen greedily.

The first configuration has the best geometric mean speed over the problems; each next one improves the mean of the
best so far most. Configurations that are invalid for a problem are replaced by the nearest valid ones. Training
problems have only some of their configurations measured, so trees fitted to the same rows estimate the other times;
else most candidates would be compared on a few problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from seqtune.kernels.kernel import Configuration, Setting
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ...candidate import Candidate
from ...trees.cost_trees import Trees

Preference = tuple[str, Mapping[str, Setting]]  # a kernel's name and settings, which need not be valid
CANDIDATES = 150  # compared in full: those with the best mean among the problems for which they are valid
LENGTH = 16  # of a portfolio: more than are requested, since some become equal when they are made valid


def portfolio(fitting: Sequence[MeasuredTask], trees: Trees) -> list[Preference]:
    """The portfolio of tasks of one operation on one device, the best configuration first."""
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
