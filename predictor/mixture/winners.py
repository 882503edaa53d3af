"""Winners: the fastest measured configurations of the training problems, as a table that a checkpoint keeps.

It is what the experts `nearest` and `fixed` know, so that they answer without the data set. An entry is a training
problem on a device: its point, and some measured configurations with their slowness, log(time / best time): the fastest
ones, and others spread over the rest. A portfolio is an entry without a point: the configurations that are best on
average on a device. Configurations are indices into the values of their kernel's parameters, which do not change as
long as the checkpoint's kernels are those installed (`Declaration`).

The distance of two problems is Euclidean, over standardised logarithms of all their numbers; every other word counts
as WORD. Another device adds 1 and the distance of the devices' facts. A distance is given in units of the usual
distance from a training problem to the nearest other one.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from seqtune.errors import CheckpointError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Setting
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import ChosenTask, Floats, KnownTask, Task

from ..device_identity import identity
from ..sequence.declaration import Declaration
from ..trees.choice_rows import NAT
from ..trees.cost_trees import WORST

ROWS = 16  # configurations of an entry
NEIGHBOURS = 4  # entries that have an opinion
MOST_TURNS = 4  # configurations of each of them that are proposed at most
WORD = 1.0  # squared distance of two different words, such as data types
REACH = 0.5  # usual distances by which a neighbour is farther than the nearest one, and counts e times less
LIKENESS = 0.4  # parameters in which a configuration differs from a measured one, which then counts e times less
STRANGER = 2.0  # different parameters of a configuration that says as much as all that are typical of the problem
MOST_KEPT = 64  # devices of which distances and portfolio are kept
LARGEST = 2_000_000  # entries times rows of a file
NO_KERNEL = -1
UNCHOSEN = 10 * NAT  # slowness of a configuration that has nothing in common with a choice: exp(-10) as likely
ARRAYS: Mapping[str, type] = {  # of a group, with their types
    "points": np.float32, "words": np.uint32, "facts": np.float32, "device": np.int32, "is_portfolio": np.bool_,
    "kernel": np.int16, "values": np.int16, "slowness": np.float32, "typical": np.float32}

Preference = tuple[str, dict[str, Setting]]  # a kernel's name and settings, which need not be valid


class Excess(NamedTuple):
    """A number of a problem that is larger than in all problems that a predictor has learned from."""

    name: str  # of a feature or derived size
    value: float
    most: float  # of those problems


class GroupFields(BaseModel):
    """What a group of entries has beside its arrays, in seqtune.json."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    backend: str = Field(max_length=200)
    operation: str = Field(max_length=200)
    numbers: tuple[str, ...] = Field(max_length=1000)  # names of the problem's numbers
    words: tuple[str, ...] = Field(max_length=1000)
    facts: tuple[str, ...] = Field(max_length=1000)  # names of the devices' numbers
    devices: tuple[str, ...] = Field(min_length=1, max_length=10_000)  # `identity`
    kernels: tuple[str, ...] = Field(min_length=1, max_length=10_000)
    unit: float = Field(gt=0, allow_inf_nan=False)  # the usual distance to the nearest problem


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The entries that have an opinion on a task: their indices, weights (which sum to 1) and the nearness."""

    entries: Numbers
    weights: Floats
    nearness: float  # from 0, far from every training problem, to 1, equal to one
    known: bool  # whether the task's device is one of the table's
    covered: bool  # whether every number lies between the table's least and greatest, and every word occurs in it


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The entries as a device sees them."""

    squares: NDArray[np.float32]  # (entry,) the part of the squared distance that the devices make; infinite: portfolio
    known: bool  # whether the device is one of the table's
    portfolio: Numbers  # (entry,) those that count


