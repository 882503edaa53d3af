"""Dispatcher: a few kernels for all shapes of an operation, the rule that chooses among them, and where each is valid.

It is saved as one JSON file, and written as C (`c_file`) or Python (`python_file`), which give the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from seqtune.data.json_content import parse_json
from seqtune.errors import ExpressionError, FormatError, MisuseError, one_line
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
from .guards import Guard
from .rule import FAR, MOST_MEMBERS, Rule

FORMAT, VERSION = "seqtune dispatcher", 1
LARGEST_FILE = 5_000_000  # bytes
LARGEST_VALUE = 100_000_000  # bytes that its content takes as objects of Python
MOST_TEXTS = 200  # ranges and constraints of a domain


class Choice(NamedTuple):
    """The answer for one shape."""

    member: int | None  # None: no member is valid, or the shape is outside of the domain
    second: int | None  # the next best valid one
    sure: bool  # the rule prefers the first by enough
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

    The answer for a shape of the domain is the first member of the rule's order whose guard holds; for another shape
    there is none.
    """

    device: Device | None  # None: unknown, so that nothing is promised
    members: tuple[Configuration, ...]
    versions: tuple[int, ...]  # of the members' kernels
    guards: tuple[Guard, ...]  # empty: nothing is known of validity, as for recorded choices, and nothing is promised
    rule: Rule
    domain: Domain
    evidence: Mapping[str, Any] = field(default_factory=dict)  # JSON for readers: the curve, the bounds

    @classmethod
    def of(cls, members: Sequence[Configuration], kernels: Mapping[str, Kernel], device: Device | None, rule: Rule,
           domain: Domain) -> Dispatcher:
        """Make the guards of the members; `kernels` are theirs, by name.

        Without the device, or without a member's kernel, nothing is known of validity. Raises MisuseError.
        """
        known = device is not None and all(member.kernel in kernels for member in members)
        guards = tuple(Guard.of(member, kernels[member.kernel], device) for member in members
                       if known and device is not None)
        versions = tuple(kernels[member.kernel].version if member.kernel in kernels else 0 for member in members)
        return cls(device, tuple(members), versions, guards, rule, domain)

    @property
    def operation(self) -> Operation:
        """The operation of the shapes."""
        return self.domain.operation

    @property
    def promised(self) -> bool:
        """Whether the guards say for which shapes each member is valid."""
        return bool(self.guards)

    @cached_property
    def fallback(self) -> int | None:
        """The first member that is proved valid for every shape of the domain; None if none is."""
        return next((number for number, guard in enumerate(self.guards) if guard.is_proved(self.domain)), None)

    @cached_property
    def gap(self) -> str:
        """The shapes of the domain that possibly have no valid member; empty without any, or if nothing is promised."""
        if not self.promised or self.fallback is not None:
            return ""
        within = [[each.text for each in guard.conditions if not self.domain.proves([each])] for guard in self.guards]
        weakest = [texts for texts in within if not any({*other} < {*texts} for other in within)]
        served = dict.fromkeys(" and ".join(f"({text})" for text in texts) or "True" for texts in weakest)
        if not any(guard.reads and None in self.domain.ranges.values() for guard in self.guards):
            try:
                if self.domain.proves([Expression(" or ".join(f"({text})" for text in served))]):
                    return ""
            except ExpressionError:  # too long for one expression
                pass
        return f"shapes for which none of these holds: {'; '.join(served)}"

    def choose(self, problem: Problem) -> Choice:
        """The answer for one problem. Raises MisuseError for a problem of another operation."""
        if problem.type != self.operation.name:
            raise MisuseError(f"this dispatcher serves {self.operation.name}, not {problem.type}")
        member, second, sure, inside = (int(column[0]) for column in self.choose_many(ProblemColumns.of([problem])))
        return Choice(None if member < 0 else member, None if second < 0 else second, bool(sure), bool(inside))

    def order(self, problem: Problem) -> list[Configuration]:
        """The valid members for a problem of the operation, in the order of the rule; none outside of the domain."""
        (scores,) = self.scores(ProblemColumns.of([problem]))
        return [self.members[number] for number in np.argsort(scores, kind="stable").tolist() if scores[number] < FAR]

    def choose_many(self, columns: ProblemColumns) -> Choices:
        """The answers for problems of the operation."""
        scores = self.scores(columns)
        order, count = np.argsort(scores, axis=1, kind="stable"), (scores < FAR).sum(axis=1)
        seconds = order[:, 1] if len(self.members) > 1 else order[:, 0]
        return Choices(np.where(count > 0, order[:, 0], -1), np.where(count > 1, seconds, -1),
                       (self.rule.leads(scores) >= self.rule.sure) & (count > 0), self.domain.contains(columns))

    def scores(self, columns: ProblemColumns) -> NDArray[np.int64]:
        """The members' scores, FAR for one that is not valid, or a shape outside of the domain: (shape, member)."""
        scores = self.rule.scores(fact_columns(self.rule.facts, columns))
        for number, guard in enumerate(self.guards):
            scores[~guard.holds(columns), number] = FAR
        scores[~self.domain.contains(columns)] = FAR
        return scores

    def to_json(self) -> dict[str, Any]:
        """The dispatcher as a JSON object, which `from_json` reads."""
        work = self.operation
        members = [{"kernel": member.kernel, "settings": dict(member.settings), "version": version}
                   for member, version in zip(self.members, self.versions, strict=True)]
        return {"format": FORMAT, "version": VERSION, "operation": work.name, "features": list(work.by_name),
                "derived": [[name, expression.text] for name, expression in work.derived],
                "device": None if self.device is None else self.device.to_json(), "domain": list(self.domain.texts()),
                "members": members, "guards": [_GUARD.dump_python(guard, mode="json") for guard in self.guards],
                "rule": _RULE.dump_python(self.rule, mode="json"), "evidence": dict(self.evidence)}

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

    def text(self) -> str:
        """The text of the JSON file."""
        return json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the JSON file, whole or not at all. Raises SeqtuneError."""
        write_whole(path, self.text())

    @classmethod
    def load(cls, path: str | Path) -> Dispatcher:
        """Read the JSON file. Raises FormatError, which names the path."""
        try:
            return cls.from_json(parse_json(read_bounded(Path(path), LARGEST_FILE), path, LARGEST_VALUE))
        except FormatError as error:
            message = str(error)
            raise FormatError(message if str(path) in message else f"{path}: {message}") from None


_GUARD, _RULE = TypeAdapter(Guard), TypeAdapter(Rule)


class _Member(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    kernel: str = Field(max_length=200)
    settings: dict[str, Setting]
    version: int


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: str
    version: Literal[1]
    operation: str
    features: list[str]
    derived: list[list[str]]
    device: dict[str, Any] | None
    domain: list[str] = Field(max_length=MOST_TEXTS)
    members: list[_Member] = Field(min_length=1, max_length=MOST_MEMBERS)
    guards: tuple[Guard, ...]
    rule: Rule
    evidence: dict[str, Any]

    def dispatcher(self) -> Dispatcher:
        """The dispatcher. Raises MisuseError where a part contradicts another, the operation or a kernel."""
        work, rule = operation(self.operation), self.rule
        if self.features != list(work.by_name) or self.derived != [
                [name, expression.text] for name, expression in work.derived]:
            raise FormatError(f"it was written for another declaration of {work.name}; dispatch anew")
        names = {*work.by_name, *(name for name, _ in work.derived)}
        read = [name for guard in self.guards for name in guard.reads]
        read += [name for guard in self.guards for each in guard.conditions for name in each.names]
        unknown = next((name for name in read if name not in names), None)
        if unknown is not None:
            raise FormatError(f"a condition reads {unknown!r:.40}, which {work.name} does not have")
        for fact in rule.facts:
            check_fact(fact, work)
        device = None if self.device is None else Device.from_json(self.device)
        if rule.members != len(self.members) or (self.guards and (device is None or rule.members != len(self.guards))):
            raise FormatError(f"its rule has {rule.members} members, for {len(self.members)} members and "
                              f"{len(self.guards)} guards, which need a device; dispatch anew")
        members = []
        for number, member in enumerate(self.members):
            wrong = next((name for name, value in member.settings.items() if not is_setting(value)), None)
            if wrong is not None:
                raise FormatError(f"the setting {wrong!r:.40} is not a word or a number of at most 64 bits")
            members.append(Configuration.of(member.kernel, member.settings))
            known = kernel(member.kernel) if is_registered(member.kernel) else None
            if device is not None and self.guards and known is not None and known.version == member.version and \
                    Guard.of(members[-1], known, device) != self.guards[number]:
                raise FormatError(f"member {number} ({member.kernel}) has other conditions than its kernel; dispatch "
                                  "anew")
        return Dispatcher(device, tuple(members), tuple(member.version for member in self.members), self.guards, rule,
                          Domain.parse(work, self.domain), self.evidence)
