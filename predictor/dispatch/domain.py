"""Domain: which shapes of an operation a dispatcher promises to serve, as ranges of its features and constraints."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError, MisuseError, ProblemError, shown
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import Feature, Value
from seqtune.kernels.operations.near_names import near_name
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import Column, ProblemColumns
from seqtune.kernels.problem_sets.parse import feature_value
from seqtune.kernels.task import Floats

from .folding import NEVER, Folder, conjuncts

MOST_LISTED = 1000  # values of one feature
LARGEST_GRID = 1 << 18  # shapes over which a condition is proved one by one; a tenth of a second
LARGEST_STEP = 64  # a fresh size is a multiple of the power of two that divides both given sizes, up to this one
LEAST_DRAWN = 4096  # random shapes of one attempt, at least
ATTEMPTS = (1, 2, 4, 8, 16)  # factors on the shapes or the spread of an attempt, until enough shapes are in the domain
SPREAD = 0.1  # standard deviation of the logarithm of a fresh size between the given ones, in the first attempt
HASHES = 61  # random moves of a fresh problem: its sizes share them by their remainders, so that equal ones stay equal
_RANGE = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", re.DOTALL)


class Span(NamedTuple):
    """Whole numbers from `low` to `high`."""

    low: int
    high: int


Range: TypeAlias = Span | tuple[Value, ...] | Value  # a list of values; one value; None: any value, also an unknown one


@dataclass(frozen=True, eq=False)
class Domain:
    """The shapes whose features are in these ranges, one for every feature, and for which the constraints hold."""

    operation: Operation
    ranges: Mapping[str, Range]
    constraints: tuple[Expression, ...] = ()

    @classmethod
    def of_shapes(cls, problems: Sequence[Problem]) -> Domain:
        """The smallest box around problems of one operation.

        Features that are unknown in some of them may have any value. Raises MisuseError.
        """
        kinds = sorted({problem.type for problem in problems})
        if len(kinds) != 1:
            raise MisuseError(f"a domain needs shapes of one operation (found {', '.join(kinds) or 'none'})")
        work, ranges = operation(kinds[0]), dict[str, Range]()
        if work.is_open:
            raise MisuseError(f"{work.name} has no table of features, so no domain can be declared")
        for feature in work.features:
            ranges[feature.name] = _box(feature, list(dict.fromkeys(problem[feature.name] for problem in problems)))
        return cls(work, ranges)

    @classmethod
    def parse(cls, work: Operation, texts: Iterable[str], base: Domain | None = None) -> Domain:
        """Read ranges (`m=1..4096`, `n=64,128`, `dtype=fp16`) and constraints (`m % 8 == 0`).

        Features without a range keep that of `base`; without one they have their default. Raises MisuseError.
        """
        stated: dict[str, Range] = {}
        constraints = list(base.constraints) if base is not None else []
        for text in texts:
            match = _RANGE.fullmatch(text.strip())
            if match is None:
                constraints.append(_constraint(work, text))
                continue
            name, values = match[1], match[2].strip()
            for each in work.shorthands.get(name, (name,)) if name not in work.by_name else (name,):
                if each not in work.by_name:
                    near = near_name(each, work)
                    raise MisuseError(f"{text!r:.60}: {work.name} has no feature {each!r:.40}; "
                                      f"{f'did you mean {near}? ' if near else ''}it has {', '.join(work.by_name)}")
                if each in stated:
                    raise MisuseError(f"{text!r:.60}: {each} has two ranges; write one")
                stated[each] = _range(work.by_name[each], values, text)
        if base is None:
            for name, other in work.repeated.items():
                if other in stated and name not in stated:
                    stated[name] = stated[other]
                    if isinstance(stated[name], tuple):
                        constraints.append(Expression(f"{name} == {other}"))
        missing = [feature.name for feature in work.features if feature.required and base is None
                   and feature.name not in stated]
        if missing:
            raise MisuseError(f"the ranges of {work.name} lack {', '.join(missing)}; write {missing[0]}=1..4096")
        ranges = {feature.name: stated.get(feature.name, feature.default if base is None
                                          else base.ranges[feature.name]) for feature in work.features}
        return cls(work, ranges, tuple(dict.fromkeys(constraints)))

    def texts(self) -> tuple[str, ...]:
        """The ranges and constraints as `parse` reads them."""
        return (*(f"{name}={_text(values)}" for name, values in self.ranges.items()),
                *(constraint.text for constraint in self.constraints))

    @property
    def fixed(self) -> dict[str, Value]:
        """The features that have one known value."""
        return {name: values for name, values in self.ranges.items()
                if values is not None and not isinstance(values, tuple)}

    @property
    def varying(self) -> tuple[Feature, ...]:
        """The features with several values."""
        return tuple(feature for feature in self.operation.features if isinstance(self.ranges[feature.name], tuple))

    def contains(self, columns: ProblemColumns) -> NDArray[np.bool_]:
        """Whether each problem is in the domain: (shape,).

        A feature that follows from others, and has no range, has the value that follows: an `out_h` that contradicts
        `h` is outside. Files compute it, so they cannot be told another one.
        """
        inside = np.ones(len(columns), bool)
        for name, values in self.ranges.items():
            if values is not None:
                column = columns.values[name]
                inside &= columns.known[name] & (
                    (column >= values.low) & (column <= values.high) if isinstance(values, Span)
                    else np.isin(column, np.array(values if isinstance(values, tuple) else (values,))))
        for broken, _ in columns.refusals():
            inside &= ~broken
        follows = [Expression(f"{name} == ({expression.text})") for name, expression in self.operation.derived
                   if name in self.ranges and self.ranges[name] is None
                   and not any(self.ranges.get(each) is None for each in expression.names)]
        return holding([*follows, *self.constraints], columns, inside)

    def _inside(self, columns: ProblemColumns) -> ProblemColumns:
        """The problems that are in the domain."""
        return columns.take(np.flatnonzero(self.contains(columns)))

    def draw(self, count: int, generator: np.random.Generator, near: Sequence[Problem],
             weights: Floats | None = None) -> list[Problem]:
        """Draw different fresh problems of the domain, like the problems `near` it and equal to none of them.

        Each is made from two problems, chosen by `weights` (None: equal): a size lies between their sizes or near them,
        and is a multiple of the power of two that divides both; other features are those of the first problem. There
        may be fewer than `count` in a small domain.
        """
        columns, fresh = ProblemColumns.of(near), dict[Problem, None]()
        chances = None if weights is None else np.asarray(weights) / np.sum(weights)
        for times in ATTEMPTS:
            first, second = (columns.take(rows) for rows in generator.choice(
                len(near), (2, max(count, LEAST_DRAWN)), p=chances))
            inside = self._inside(self._between(first, second, times, generator))
            fresh.update(dict.fromkeys(problem for _, problem in inside.problems()))
            if len(fresh.keys() - {*near}) >= count:
                break
        return [problem for problem in fresh if problem not in {*near}][:count]

    def _between(self, first: ProblemColumns, second: ProblemColumns, times: int,
                 generator: np.random.Generator) -> ProblemColumns:
        """A problem between each two in the same row; more `times` move it farther, and ask for smaller multiples."""
        work, rows, share = self.operation, np.arange(len(first)), generator.random(len(first))
        moved = generator.normal(0, SPREAD * times, (len(first), HASHES))
        values = {name: first.values[name] for name in work.by_name}
        for feature in self.varying:
            choices, a, b = self.ranges[feature.name], first.values[feature.name], second.values[feature.name]
            if a.dtype.kind != "i" or (work.sizes and feature.name not in work.sizes):
                continue
            logs = share * np.log(np.maximum(a, 1)) + (1 - share) * np.log(np.maximum(b, 1))
            size = np.where((a == b) & (times < ATTEMPTS[-1]), a, np.exp(logs + moved[rows, a % HASHES]))
            divisor = np.gcd(a, b)
            step = np.clip((divisor & -divisor) // times**2, 1, LARGEST_STEP)
            if isinstance(choices, Span):
                size = np.clip(np.rint(size / step).astype(np.int64) * step, choices.low, choices.high)
            else:
                listed = np.array(choices)
                size = listed[np.abs(listed[:, None] - size).argmin(axis=0)]
            values[feature.name] = size
        return ProblemColumns(work, values, {name: first.known[name] for name in work.by_name})

    def sample(self, count: int, generator: np.random.Generator) -> ProblemColumns:
        """Random problems of the domain as columns, at most `count`, log-uniform within the ranges or at their ends.

        Raises MisuseError if none of them obeys the constraints and the operation's rules.
        """
        for times in ATTEMPTS:
            inside = self._inside(self._uniform(times * max(count, LEAST_DRAWN), generator))
            if len(inside) >= count:
                break
        if not len(inside):
            raise MisuseError(f"no random shape in the ranges obeys the constraints of the domain and the rules of "
                              f"{self.operation.name}: {'; '.join(self.texts())[:200]}")
        return inside.take(np.arange(min(count, len(inside))))

    def _uniform(self, count: int, generator: np.random.Generator) -> ProblemColumns:
        """Random problems within the ranges. Features are equal, and multiples, where a constraint says so."""
        columns: dict[str, Column] = {}
        for name, values in self.ranges.items():
            if isinstance(values, Span):
                logs = generator.uniform(math.log(values.low + 0.5), math.log(values.high + 0.5), count)
                sizes = np.rint(np.exp(logs)).astype(np.int64).clip(values.low, values.high)
                at_end = generator.random(count) < 0.1
                columns[name] = np.where(at_end, generator.choice(np.array(values), count), sizes)
            else:
                feature = self.operation.by_name[name]
                filler = feature.choices[0] if feature.choices else feature.low
                listed = values if isinstance(values, tuple) else (filler if values is None else values,)
                columns[name] = generator.choice(np.array(listed), count)
        for part in (part for constraint in self.constraints for part in conjuncts(constraint.tree)):
            match part:
                case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Name(id=other)]) \
                        if name in columns and other in columns:
                    columns[name] = columns[other]
                case ast.Compare(left=ast.BinOp(left=ast.Name(id=name), op=ast.Mod(), right=ast.Constant(
                        value=int(divisor))), ops=[ast.Eq()], comparators=[ast.Constant(value=0)]) \
                        if divisor > 0 and isinstance(span := self.ranges.get(name), Span):
                    columns[name] = np.maximum(columns[name] // divisor, -(-span.low // divisor)) * divisor
        known = {name: np.full(count, values is not None) for name, values in self.ranges.items()}
        return ProblemColumns(self.operation, columns, known)

    @cached_property
    def folder(self) -> Folder:
        """The folder of conditions over the problems of the domain."""
        return problem_folder(self.operation, self.ranges)

    def proves(self, conditions: Sequence[Expression]) -> bool:
        """Whether conditions are proved for all problems of the domain: by intervals, or by trying all values."""
        return all(condition != NEVER and self._holds_everywhere(condition)
                   for condition in self.folder.conditions(conditions))

    def _holds_everywhere(self, condition: Expression) -> bool:
        """Whether a condition holds for all combinations of the features on which it depends.

        Not if these are too many, or a feature may be unknown.
        """
        read = {*condition.names}
        for name, expression in reversed(self.operation.derived):
            if name in read:
                read = (read - {name}) | {*expression.names}
        lists = {name: range(values.low, values.high + 1) if isinstance(values, Span)
                 else values if isinstance(values, tuple) else (values,)
                 for name, values in self.ranges.items() if name in read}
        if read != lists.keys() or (None,) in lists.values() or math.prod(map(len, lists.values())) > LARGEST_GRID:
            return False
        meshes = np.meshgrid(*map(np.array, lists.values()), indexing="ij")
        values: dict[str, NDArray[Any]] = {name: mesh.ravel() for name, mesh in zip(lists, meshes, strict=True)}
        count = math.prod(map(len, lists.values()))
        for name, expression in self.operation.derived:
            if name not in values and values.keys() >= {*expression.names}:
                values[name] = np.broadcast_to(np.asarray(expression(values)), count)
        rules = [rule for rule in (*self.constraints, *(rule for rule, _ in self.operation.rules))
                 if values.keys() >= {*rule.names}]
        inside = holding(rules, values, np.ones(count, bool))
        return bool(holding([condition], values, inside)[inside].all())


def problem_folder(work: Operation, ranges: Mapping[str, Range]) -> Folder:
    """A folder of conditions over the names of an operation's problems, whose features are in these ranges.

    Features with one value, and derived sizes that follow from them, are constants. Features without a range have that
    of the operation's table.
    """
    folder = Folder()
    for feature in work.features:
        values = ranges.get(feature.name, () if feature.choices or feature.number else Span(feature.low, feature.high))
        whole = [value for value in values if isinstance(value, int)] if isinstance(values, tuple) else []
        known = whole and isinstance(values, tuple) and len(whole) == len(values)
        folder.keep(feature.name, (min(whole), max(whole)) if known else None)
    folder.put({name: values for name, values in ranges.items() if not isinstance(values, tuple)})
    names = [name for name, _ in work.derived]
    for name, expression in work.derived:
        if name in work.by_name or names.count(name) > 1:  # given, or derived in several ways
            folder.keep(name, None)
        else:
            folder.derive(name, expression)
    return folder


def holding(conditions: Iterable[Expression], columns: ProblemColumns | Mapping[str, NDArray[Any]],
            rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether all conditions hold in each of the `rows`; not where one has no value or reads an unknown name."""
    values = columns.values if isinstance(columns, ProblemColumns) else columns
    holds = rows.copy()
    for condition in conditions:
        if isinstance(columns, ProblemColumns):
            holds &= columns.all_known(condition.names)
        indices = np.flatnonzero(holds)
        if len(indices):
            read = {name: values[name][indices] for name in condition.names}
            try:
                holds[indices] = np.asarray(condition(read)).astype(bool)
            except ExpressionError:  # in some row, such as for the missing key of a table
                holds[indices] = [_holds(condition, dict(zip(read, row, strict=True)))
                                  for row in zip(*(column.tolist() for column in read.values()), strict=True)]
    return holds


