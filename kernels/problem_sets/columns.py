"""ProblemColumns: many problems of one type as columns, checked and derived at once.

A foreign database holds a hundred thousand problems. Evaluating their rules and derived quantities takes a minute
problem by problem, and a second over columns. If a feature is unknown, `known` is False and its column holds a filler.
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
    """Columns of the features and derived quantities of `len(self)` problems of one operation, by name.

    `values` holds the values and `known` marks the rows where they are known. `of` builds the columns from problems;
    `read` builds them from unchecked values, which `problems` then turns into problems.
    """

    def __init__(self, work: Operation, values: dict[str, Column], known: dict[str, Known],
                 given: dict[str, Known] | None = None) -> None:
        self.operation = work
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
        """The columns of problems of one operation, which must have a table of features."""
        work = operation(problems[0].type)
        columns = list(zip(*([value for _, value in problem.features] for problem in problems), strict=True))
        return cls(work, *_split(work, dict(zip(work.by_name, columns, strict=True))))

    @classmethod
    def read(cls, type_name: str, given: Mapping[str, Sequence[Value]]) -> tuple[ProblemColumns, Known]:
        """Build the columns from unchecked values (None: unknown), and a mask of the rows within the features' bounds.

        Rows out of bounds hold fillers. Features that are not given take their defaults.
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
        """Copy the columns with only the given rows, in the given order."""
        values, known, given = ({name: column[rows] for name, column in part.items()}
                                for part in (self.values, self.known, self._given))
        return ProblemColumns(self.operation, values, known, given)

    def all_known(self, names: Iterable[str]) -> Known:
        """A mask of the rows where all of these names are known."""
        known = np.ones(self._length, dtype=bool)
        for name in names:
            known &= self.known[name]
        return known

    def _derive(self, name: str, expression: Expression) -> None:
        known = self.all_known(expression.names)
        value = np.broadcast_to(np.asarray(expression(self.values)), self._length)
        if name in self.values:  # given, or derived in another way, in some rows
            value = np.where(self.known[name], self.values[name], value)
            known = known | self.known[name]
        self.values[name], self.known[name] = value, known

    def refusals(self) -> list[tuple[Known, str]]:
        """A mask of the rows that break a rule, and the reason, for each rule that is broken."""
        refusals = []
        for condition, reason in self.operation.rules:
            broken = self.all_known(condition.names) & ~np.asarray(condition(self.values), dtype=bool)
            if broken.any():
                refusals.append((broken, reason))
        return refusals

    def problems(self) -> list[tuple[str, Problem]]:
        """The key and the problem of each row, equal to what `Problem.make` returns; broken rules are not checked."""
        implied = self.operation.implied
        derived = ProblemColumns(self.operation, {name: self.values[name] for name in self.operation.by_name},
                                 {name: known & (name not in implied) for name, known in self._given.items()})
        pairs, words = [], []  # one column per feature
        for feature in self.operation.features:
            known = self._given[feature.name]
            if feature.name in implied:
                equal = derived.values[feature.name] == self.values[feature.name]
                known = known & ~(derived.known[feature.name] & equal)
            seen: dict[Value, tuple[tuple[str, Value], str]] = {}
            column = []
            for value, is_known in zip(self.values[feature.name].tolist(), known.tolist(), strict=True):
                stated = value if is_known else None
                if stated not in seen:
                    default = stated == feature.default and not feature.required
                    text = "unknown" if stated is None else stated
                    word = "" if default else " " + shlex.quote(f"{feature.name}={text}")
                    seen[stated] = (feature.name, stated), word
                column.append(seen[stated])
            pairs.append([pair for pair, _ in column])
            words.append([word for _, word in column])
        return [(self.operation.name + "".join(word), Problem(self.operation.name, pair))
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
    """The problems of many keys (`Problem.key`), by key. Raises ProblemError.

    `parse` reads the keys with quotes and those of open operations, which cannot be read as columns.
    """
    problems: dict[str, Problem] = {}
    plain: dict[str, list[str]] = {}
    for key in keys:
        word = key.partition(" ")[0]
        if "'" in key or operation(word).is_open:
            problems[key] = parse(key)
        else:
            plain.setdefault(word, []).append(key)
    for name, plain_keys in plain.items():
        work = operation(name)
        indices = {feature.name: index for index, feature in enumerate(work.features)}
        defaults = [(feature.name, feature.default) for feature in work.features]
        required = [indices[feature.name] for feature in work.features if feature.required]
        plain_problems = []
        for key in plain_keys:
            row: list[tuple[str, Value]] = list(defaults)
            stated = set()
            for word in key.split(" ")[1:]:
                index, pair = _word(work, word)
                row[index] = pair
                stated.add(index)
            if not stated.issuperset(required):
                raise ProblemError(f"{key!r:.80} lacks a feature that {name} needs")
            plain_problems.append(Problem(name, tuple(row)))
        for broken, reason in ProblemColumns.of(plain_problems).refusals():
            raise ProblemError(f"{plain_keys[int(np.argmax(broken))]:.200}: {reason}")
        problems.update(zip(plain_keys, plain_problems, strict=True))
    return problems


@lru_cache(maxsize=100_000)
def _word(work: Operation, word: str) -> tuple[int, tuple[str, Value]]:
    """Parse a word such as `h=56`: the index of its feature in the table, and its name with the checked value."""
    name, _, text = word.partition("=")
    for index, feature in enumerate(work.features):
        if feature.name == name:
            value: Value = None if text == "unknown" else text
            if value is not None and not feature.choices:
                try:
                    value = float(text) if feature.number else int(text)
                except ValueError:
                    raise ProblemError(f"{word!r:.60} is not a number") from None
            return index, (name, feature.check(value))
    raise ProblemError(f"{work.name} has no feature {name!r:.40}")
