"""Experts without a model, each as a predictor of its own: the nearest problems, the portfolio and the safe default.

Configurations that are invalid for a task are replaced by the nearest valid ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Task

from ..candidate import Candidate
from .portfolio import nearest_row
from .winners import Group, Preference, Winners


class Default:
    """The expert that proposes only the safe default."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [[Candidate(task.default)] for task in tasks]


class _FromTable(ABC):
    """An expert that proposes the configurations of one entry of a table of winners."""

    def __init__(self, winners: Winners) -> None:
        self.winners = winners

    @abstractmethod
    def _entries(self, group: Group, task: Task) -> Numbers:
        """The entries of which the first one answers."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [nearest_valid(self._wishes(task), task, count) for task in tasks]

    def _wishes(self, task: Task) -> list[Preference]:
        group = self.winners.group(task)
        return [] if group is None else [wish for entry in self._entries(group, task)[:1].tolist()
                                         for wish in group.wishes(task, entry)]


class Fixed(_FromTable):
    """The expert that proposes the same configurations for all problems of an operation: the device's portfolio."""

    def _entries(self, group: Group, task: Task) -> Numbers:
        return group.portfolio(task.device)


class Nearest(_FromTable):
    """The expert that proposes the best configurations of the most similar training problem."""

    def _entries(self, group: Group, task: Task) -> Numbers:
        return group.neighbours(task.problem, task.device).entries


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
