"""ProblemColumns: many problems of one type as columns, checked and derived at once.

A foreign data base holds a hundred thousand problems; one by one their rules and derived quantities take a minute, as
columns a second. What a column says of an unknown feature is a filler: `known` tells.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError

from ..expression import Expression
from ..operations.feature import Feature, Value
from ..operations.operation import Operation
from ..operations.table import operation
from ..problem import Problem

Column = NDArray[Any]
Known = NDArray[np.bool_]


class ProblemColumns:
    """Features and derived quantities of `len(self)` problems of a type by name: `values`, and where they are `known`.

    Made with `of` from problems, or with `read` from unchecked values, of which `problems` then makes problems.
    """

    def __init__(self, work: Operation, values: dict[str, Column], known: dict[str, Known],
                 given: dict[str, Known] | None = None) -> None:
        self.work = work
        self.values = values
        self.known = known
        self._length = len(next(iter(values.values())))
        self._given = {name: known[name] for name in work.by_name} if given is None else given
        if given is None:
            for name, expression in work.derived:
                self._derive(name, expression)

    def __len__(self) -> int:
        return self._length

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> ProblemColumns:
        """Of problems of one type, which has a table of features."""
        work = operation(problems[0].type)
        columns = list(zip(*([value for _, value in problem.features] for problem in problems), strict=True))
        return cls(work, *_split(work, dict(zip(work.by_name, columns, strict=True))))

    @classmethod
    def read(cls, type_name: str, given: Mapping[str, Sequence[Value]]) -> tuple[ProblemColumns, Known]:
        """From columns of unchecked values, None where unknown, and which rows are within the features' bounds.

        Rows out of bounds hold fillers; features that are not given take their defaults.
        """
        work = operation(type_name)
        length = len(next(iter(given.values())))
        sound = np.ones(length, dtype=bool)
        columns: dict[str, Sequence[Value]] = {}
        for feature in work.features:
            column = given.get(feature.name)
            if column is None:
                columns[feature.name] = [feature.default] * length
                continue
            checked = {value: _checked(feature, value) for value in set(column)}
            columns[feature.name] = [checked[value][0] for value in column]
            sound &= np.array([checked[value][1] for value in column])
        return cls(work, *_split(work, columns)), sound

    def take(self, rows: Column) -> ProblemColumns:
        """Those rows, in that order."""
        values, known, given = ({name: column[rows] for name, column in part.items()}
                                for part in (self.values, self.known, self._given))
        return ProblemColumns(self.work, values, known, given)

    def _derive(self, name: str, expression: Expression) -> None:
        known = np.ones(self._length, dtype=bool)
        for used in expression.names:
            known &= self.known[used]
        value = np.broadcast_to(np.asarray(expression(self.values)), self._length)
        if name in self.values:  # given, or derived in another way, in some rows
            value = np.where(self.known[name], self.values[name], value)
            known = known | self.known[name]
        self.values[name], self.known[name] = value, known

    def refusals(self) -> list[tuple[Known, str]]:
        """By rule that some rows break: those rows, and the reason."""
        found = []
        for condition, reason in self.work.rules:
            broken = ~np.broadcast_to(np.asarray(condition(self.values), dtype=bool), self._length)
            for name in condition.names:
                broken = broken & self.known[name]
            if broken.any():
                found.append((broken, reason))
        return found

    def problems(self) -> list[tuple[str, Problem]]:
        """The problems with their keys, each as `Problem.make` gives it, rows that `refusals` names included."""
        told = ProblemColumns(self.work, {name: self.values[name] for name in self.work.by_name},
                              {name: known & (name not in self.work.implied) for name, known in self._given.items()})
        pairs, words = [], []  # a column of each per feature
        for feature in self.work.features:
            known = self._given[feature.name]
            if feature.name in self.work.implied:
                known = known & ~(told.known[feature.name] & (told.values[feature.name] == self.values[feature.name]))
            seen: dict[Value, tuple[tuple[str, Value], str]] = {}
            column = []
            for value, there in zip(self.values[feature.name].tolist(), known.tolist(), strict=True):
                one = value if there else None
                if one not in seen:
                    default = one == feature.default and not feature.required
                    text = "unknown" if one is None else one
                    seen[one] = (feature.name, one), "" if default else " " + shlex.quote(f"{feature.name}={text}")
                column.append(seen[one])
            pairs.append([pair for pair, _ in column])
            words.append([word for _, word in column])
        return [(self.work.name + "".join(word), Problem(self.work.name, pair))
                for word, pair in zip(zip(*words, strict=True), zip(*pairs, strict=True), strict=True)]


def _split(work: Operation, columns: Mapping[str, Sequence[Value]]) -> tuple[dict[str, Column], dict[str, Known]]:
    values, known = {}, {}
    for name, column in columns.items():
        feature = work.by_name[name]
        filler: Value = feature.choices[0] if feature.choices else feature.low
        known[name] = np.array([value is not None for value in column])
        values[name] = np.array([filler if value is None else value for value in column])
    return values, known


def _checked(feature: Feature, value: Value) -> tuple[Value, bool]:
    try:
        return feature.check(value), True
    except (ProblemError, TypeError):
        return None, False


def parse_keys(keys: Iterable[str], parse: Callable[[str], Problem]) -> dict[str, Problem]:
    """The problems of many keys (`Problem.key`) by key; `parse` reads what isn't plain. Raises ProblemError."""
    found: dict[str, Problem] = {}
    plain: dict[str, list[str]] = {}
    for key in keys:
        word = key.partition(" ")[0]
        if "'" in key or operation(word).is_open:
            found[key] = parse(key)
        else:
            plain.setdefault(word, []).append(key)
    for name, some in plain.items():
        work = operation(name)
        places = {feature.name: place for place, feature in enumerate(work.features)}
        defaults = [(feature.name, feature.default) for feature in work.features]
        required = [places[feature.name] for feature in work.features if feature.required]
        problems = []
        for key in some:
            row: list[tuple[str, Value]] = list(defaults)
            given = set()
            for word in key.split(" ")[1:]:
                place, pair = _word(name, word)
                row[place] = pair
                given.add(place)
            if not given.issuperset(required):
                raise ProblemError(f"{key!r:.80} lacks a feature that {name} needs")
            problems.append(Problem(name, tuple(row)))
        for broken, reason in ProblemColumns.of(problems).refusals():
            raise ProblemError(f"{some[int(np.argmax(broken))]:.200}: {reason}")
        found.update(zip(some, problems, strict=True))
    return found


@lru_cache(maxsize=100_000)
def _word(kind: str, word: str) -> tuple[int, tuple[str, Value]]:
    """`h=56` as the place of its feature in the table, and its checked value."""
    name, _, text = word.partition("=")
    for place, feature in enumerate(operation(kind).features):
        if feature.name == name:
            value: Value = None if text == "unknown" else text
            if value is not None and not feature.choices:
                try:
                    value = float(text) if feature.number else int(text)
                except ValueError:
                    raise ProblemError(f"{word!r:.60} is not a number") from None
            return place, (name, feature.check(value))
    raise ProblemError(f"{kind} has no feature {name!r:.40}")
