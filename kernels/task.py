"""Task: a problem on a device with every valid configuration of the kernels that solve it, numbered from 0.

Numbers count through the search spaces in their order. Two configurations are neighbours if they belong to the same
kernel and differ in one parameter. `MeasuredTask` adds the seconds of each configuration, `ChosenTask` the choices of
another tuner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ConfigurationError, KernelError

from .devices.device import Device
from .enumeration import column_of
from .kernel import Configuration, Kernel, Parameter, Setting
from .problem import Problem
from .row_index import Numbers
from .space import SearchSpace, spaces_for

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The configurations that differ from a given one in a single parameter."""

    numbers: Numbers
    columns: NDArray[np.int64]  # the parameter that differs
    steps: NDArray[np.int64]  # -1: the next smaller valid value, 2: the second larger one, ...; 1 for all words
    distances: NDArray[np.int64]  # between the two values' indices in the parameter's list


@dataclass(frozen=True, eq=False)
class Task:
    """A problem, a device and the search spaces of every kernel that solves the problem there."""

    problem: Problem
    device: Device
    spaces: tuple[SearchSpace, ...]

    @classmethod
    def of(cls, problem: Problem, device: Device, kernels: Sequence[Kernel] | None = None) -> Task:
        """Make the task of a problem on a device, for these kernels or (None) for all registered kernels.

        Raises KernelError if no kernel solves the problem and has a valid configuration.
        """
        return cls(problem, device, spaces_for(problem, device, kernels))

    @cached_property
    def ends(self) -> Numbers:
        """The number after the last one of each space."""
        return np.cumsum([len(space) for space in self.spaces], dtype=np.int64)

    @cached_property
    def begins(self) -> Numbers:
        """The first number of each space."""
        return self.ends - np.array([len(space) for space in self.spaces], np.int64)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the spaces, in their order."""
        return tuple(space.kernel for space in self.spaces)

    def __len__(self) -> int:
        return int(self.ends[-1]) if self.spaces else 0

    def __iter__(self) -> Iterator[Configuration]:
        return (configuration for space in self.spaces for configuration in space)

    def __getitem__(self, number: int) -> Configuration:
        index, row = self.locate(number)
        return self.spaces[index][row]

    def locate(self, number: int) -> tuple[int, int]:
        """The index of the space that a number belongs to, and its row in that space. Raises IndexError."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        index = int(np.searchsorted(self.ends, number, side="right"))
        return index, int(number - self.begins[index])

    def parts(self) -> Iterator[tuple[SearchSpace, slice]]:
        """The spaces, each with the slice of its numbers."""
        return ((space, slice(int(begin), int(end)))
                for space, begin, end in zip(self.spaces, self.begins, self.ends, strict=True))

    def by_space(self, numbers: Numbers) -> Iterator[tuple[SearchSpace, Numbers, Numbers]]:
        """The spaces that hold some of these configurations, with their indices among `numbers` and their rows."""
        for space, part in self.parts():
            indices = ((numbers >= part.start) & (numbers < part.stop)).nonzero()[0]
            if len(indices):
                yield space, indices, numbers[indices] - part.start

    def number(self, configuration: Configuration) -> int:
        """The number of a configuration. Raises ConfigurationError with the reason if it is in no space."""
        for space, part in self.parts():
            if space.kernel.name == configuration.kernel:
                return int(part.start) + space.row(configuration)
        raise ConfigurationError(f"{configuration.kernel} does not solve {self.problem.brief()}")

    def find(self, configuration: Configuration) -> int | None:
        """The number of a configuration, or None if it is in no space."""
        for space, part in self.parts():
            if configuration in space:
                return int(part.start) + space.row(configuration)
        return None

    def numbers(self, kernel: str, settings: Sequence[Mapping[str, Setting]]) -> Numbers:
        """The numbers of many configurations of one kernel, given by their settings; -1 for invalid ones."""
        for space, part in self.parts():
            if space.kernel.name == kernel:
                rows = space.find(settings)
                return np.where(rows >= 0, rows + part.start, -1)
        return np.full(len(settings), -1, np.int64)

    @property
    def default(self) -> Configuration:
        """The safe default of the kernel that its library names for the problem, else of the first in table order.

        Raises KernelError if there is none.
        """
        if not self.spaces:
            raise KernelError(f"no kernel solves {self.problem.brief()} on {self.device.name}")
        for space in self.spaces:
            condition = space.kernel.default_for
            if condition is not None and condition({**self.device.names(), **self.problem.names()}):
                return space.default
        return self.spaces[0].default

    def narrowed(self, keep: NDArray[np.bool_]) -> Task:
        """The same task with only the configurations where `keep` is True, renumbered; look-ahead stays exact."""
        masks = [(space, keep[part]) for space, part in self.parts()]
        return Task(self.problem, self.device, tuple(
            space if mask.all() else space.only(mask) for space, mask in masks if mask.any()))

    def neighbours(self, number: int) -> Neighbours:
        """All neighbours of one configuration."""
        index, row = self.locate(number)
        rows = self.spaces[index].rows
        differs = rows != rows[row]
        near = np.flatnonzero(differs.sum(axis=1) == 1)
        columns = differs[near].argmax(axis=1).astype(np.int64)
        steps = np.ones(len(near), np.int64)
        for column in np.unique(columns).tolist():
            if self.spaces[index].kernel.parameters[column].is_numeric:
                chosen = np.flatnonzero(columns == column)
                ranks = self._ranks[index][column]
                distance = ranks[rows[near[chosen], column]] - ranks[rows[row, column]]
                order = np.argsort(distance)
                below, counts = int((distance < 0).sum()), np.arange(len(chosen))
                steps[chosen[order]] = counts + np.where(counts < below, -below, 1 - below)
        distances = np.abs(rows[near, columns].astype(np.int64) - rows[row, columns])
        return Neighbours(near + int(self.begins[index]), columns, steps, distances)

    def differences(self, number: int, others: Numbers) -> NDArray[np.int64]:
        """The number of parameters in which each of the others differs from one configuration.

        A configuration of another kernel counts as different in all parameters.
        """
        index, row = self.locate(number)
        rows, begin = self.spaces[index].rows, int(self.begins[index])
        counts = np.full(len(others), rows.shape[1], np.int64)
        same = (others >= begin) & (others < self.ends[index])
        counts[same] = (rows[others[same] - begin] != rows[row]).sum(axis=1)
        return counts

    def step(self, numbers: Numbers, generator: np.random.Generator, tries: int = 8) -> Numbers:
        """A random neighbour of each configuration, or itself if `tries` random changes of a parameter were invalid."""
        moved = numbers.copy()
        for space, part in self.parts():
            left = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
            sizes = np.array([len(parameter.values) for parameter in space.kernel.parameters])
            free = np.flatnonzero(sizes > 1)
            for _ in range(tries if len(free) else 0):
                if not len(left):
                    break
                rows = space.rows[numbers[left] - part.start].copy()
                column = free[generator.integers(len(free), size=len(left))]
                here = np.arange(len(left))
                rows[here, column] = (rows[here, column] + generator.integers(1, sizes[column])) % sizes[column]
                found_numbers = space.index.find(rows)
                moved[left[found_numbers >= 0]] = found_numbers[found_numbers >= 0] + part.start
                left = left[found_numbers < 0]
        return moved

    @cached_property
    def _ranks(self) -> list[list[NDArray[np.int64]]]:
        return [[_ranks(parameter) for parameter in space.kernel.parameters] for space in self.spaces]