def _holds(condition: Expression, values: Mapping[str, Any]) -> bool:
    try:
        return bool(condition(values))
    except ExpressionError:
        return False


def _box(feature: Feature, values: Sequence[Value]) -> Range:
    """The smallest range with these different values of a feature."""
    if None in values or len(values) == 1:
        return None if None in values else values[0]
    if feature.choices or feature.number or feature.numbers:
        return tuple(sorted(values))  # type: ignore[type-var]  # they are all numbers, or all words
    whole = [value for value in values if isinstance(value, int)]
    return Span(min(whole), max(whole))


def _constraint(work: Operation, text: str) -> Expression:
    names = {*work.by_name, *(name for name, _ in work.derived)}
    try:
        constraint = Expression(text)
    except ExpressionError as error:
        raise MisuseError(f"{text!r:.60} is neither a range (m=1..4096) nor a constraint: {error}") from None
    unknown = next((name for name in constraint.names if name not in names), None)
    if unknown is not None or not constraint.names:
        raise MisuseError(f"{text!r:.60}: {work.name} has no {unknown!r:.40}; it has {', '.join(sorted(names))}"
                          if unknown else f"{text!r:.60} names no feature of {work.name}")
    return constraint


def _range(feature: Feature, text: str, whole: str) -> Range:
    """The range of a feature that a text describes. Raises MisuseError."""
    begin, dots, end = text.partition("..")
    try:
        if not dots:
            values = tuple(dict.fromkeys(feature.check(feature_value(feature.name, part)) for part in text.split(",")))
            if len(values) > MOST_LISTED or (None in values and len(values) > 1):
                raise ProblemError(f"a list has at most {MOST_LISTED} known values; write a range, low..high")
            return values if len(values) > 1 else values[0]
        if feature.choices or feature.number or feature.numbers:
            raise ProblemError(f"{feature.name} has no range; list its values, as {feature.name}=a,b")
        low, high = (feature.check(feature_value(feature.name, part)) for part in (begin, end))
    except ProblemError as error:
        raise MisuseError(f"{whole!r:.60}: {error}") from None
    if not isinstance(low, int) or not isinstance(high, int) or low > high:
        raise MisuseError(f"{whole!r:.60}: {shown(text)} is empty; write low..high")
    return Span(low, high) if low < high else low


def _text(values: Range) -> str:
    match values:
        case Span(low, high):
            return f"{low}..{high}"
        case tuple():
            return ",".join(map(str, values))
    return "unknown" if values is None else str(values)
