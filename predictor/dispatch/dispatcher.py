"""Dispatcher: a few kernels for all shapes of an operation, the rule that chooses among them, and where each is valid.

It is saved as one JSON file, and written as C (`c_file`) or Python (`python_file`). The files give the same answers for
all sizes up to `Program.limits`, and none beyond them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seqtune.data.json_content import parse_json
from seqtune.errors import FormatError, MisuseError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.files import read_bounded, write_whole
from seqtune.kernels.kernel import Configuration, Kernel, Setting, is_setting
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.registry import is_registered, kernel

from .domain import Domain
from .facts import check_fact, fact_columns
from .guards import NEVER, Guard
from .rule import MOST_MEMBERS, Rule

FORMAT, VERSION = "seqtune dispatcher", 1
LARGEST_FILE = 5_000_000  # bytes
LARGEST_VALUE = 100_000_000  # bytes of Python's objects
MOST_CONDITIONS = 200  # of a guard
FAR = 1 << 62  # the score of a member that is not valid


class Choice(NamedTuple):
    """The answer for one shape."""

    member: int | None  # None: no member is valid
    second: int | None  # the next best valid one
    sure: bool  # the rule prefers the first by enough, and the shape is in the domain
    in_domain: bool


class Choices(NamedTuple):
    """The answers for many shapes; -1 for no member."""

    members: NDArray[np.int64]
    seconds: NDArray[np.int64]
    sure: NDArray[np.bool_]
    in_domain: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Dispatcher:
    """Members in order, a guard for each, and the rule that ranks them.

    The answer is the first member of the rule's order whose guard holds, in the domain or not.
    """

    device: Device | None  # None: unknown, so that nothing is promised
    members: tuple[Configuration, ...]
    versions: tuple[int, ...]  # of the members' kernels
    guards: tuple[Guard, ...]
    rule: Rule
    domain: Domain
    fallback: int | None  # a member that is proved valid for every shape of the domain
    gap: str = ""  # for which shapes of the domain no member may be valid; empty: there are none, if `promised`
    promised: bool = True  # whether the guards are all that a member needs; recorded choices have no constraints
    evidence: Mapping[str, Any] = field(default_factory=dict)  # JSON for readers: the curve, the bounds

    @classmethod
    def of(cls, members: Sequence[Configuration], kernels: Mapping[str, Kernel], device: Device | None, rule: Rule,
           domain: Domain, evidence: Mapping[str, Any] | None = None) -> Dispatcher:
        """Make the guards of the members, of which the best fallback is proved; `kernels` are theirs, by name.

        Without the device, or without a member's kernel, nothing is known of validity: nothing is promised, and no
        fallback proved. Raises MisuseError.
        """
        known = device is not None and all(member.kernel in kernels for member in members)
        guards = tuple(Guard.of(member, kernels[member.kernel], device) if known and device is not None else Guard(())
                       for member in members)
        versions = tuple(kernels[member.kernel].version if member.kernel in kernels else 0 for member in members)
        fallback = next((number for number, guard in enumerate(guards) if known and guard.is_proved(domain)), None)
        gap = "" if fallback is not None or not known else _gap(guards, domain)
        return cls(device, tuple(members), versions, guards, rule, domain, fallback, gap, known, dict(evidence or {}))

    @property
    def operation(self) -> Operation:
        """The operation of the shapes."""
        return self.domain.operation

    def choose(self, problem: Problem) -> Choice:
        """The answer for one problem. Raises MisuseError for a problem of another operation."""
        if problem.type != self.operation.name:
            raise MisuseError(f"this dispatcher serves {self.operation.name}, not {problem.type}")
        member, second, sure, inside = (int(column[0]) for column in self.choose_many(ProblemColumns.of([problem])))
        return Choice(None if member < 0 else member, None if second < 0 else second, bool(sure), bool(inside))

    def valid_members(self, problem: Problem) -> list[int]:
        """The members that are valid for a problem of the operation, in the order of the rule."""
        scores, valid = self._scores(ProblemColumns.of([problem]))
        order: list[int] = np.argsort(scores[0], kind="stable").tolist()
        return order[:int(valid.sum())]

    def _scores(self, columns: ProblemColumns) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The members' scores, FAR for a member that is not valid, and which are valid: both (shape, member)."""
        scores = self.rule.scores(fact_columns(self.rule.facts, columns))
        valid = np.column_stack([guard.holds(columns) for guard in self.guards])
        return np.where(valid, scores, FAR), valid

    def choose_many(self, columns: ProblemColumns) -> Choices:
        """The answers for problems of the operation."""
        inside, (scores, valid) = self.domain.contains(columns), self._scores(columns)
        order, count = np.argsort(scores, axis=1, kind="stable"), valid.sum(axis=1)
        seconds = order[:, 1] if len(self.members) > 1 else order[:, 0]
        return Choices(np.where(count > 0, order[:, 0], -1), np.where(count > 1, seconds, -1),
                       self.rule.is_sure(scores) & (count > 0) & inside, inside)

    def to_json(self) -> dict[str, Any]:
        """The dispatcher as a JSON object, which `from_json` reads."""
        work = self.operation
        members = [{"kernel": member.kernel, "settings": dict(member.settings), "version": version,
                    "conditions": [condition.text for condition in guard.conditions], "reads": list(guard.reads),
                    "reason": guard.reason}
                   for member, version, guard in zip(self.members, self.versions, self.guards, strict=True)]
        return {"format": FORMAT, "version": VERSION, "operation": work.name, "features": list(work.by_name),
                "derived": [[name, expression.text] for name, expression in work.derived],
                "device": None if self.device is None else self.device.to_json(), "domain": list(self.domain.texts()),
                "members": members, "fallback": self.fallback, "gap": self.gap, "promised": self.promised,
                "rule": self.rule.to_json(), "evidence": dict(self.evidence)}

    @classmethod
    def from_json(cls, content: object) -> Dispatcher:
        """The inverse of `to_json`; the content may come from anywhere. Raises FormatError."""
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise FormatError(f"it is no {FORMAT}; `seqtune dispatch` writes one")
        if content.get("version") != VERSION:
            raise FormatError(f"it is a {FORMAT} of version {content.get('version')!r:.20}, and this seqtune reads "
                              f"{VERSION}; update seqtune, or dispatch anew")
        try:
            return _File.model_validate(content).dispatcher()
        except ValidationError as error:
            first = error.errors()[0]
            raise FormatError(one_line(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")) from None
        except MisuseError as error:
            raise FormatError(str(error)) from None

    def save(self, path: str | Path) -> None:
        """Write the JSON file, whole or not at all. Raises SeqtuneError."""
        write_whole(path, json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Dispatcher:
        """Read the JSON file. Raises FormatError, which names the path."""
        try:
            return cls.from_json(parse_json(read_bounded(Path(path), LARGEST_FILE), path, LARGEST_VALUE))
        except FormatError as error:
            message = str(error)
            raise FormatError(message if str(path) in message else f"{path}: {message}") from None


def _gap(guards: Sequence[Guard], domain: Domain) -> str:
    """The shapes of the domain for which no member may be valid, as text; empty if all are proved to have one.

    Raises MisuseError if no member is valid for any shape.
    """
    within = [guard.within(domain) for guard in guards]
    served = [" and ".join(f"({condition.text})" for condition in guard.conditions) for guard in within
              if guard.conditions != (NEVER,)]
    if not served:
        raise MisuseError("no kernel is valid for any shape of the domain: "
                          + next((guard.reason for guard in within if guard.reason), "it has no member"))
    if all(map(str, served)) and not any(guard.reads and None in domain.ranges.values() for guard in guards):
        try:
            if domain.decide([Expression(" or ".join(f"({text})" for text in served))]):
                return ""
        except MisuseError:  # too long for one expression
            pass
    return f"shapes for which none of these holds: {'; '.join(dict.fromkeys(served))}"


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Member(_Part):
    kernel: str = Field(max_length=200)
    settings: dict[str, Setting]
    version: int
    conditions: list[str] = Field(max_length=MOST_CONDITIONS)
    reads: list[str]
    reason: str


def _check_declared(number: int, member: _Member, device: Device | None, promised: bool) -> None:
    """Check a member against the declaration of its kernel, where that is known here, in the same version.

    Raises MisuseError.
    """
    if device is None or not is_registered(member.kernel) or kernel(member.kernel).version != member.version:
        return
    guard = Guard.of(Configuration.of(member.kernel, member.settings), kernel(member.kernel), device)
    if promised and guard.conditions and not member.conditions:
        raise FormatError(f"member {number} ({member.kernel}) lacks the conditions of its kernel; dispatch anew")


class _File(_Part):
    format: str
    version: Literal[1]
    operation: str
    features: list[str]
    derived: list[list[str]]
    device: dict[str, Any] | None
    domain: list[str]
    members: list[_Member] = Field(min_length=1, max_length=MOST_MEMBERS)
    fallback: int | None
    gap: str
    promised: bool
    rule: dict[str, Any]
    evidence: dict[str, Any]

    def dispatcher(self) -> Dispatcher:
        """The dispatcher. Raises MisuseError where a part contradicts another, or the operation."""
        work, rule = operation(self.operation), Rule.from_json(self.rule)
        if self.features != list(work.by_name) or self.derived != [
                [name, expression.text] for name, expression in work.derived]:
            raise FormatError(f"it was written for another declaration of {work.name}; dispatch anew")
        guards = [Guard(tuple(map(Expression, member.conditions)), tuple(member.reads), member.reason)
                  for member in self.members]
        names = {*work.by_name, *(name for name, _ in work.derived)}
        read = [*(name for guard in guards for name in guard.reads),
                *(name for guard in guards for each in guard.conditions for name in each.names),
                *(name for fact in rule.facts for name in fact.expression.names)]
        unknown = next((name for name in read if name not in names), None)
        if unknown is not None:
            raise FormatError(f"a condition or fact reads {unknown!r:.40}, which {work.name} does not have")
        for fact in rule.facts:
            check_fact(fact, work)
        if self.fallback is not None and not self.promised:
            raise FormatError("it names a fallback but promises nothing; dispatch anew")
        if rule.members != len(guards) or not (self.fallback is None or 0 <= self.fallback < len(guards)):
            raise FormatError(f"its rule has {rule.members} members and its fallback is {self.fallback}, for "
                              f"{len(guards)} members")
        wrong = next((name for member in self.members for name, value in member.settings.items()
                      if not is_setting(value)), None)
        if wrong is not None:
            raise FormatError(f"the setting {wrong!r:.40} is not a word or a number of at most 64 bits")
        device = None if self.device is None else Device.from_json(self.device)
        if device is None and self.promised:
            raise FormatError("it promises valid members but names no device; dispatch anew")
        for number, member in enumerate(self.members):
            _check_declared(number, member, device, self.promised)
        return Dispatcher(
            device,
            tuple(Configuration.of(member.kernel, member.settings) for member in self.members),
            tuple(member.version for member in self.members), tuple(guards), rule,
            Domain.parse(work, self.domain), self.fallback, self.gap, self.promised, self.evidence)