@dataclass(frozen=True, eq=False)
class _AboutTask:
    """A task, about which something is known."""

    task: Task

    @property
    def problem(self) -> Problem:
        """The task's problem."""
        return self.task.problem

    @property
    def device(self) -> Device:
        """The task's device."""
        return self.task.device


@dataclass(frozen=True, eq=False)
class MeasuredTask(_AboutTask):
    """A task and the measured times of its configurations, which may be incomplete."""

    seconds: Floats  # by number: a time, infinite if the configuration failed, NaN if it was not measured
    builds: Floats | None = None  # (build, number): the times of runs that compared configurations; NaN if not measured

    @classmethod
    def of_times(cls, task: Task, times: Mapping[Configuration, float]) -> MeasuredTask:
        """The measurements, given by configuration in seconds; those in no space of the task are left out."""
        seconds = np.full(len(task), np.nan)
        for configuration, time in times.items():
            number = task.find(configuration)
            if number is not None:
                seconds[number] = time
        return cls(task, seconds)

    @property
    def label(self) -> tuple[str, str]:
        """Problem and device, as text."""
        return self.problem.key, self.device.name

    @property
    def known(self) -> NDArray[np.bool_]:
        """A mask of the measured configurations, failures included."""
        return ~np.isnan(self.seconds)

    @property
    def best(self) -> float:
        """The shortest measured time, in seconds."""
        return float(np.nanmin(self.seconds))

    def time(self, configuration: Configuration) -> float:
        """The seconds of a configuration. Raises ConfigurationError if it is not valid."""
        return float(self.seconds[self.task.number(configuration)])

    def shares(self) -> Floats:
        """The best measured time divided by each time: 1 for the best configuration, 0 for failures, NaN if unmeasured.
        """
        return self.best / self.seconds

    def measured_only(self) -> MeasuredTask:
        """The same measurements, with the task narrowed to its measured configurations."""
        builds = None if self.builds is None else self.builds[:, self.known]
        return MeasuredTask(self.task.narrowed(self.known), self.seconds[self.known], builds)

    def fastest(self, count: int) -> list[Configuration]:
        """The `count` fastest measured configurations, or all that ran if they are fewer."""
        ran = np.isfinite(self.seconds)
        order = np.argsort(np.where(ran, self.seconds, np.inf), kind="stable")[:min(count, int(ran.sum()))]
        return [self.task[number] for number in order.tolist()]


