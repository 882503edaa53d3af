"""Problem: one piece of work, described by immutable, typed features of an operation (`seqtune.kernels.operations`).

A feature may be *unknown* (`None`): recorded and foreign data do not always contain every feature.
Letters follow cuDNN and MIOpen: N batch, C input channels, K output channels, H W input size, R S filter size.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from seqtune.errors import ProblemError, json_fault, shown

from .devices.device import Device
from .devices.element_types import ElementType, element_type
from .expression import Expression
from .operations.feature import Value
from .operations.near_names import near_name
from .operations.operation import Operation
from .operations.table import operation


@dataclass(frozen=True, slots=True)
class Problem:
    """Features of one problem, in the order of its operation's table. Make one with `Problem.make`."""

    type: str  # the name of the operation
    features: tuple[tuple[str, Value], ...]

    @classmethod
    def make(cls, type_name: str, /, **given: Value) -> Problem:
        """Make a problem and check it; features that are not given take their defaults. Raises ProblemError."""
        work = operation(type_name)
        if work.is_open:
            problem = cls(type_name, _any_features(given))
        else:
            problem = cls(type_name, _checked_features(work, given))._without_implied(work)
        names = problem.names()
        for condition, reason in work.rules:
            if not any(names.get(name) is None for name in condition.names) and not condition(names):
                raise ProblemError(f"{type_name}: {reason} (found {problem.brief()})")
        return problem

    def _without_implied(self, work: Operation) -> Problem:
        """The same problem without the given features that follow from others, so that equal problems have equal keys.
        """
        given = {name for name, value in self.features if name in work.implied and value is not None}
        if not given:
            return self
        rest = Problem(self.type, tuple((name, None if name in given else value) for name, value in self.features))
        derived = rest.names()
        return Problem(self.type, tuple((name, None if name in given and derived[name] == value else value)
                                        for name, value in self.features))

    def __getitem__(self, name: str) -> Value:
        for key, value in self.features:
            if key == name:
                return value
        raise KeyError(name)

    @property
    def dtype(self) -> str:
        """The name of the element type of the operands; fp32 where the operation has no such feature."""
        dtype = next((value for name, value in self.features if name == "dtype"), None)
        return dtype if isinstance(dtype, str) else "fp32"

    @property
    def element(self) -> ElementType:
        """The element type in which kernels store the operands. Raises ProblemError if they cannot."""
        return element_type(self.dtype)

    def size(self, name: str) -> int:
        """The value of a feature or derived quantity. Raises ProblemError if it is not a known whole number."""
        value = _names(self).get(name)
        if not isinstance(value, int):
            raise ProblemError(f"{self.type}: {name} is unknown here, and is needed")
        return value

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return iter(self.features)

    def names(self) -> dict[str, Value]:
        """Features and derived quantities by name. A quantity that reads an unknown feature is unknown (None)."""
        return dict(_names(self))

    @property
    def key(self) -> str:
        """The identity of the problem as text: `conv2d c=64 h=56 ...`, without features at their defaults."""
        return self.brief(skip_defaults=True)

    def brief(self, skip_defaults: bool = True) -> str:
        """The problem as one line of text that `parse_problem` reads."""
        table = operation(self.type).by_name
        words = [self.type]
        for name, value in self.features:
            feature = table.get(name)
            if skip_defaults and feature is not None and not feature.required and value == feature.default:
                continue
            words.append(shlex.quote(f"{name}={'unknown' if value is None else value}"))
        return " ".join(words)

    def to_json(self) -> dict[str, Value]:
        """The problem as a flat JSON object: `type` and every feature."""
        return {"type": self.type, **dict(self.features)}

    @classmethod
    def from_json(cls, text: str | Mapping[str, Value]) -> Problem:
        """The inverse of `to_json`. Raises ProblemError."""
        if isinstance(text, str):
            try:
                loaded = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ProblemError(f"not JSON: {text[:60]!r} ({json_fault(error)})") from None
        else:
            loaded = dict(text)
        if not isinstance(loaded, dict) or not isinstance(loaded.get("type"), str):
            raise ProblemError("a problem in JSON is an object with a `type` and its features")
        kind = loaded.pop("type")
        for name, value in loaded.items():
            if not isinstance(value, int | float | str | None) or isinstance(value, bool):
                raise ProblemError(f"{name!r:.40} must be a number, a word or null")
        return cls.make(kind, **loaded)


@lru_cache(maxsize=4096)
def _names(problem: Problem) -> Mapping[str, Value]:
    values: dict[str, Value] = dict(problem.features)
    for name, expression in operation(problem.type).derived:
        if values.get(name) is not None:  # given, or derived by an earlier expression
            continue
        unknown = any(values.get(used) is None for used in expression.names)
        values[name] = None if unknown else expression(values)
    return values


class NameValues(dict[str, Any]):
    """The values of the names that expressions may read of a problem on a device, and which conditions hold for them.
    """

    __slots__ = ("_truths", "reasons")

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._truths: dict[str, bool] = {}  # by text: kernels of a library have many conditions in common
        self.reasons: dict[object, str | None] = {}  # why a kernel does not solve the problem, where that was asked

    def satisfy(self, condition: Expression) -> bool:
        """Whether a condition on these names holds. Raises ExpressionError."""
        truth = self._truths.get(condition.text)
        if truth is None:
            truth = self._truths[condition.text] = bool(condition(self))
        return truth


# The latest answer of `names_of`: a prediction asks dozens of times, and to hash problem and device takes microseconds
_latest: list[tuple[Problem, Device, NameValues] | None] = [None]


def names_of(problem: Problem, device: Device) -> NameValues:
    """The values of the names of a problem on a device; they must not be changed."""
    latest = _latest[0]  # read once: other threads replace it
    if latest is None or latest[0] is not problem or latest[1] is not device:
        latest = _latest[0] = problem, device, _names_of(problem, device)
    return latest[2]


@lru_cache(maxsize=64)
def _names_of(problem: Problem, device: Device) -> NameValues:
    return NameValues({**device.names(), **_names(problem)})


def forget_names() -> None:
    """Forget the derived quantities of all problems: an operation has been replaced by another of its name."""
    _names.cache_clear()
    _names_of.cache_clear()
    _latest[0] = None


def _any_features(given: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """The features of a problem of an open operation, sorted by name. Raises ProblemError."""
    for name, value in given.items():
        if not name or set(name) & set("= \t\r\n") or (isinstance(value, float) and not math.isfinite(value)):
            raise ProblemError(f"{shown(name)}={shown(value)} is not a name and a finite number or word")
    return tuple(sorted(given.items()))


def _checked_features(work: Operation, given: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """Every feature of the operation's table, with its given value or its default. Raises ProblemError."""
    unknown = sorted(set(given) - set(work.by_name))
    if unknown:
        known = " ".join(feature.name for feature in work.features)
        near = near_name(unknown[0], work)
        raise ProblemError(f"{work.name} has no feature {unknown[0]!r:.40}; {f'did you mean {near}? ' if near else ''}"
                           f"it has {known}")
    values: list[tuple[str, Value]] = []
    for feature in work.features:
        if feature.name in given:
            values.append((feature.name, feature.check(given[feature.name])))
        elif feature.required:
            raise ProblemError(f"{work.name} needs {feature.name} ({feature.meaning})")
        else:
            values.append((feature.name, feature.default))
    return tuple(values)