@dataclass(frozen=True, eq=False)
class Group:
    """The entries of one operation on the devices of one backend. An entry is a problem on a device."""

    about: GroupFields
    points: NDArray[np.float32]  # (entry, number) log2 of the problem's numbers; NaN: unknown, or a portfolio
    words: NDArray[np.uint32]  # (entry, word) checksums of the problem's words
    facts: NDArray[np.float32]  # (device, fact) log2 of the devices' numbers
    device: NDArray[np.int32]  # (entry,) index of the device
    is_portfolio: NDArray[np.bool_]  # (entry,)
    kernel: NDArray[np.int16]  # (entry, row) index of the kernel; NO_KERNEL where there is no row
    values: NDArray[np.int16]  # (entry, row, parameter) indices of the values, 0 after the kernel's last parameter
    slowness: NDArray[np.float32]  # (entry, row), ascending
    typical: NDArray[np.float32]  # (entry,) mean slowness of all measured configurations

    def __len__(self) -> int:
        return len(self.device)

    @cached_property
    def scaled(self) -> NDArray[np.float32]:
        """The points in standard deviations. (entry, number)"""
        return self.points / self.scale

    @cached_property
    def scale(self) -> NDArray[np.float32]:
        """The standard deviation of each number over the entries; 1 where it is always the same. (number,)"""
        points = self.points[~self.is_portfolio]
        deviation = np.zeros(points.shape[1], np.float32)
        known = ~np.isnan(points).all(axis=0)
        deviation[known] = np.nanstd(points[:, known], axis=0)
        return _or_one(deviation)

    @cached_property
    def fact_scale(self) -> NDArray[np.float32]:
        """The standard deviation of each fact over the devices; 1 where it is always the same. (fact,)"""
        return _or_one(self.facts.std(axis=0))

    @cached_property
    def limits(self) -> tuple[NDArray[np.float32], NDArray[np.float32], list[frozenset[int]]]:
        """The least and the greatest of each number over the entries, and the set of each word's values."""
        points, words = self.points[~self.is_portfolio], self.words[~self.is_portfolio]
        return (np.fmin.reduce(points, axis=0), np.fmax.reduce(points, axis=0),
                [frozenset(column.tolist()) for column in words.T])

    def _covers(self, point: NDArray[np.float32], words: NDArray[np.uint32]) -> bool:
        """Whether a problem lies within the entries': numbers between their extremes, words among theirs.

        A missing number (NaN) counts as within.
        """
        low, high, values = self.limits
        return not ((point < low) | (point > high)).any() and all(
            word in known for word, known in zip(words.tolist(), values, strict=True))

    def excesses(self, problem: Problem) -> tuple[Excess, ...]:
        """The numbers of a problem, such as a size or its FLOP, that are larger than in every entry.

        Derived sizes other than the FLOP are left out where features say the same.
        """
        most, names, every = self.limits[1], problem.names(), []
        for index in np.flatnonzero(_point(problem, self.about)[0] > most).tolist():
            name = self.about.numbers[index]
            value = names[name]
            assert isinstance(value, int | float)  # what is no number is NaN, and not larger
            every.append(Excess(name, value, round(float(2.0**most[index]) - 1)))
        features = {*operation(problem.type).by_name, "flop"}
        return tuple([excess for excess in every if excess.name in features] or every)

    @cached_property
    def _columns(self) -> NDArray[np.float32]:
        """The points in standard deviations, and 0 for portfolios. (number, entry)"""
        return np.ascontiguousarray(np.where(self.is_portfolio[:, None], np.float32(0), self.scaled).T)

    @cached_property
    def _complete(self) -> bool:
        """Whether every problem has every number."""
        return not np.isnan(self._columns).any()

    @cached_property
    def _kind_of(self) -> tuple[NDArray[np.uint32], Numbers]:
        """The different words of problems, (kind, word), and the kind of each entry, (entry,)."""
        kinds, kind = np.unique(self.words, axis=0, return_inverse=True)
        return kinds, kind.reshape(-1)

    def _seen_from(self, device: Device) -> _Seen:
        """What a device's distances and portfolio are, which are kept for the latest devices."""
        seen = self._known_devices.get(device)
        if seen is None:
            if len(self._known_devices) >= MOST_KEPT:
                self._known_devices.clear()
            distances = self._device_distances(identity(device), _logs(device.names(), self.about.facts))
            squares = np.where(self.is_portfolio, np.float32(np.inf), distances[self.device])
            seen = self._known_devices[device] = _Seen(squares, bool((distances == 0).any()), self._portfolio(device))
        return seen

    @cached_property
    def _known_devices(self) -> dict[Device, _Seen]:
        return {}

    def _device_distances(self, name: str, facts: NDArray[np.float32]) -> NDArray[np.float32]:
        same = np.array(self.about.devices) == name
        return np.where(same, np.float32(0), self.other_device_distances(facts)).astype(np.float32)

    def other_device_distances(self, facts: NDArray[np.float32]) -> NDArray[np.float32]:
        """The squared distances of a device that is none of the table's, by its facts (fact,): (device,)."""
        if not self.facts.shape[1]:
            return np.ones(len(self.facts), np.float32)
        distances: NDArray[np.float32] = 1 + np.nan_to_num(((self.facts - facts) / self.fact_scale) ** 2).mean(axis=1)
        return distances

    def _squares(self, point: NDArray[np.float32], words: NDArray[np.uint32]) -> NDArray[np.float32]:
        """The squared distances of a problem to those of the entries: (entry,). Portfolios have none."""
        (kinds, kind), scaled = self._kind_of, point / self.scale
        away = self._columns - scaled[:, None]  # (number, entry)
        np.multiply(away, away, out=away)
        squares: NDArray[np.float32] = (away if self._complete and not np.isnan(scaled).any()
                                        else np.nan_to_num(away, copy=False)).sum(axis=0)
        squares += (WORD * (kinds != words).sum(axis=1)).astype(np.float32)[kind]
        return squares

    def usual_distance(self) -> float:
        """The median distance of (at most 500) entries to the nearest other problem on any device."""
        entries = np.flatnonzero(~self.is_portfolio)
        nearest = []
        for entry in entries[::max(1, len(entries) // 500)].tolist():
            distances = np.sqrt(self._squares(self.points[entry], self.words[entry])[entries])
            others = distances[distances > 1e-6]
            nearest.append(float(others.min(initial=np.inf)))
        known = [distance for distance in nearest if np.isfinite(distance)]
        return max(float(np.median(known)), 1e-3) if known else 1.0

    def neighbours(self, problem: Problem, device: Device) -> Neighbours:
        """The entries nearest to a problem on a device, and the weights of their opinions."""
        seen = self._seen_from(device)
        point, words = _point(problem, self.about)
        squares = self._squares(point, words) + seen.squares
        nearest = np.argpartition(squares, min(NEIGHBOURS, len(squares)) - 1)[:NEIGHBOURS]
        nearest = nearest[np.isfinite(squares[nearest])]
        nearest = nearest[np.lexsort((nearest, squares[nearest]))]
        away = np.sqrt(squares[nearest].astype(np.float64)) / self.about.unit
        if not len(nearest):
            return Neighbours(nearest, away, 0.0, seen.known, covered=False)
        weights = np.exp((away[0] - away) / REACH)
        return Neighbours(nearest, weights / weights.sum(), float(np.exp(-away[0])), seen.known,
                          self._covers(point, words))

    def portfolio(self, device: Device) -> Numbers:
        """The entry of a device's portfolio; without one those of devices of its name, or else all. (entry,)"""
        return self._seen_from(device).portfolio

    def _portfolio(self, device: Device) -> Numbers:
        name = identity(device)
        own = [known == name for known in self.about.devices]
        alike = [known.split(" ")[0] == device.name for known in self.about.devices]
        for chosen in (own, alike):
            entries = np.flatnonzero(self.is_portfolio & np.array(chosen)[self.device])
            if len(entries):
                return entries
        return np.flatnonzero(self.is_portfolio)

    def opinions(self, task: Task, numbers: Numbers, entries: Numbers) -> Floats:
        """The slowness of configurations as each entry says: the mean of its most similar measured ones.

        (number, entry)
        """
        said = np.zeros((len(numbers), len(entries)))
        kernel = self.kernel[entries]  # (entry, row)
        values = np.ascontiguousarray(self.values[entries].transpose(2, 0, 1))  # (parameter, entry, row)
        slowness = self.slowness[entries].astype(np.float64)
        stranger = np.exp(-STRANGER / LIKENESS)
        for space, part in task.parts():
            own = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
            if not len(own):
                continue
            rows = space.rows[numbers[own] - part.start].T  # (parameter, configuration)
            same = kernel == self._kernels.get(space.kernel.name, NO_KERNEL - 1)
            differ = (rows[:, :, None, None] != values[:len(rows), None]).sum(axis=0, dtype=np.int16)
            likeness = np.exp(-np.arange(len(rows) + 1) / LIKENESS)  # by the number of different parameters
            like = np.where(same, likeness[differ], 0.0)  # (configuration, entry, row)
            typical = self.typical[entries].astype(np.float64)
            said[own] = ((like * slowness).sum(axis=2) + stranger * typical) / (like.sum(axis=2) + stranger)
        return said

    @cached_property
    def _kernels(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.about.kernels)}

    def preferences(self, task: Task, entries: Numbers, count: int) -> list[int]:
        """The numbers of the entries' fastest configurations that are valid for a task: those of each entry in turn."""
        turns = self.kernel[entries, :MOST_TURNS].T.reshape(-1)
        values = self.values[entries, :MOST_TURNS].swapaxes(0, 1).reshape(len(turns), self.values.shape[2])
        numbers = np.full(len(turns), -1, np.int64)
        for space, part in task.parts():
            own = (turns == self._kernels.get(space.kernel.name, NO_KERNEL - 1)).nonzero()[0]
            if len(own):
                rows = rows_of(space, values[own])
                numbers[own] = np.where(rows < 0, -1, rows + part.start)
        return list(dict.fromkeys(numbers[numbers >= 0].tolist()))[:count]

    def wishes(self, task: Task, entry: int) -> list[Preference]:
        """The configurations of an entry, fastest first, which need not be valid for a task with their kernels."""
        kernels = {kernel.name: kernel for kernel in task.kernels}
        names = [self.about.kernels[kernel] if kernel != NO_KERNEL else "" for kernel in self.kernel[entry].tolist()]
        return [(name, {parameter.name: parameter.values[index] for parameter, index
                        in zip(kernels[name].parameters, values, strict=False)})
                for name, values in zip(names, self.values[entry].tolist(), strict=True) if name in kernels]


@dataclass(frozen=True, eq=False)
class Entry:
    """Configurations of a problem on a device, fastest first; of a device alone if they are a portfolio."""

    device: Device
    operation: str
    problem: Problem | None  # None: a portfolio
    kernels: Sequence[str]  # of each row
    values: Sequence[Sequence[int]]  # of each row: the indices of its values
    slowness: Floats  # (row,)
    typical: float

    @classmethod
    def of(cls, measured: KnownTask, rows: int = ROWS) -> Entry:
        """The fastest configurations of a measured task, and some of all others; or the choices, heaviest first."""
        if isinstance(measured, ChosenTask):
            order = np.argsort(-measured.weights, kind="stable")[:rows]
            logs = -NAT * np.log(measured.weights[order] / measured.weights.max())
            return cls._of_numbers(measured, measured.numbers[order], logs, UNCHOSEN)
        logs = np.minimum(np.log(measured.seconds / measured.best), WORST)
        numbers = spread_rows(measured.seconds, rows)
        return cls._of_numbers(measured, numbers, logs[numbers], float(np.nanmean(logs)))

    @classmethod
    def _of_numbers(cls, known: KnownTask, numbers: Numbers, slowness: Floats, typical: float) -> Entry:
        located = [known.task.locate(number) for number in numbers.tolist()]
        spaces = known.task.spaces
        return cls(known.device, known.problem.type, known.problem,
                   [spaces[index].kernel.name for index, _ in located],
                   [spaces[index].rows[row].tolist() for index, row in located], slowness, typical)


@dataclass(frozen=True, eq=False)
class Winners:
    """The groups of entries, by backend and operation."""

    groups: Mapping[tuple[str, str], Group] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Winners:
        """Make the table of some entries."""
        parts: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            parts.setdefault((entry.device.backend, entry.operation), []).append(entry)
        return cls({key: _group(*key, members) for key, members in parts.items()})

    def group(self, task: Task) -> Group | None:
        """The entries that may say something about a task."""
        return self.groups.get((task.device.backend, task.problem.type))

    @property
    def about(self) -> tuple[GroupFields, ...]:
        """What `read` needs beside the arrays."""
        return tuple(group.about for group in self.groups.values())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to write to a safetensors file for `read`."""
        return {f"{number}/{name}": getattr(group, name) for number, group in enumerate(self.groups.values())
                for name in ARRAYS}

    @classmethod
    def read(cls, about: Sequence[GroupFields], arrays: Mapping[str, NDArray[Any]],
             kernels: Iterable[Declaration]) -> Winners:
        """The inverse of `about` and `arrays`, which are not trusted; `kernels` are those of the checkpoint.

        Raises CheckpointError.
        """
        sizes = {kernel.name: [len(values) for _, values in kernel.parameters] for kernel in kernels}
        if {*arrays} != {f"{number}/{name}" for number in range(len(about)) for name in ARRAYS}:
            raise CheckpointError("its table of winners has not the arrays that seqtune.json needs")
        groups = {(fields.backend, fields.operation): Group(fields, *(arrays[f"{number}/{name}"] for name in ARRAYS))
                  for number, fields in enumerate(about)}
        if len(groups) < len(about) or not all(_is_sound(group, sizes) for group in groups.values()):
            raise CheckpointError("its table of winners is inconsistent (a shape, a type or an index is out of range)")
        return cls(groups)


def _group(backend: str, operation: str, entries: Sequence[Entry]) -> Group:
    """Make the group of some entries of one operation, all on devices of one backend."""
    problems = [entry.problem for entry in entries if entry.problem is not None]
    names = [problem.names() for problem in problems]
    numbers = {name: None for features in names for name, value in features.items() if isinstance(value, int | float)}
    words = {name: None for features in names for name, value in features.items()
             if isinstance(value, str) and name not in numbers}
    devices = {identity(entry.device): entry.device for entry in entries}
    facts = {name: None for device in devices.values() for name, value in device.names().items()
             if isinstance(value, int | float)}
    kernels = {name: None for entry in entries for name in entry.kernels}
    fields = GroupFields(backend=backend, operation=operation, numbers=tuple(numbers), words=tuple(words),
                         facts=tuple(facts), devices=tuple(devices), kernels=tuple(kernels), unit=1.0)
    points = [_point(entry.problem, fields) for entry in entries]
    rows = max(len(entry.kernels) for entry in entries)
    parameters = max((len(values) for entry in entries for values in entry.values), default=0)
    kernel = np.full((len(entries), rows), NO_KERNEL, np.int16)
    values = np.zeros((len(entries), rows, parameters), np.int16)
    slowness = np.full((len(entries), rows), WORST, np.float32)
    order, indices = list(devices), {name: index for index, name in enumerate(kernels)}
    for index, entry in enumerate(entries):
        kernel[index, :len(entry.kernels)] = [indices[name] for name in entry.kernels]
        slowness[index, :len(entry.kernels)] = entry.slowness
        for row, of_row in enumerate(entry.values):
            values[index, row, :len(of_row)] = of_row
    group = Group(fields, np.stack([point for point, _ in points]), np.stack([of_words for _, of_words in points]),
                  np.stack([_logs(device.names(), fields.facts) for device in devices.values()]),
                  np.array([order.index(identity(entry.device)) for entry in entries], np.int32),
                  np.array([entry.problem is None for entry in entries]), kernel, values, slowness,
                  np.array([entry.typical for entry in entries], np.float32))
    return replace(group, about=fields.model_copy(update={"unit": group.usual_distance()}))


def _point(problem: Problem | None, about: GroupFields) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """The numbers (number,) and words (word,) of a problem; of none, unknown ones."""
    names = {} if problem is None else problem.names()
    words = [zlib.crc32(str(names.get(name)).encode()) for name in about.words]
    return _logs(names, about.numbers), np.array(words, np.uint32)


def _logs(names: Mapping[str, object], wanted: Sequence[str]) -> NDArray[np.float32]:
    """log2(1 + x) of the wanted numbers; NaN for what is not a number, (number,). Negative ones keep their sign."""
    known = [names.get(name) for name in wanted]
    numbers = np.array([value if isinstance(value, int | float) else np.nan for value in known], np.float64)
    return np.asarray(np.sign(numbers) * np.log2(1 + np.abs(numbers)), np.float32)


def rows_of(space: SearchSpace, values: NDArray[np.int16]) -> Numbers:
    """The rows of configurations, given by the indices of their values, (configuration, parameter), or -1.

    Rows are sorted, also as strings of bytes if no index needs its second byte. Values after the kernel's last
    parameter do not count.
    """
    rows, width = space.rows, space.rows.shape[1]
    wanted = np.ascontiguousarray(values[:, :width])
    if not width or not len(rows) or not rows.flags.c_contiguous or wanted.max(initial=0) > 255 or (
            sys.byteorder == "little" and max(len(parameter.values) for parameter in space.kernel.parameters) > 256):
        return space.index.find(wanted)
    text = f"S{rows.dtype.itemsize * width}"
    found = rows.view(text)[:, 0].searchsorted(wanted.view(text)[:, 0])
    found[found == len(rows)] = 0
    found[(rows[found] != wanted).any(axis=1)] = -1
    return found


def _or_one(deviation: NDArray[np.float32]) -> NDArray[np.float32]:
    """Standard deviations to divide by: 1 for what is always the same."""
    return np.where(deviation > 1e-3, deviation, np.float32(1))


def _is_sound(group: Group, sizes: Mapping[str, Sequence[int]]) -> bool:
    """Whether arrays that were read have the types, shapes and ranges that their use needs.

    `sizes` has the number of values of each parameter, by the kernel's name.
    """
    about, entries = group.about, len(group.device)
    rows, parameters = group.kernel.shape[-1:], group.values.shape[-1:]
    shapes = {"points": (entries, len(about.numbers)), "words": (entries, len(about.words)),
              "facts": (len(about.devices), len(about.facts)), "device": (entries,), "is_portfolio": (entries,),
              "kernel": (entries, *rows), "values": (entries, *rows, *parameters), "slowness": (entries, *rows),
              "typical": (entries,)}
    arrays = {name: getattr(group, name) for name in ARRAYS}
    if (entries == 0 or group.kernel.ndim != 2 or group.values.ndim != 3 or group.kernel.size > LARGEST
            or not {*about.kernels} <= {*sizes}
            or any(array.shape != shapes[name] or array.dtype != ARRAYS[name] for name, array in arrays.items())):
        return False
    largest = np.zeros((len(about.kernels) + 1, *parameters), np.int64)  # the last row: where there is no kernel
    for row, name in zip(largest, about.kernels, strict=False):
        if len(sizes[name]) > len(row):
            return False
        row[:len(sizes[name])] = np.array(sizes[name]) - 1
    return bool(
        not np.isinf(group.points).any() and not np.isinf(group.facts).any()
        and np.isfinite(group.slowness).all() and np.isfinite(group.typical).all()
        and 0 <= group.device.min() <= group.device.max() < len(about.devices)
        and NO_KERNEL <= group.kernel.min(initial=0) <= group.kernel.max(initial=0) < len(about.kernels)
        and (group.values >= 0).all() and (group.values <= largest[group.kernel]).all())


def spread_rows(seconds: Floats, count: int) -> Numbers:
    """The numbers of at most `count` measurements that ran: half of them the fastest, half spread over the others."""
    ran = np.flatnonzero(np.isfinite(seconds))
    ran = ran[np.argsort(seconds[ran], kind="stable")]
    if len(ran) <= count:
        return ran
    fastest = count // 2
    rest = np.linspace(fastest, len(ran) - 1, count - fastest).astype(np.int64)
    return np.asarray(ran[np.concatenate([np.arange(fastest), rest])])