@dataclass(frozen=True, eq=False)
class ChosenTask(_AboutTask):
    """A task and the configurations that another tuner chose for it; no times are known."""

    numbers: Numbers  # (choice,) distinct
    weights: Floats  # (choice,) how much each counts: 1 for one tuning, less where another GPU has a copy

    @property
    def known(self) -> NDArray[np.bool_]:
        """A mask of the chosen configurations."""
        mask = np.zeros(len(self.task), np.bool_)
        mask[self.numbers] = True
        return mask

    def measured_only(self) -> ChosenTask:
        """The task itself: every valid configuration can be compared with the choices."""
        return self

    @property
    def shares(self) -> Floats:
        """The shares of the choices in their total weight: (choice,)."""
        return np.asarray(self.weights / self.weights.sum())

    def agreement(self, numbers: Numbers) -> Floats:
        """The share of parameters with the chosen value, from 0 to 1: (configuration,). Several choices are averaged.

        It is 0 for a configuration of another kernel. Parameters that are the same in the whole space do not count.
        """
        agreed = np.zeros(len(numbers))
        for share, chosen in zip(self.shares, self.numbers.tolist(), strict=True):
            index, row = self.task.locate(chosen)
            rows, begin = self.task.spaces[index].rows, int(self.task.begins[index])
            free = (rows != rows[0]).any(axis=0)
            same = np.flatnonzero((numbers >= begin) & (numbers < self.task.ends[index]))
            equal = rows[numbers[same] - begin] == rows[row]
            agreed[same] += share * (equal[:, free].mean(axis=1) if free.any() else 1.0)
        return agreed


KnownTask = MeasuredTask | ChosenTask  # what a training learns from


def _ranks(parameter: Parameter) -> NDArray[np.int64]:
    """The rank of each value in ascending order; words are ranked in the order in which they are listed."""
    if not parameter.is_numeric:
        return np.arange(len(parameter.values))
    return np.argsort(np.argsort(column_of(parameter), kind="stable"))
