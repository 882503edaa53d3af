"""Program: what the files of a dispatcher compute, in order, with the domain's fixed features put in."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seqtune.errors import MisuseError, cut
from seqtune.kernels.expression import SAFE_BOUND, Expression
from seqtune.kernels.operations.feature import Feature

from .dispatcher import Dispatcher
from .domain import Range, Span, problem_folder
from .folding import Folder

TIMES = (64, 32, 16, 8, 4, 2, 1)  # how many times the largest size of the domain may be, the first that is possible
LONGEST_GAP = 500  # characters of a comment; the JSON file has all


@dataclass(frozen=True)
class Program:
    """Expressions over the features that vary, and over the derived sizes before them."""

    features: tuple[Feature, ...]  # that vary: what the caller gives
    sizes: tuple[tuple[str, Expression], ...]  # derived sizes that the others read
    facts: tuple[Expression, ...]
    conditions: tuple[Expression, ...]  # of which the following list numbers
    rules: tuple[int, ...]  # of the operation: hold together for a possible shape
    domain: tuple[int, ...]  # hold together for a shape of the domain
    guards: tuple[tuple[int, ...], ...]  # of each member
    limits: Mapping[str, Span]  # of the features that are whole numbers; shapes beyond them have no answer
    folder: Folder  # knows the limits

    @classmethod
    def of(cls, dispatcher: Dispatcher) -> Program:
        """The program of a dispatcher, whose limits are the farthest at which 64 bits hold all numbers.

        Raises MisuseError if it reads a feature that some shapes do not know.
        """
        for times in TIMES:
            program = cls._of(dispatcher, times)
            every = (*program.facts, *program.conditions, *(expression for _, expression in program.sizes))
            if all(program.most(expression) < SAFE_BOUND for expression in every):
                break
        return program

    @classmethod
    def _of(cls, dispatcher: Dispatcher, times: int) -> Program:
        """The program that answers sizes of at most so many times those of the domain."""
        work, domain = dispatcher.operation, dispatcher.domain
        limits = {feature.name: Span(feature.low, min(feature.high, times * max(_whole(domain.ranges[feature.name]))))
                  for feature in domain.varying if not feature.choices and not feature.number}
        folder = problem_folder(work, {**domain.fixed, **limits})

        def all_of(conditions: Sequence[Expression]) -> tuple[Expression, ...]:
            parts = [folder.condition(condition) for condition in conditions]
            return (Expression("False"),) if None in parts else tuple(
                dict.fromkeys(each for part in parts for each in part or ()))

        ranges = [Expression(f"{name} >= {values.low} and {name} <= {values.high}") if isinstance(values, Span)
                  else Expression(f"{name} in {values!r}")
                  for name, values in domain.ranges.items() if isinstance(values, tuple)]
        inside, facts = all_of([*ranges, *domain.constraints]), [
            Expression(ast.unparse(folder.fold(fact.expression.tree)[0])) for fact in dispatcher.rule.facts]
        guards = [all_of(guard.conditions) for guard in dispatcher.guards]
        known = {*domain.fixed, *(feature.name for feature in domain.varying)}
        defined: list[tuple[str, Expression]] = []
        for name, expression in work.derived:  # of two definitions, the first whose names are known counts
            if name not in known and known.issuperset(expression.names):
                known.add(name)
                defined.append((name, Expression(ast.unparse(folder.fold(expression.tree)[0]))))
        rules = all_of([rule for rule, _ in work.rules if known.issuperset(rule.names)])
        every = list(dict.fromkeys((*rules, *inside, *(each for guard in guards for each in guard))))
        read = dict.fromkeys(name for expression in (*facts, *every) for name in expression.names)
        read.update(dict.fromkeys(name for guard in dispatcher.guards for name in guard.reads if name not in known))
        unknown = next((name for name in read if name not in known), None)
        if unknown is not None:
            raise MisuseError(f"a file needs to know {unknown} of every shape; it is unknown in the domain")
        sizes: list[tuple[str, Expression]] = []
        for name, expression in reversed(defined):
            if name in read:
                read.update(dict.fromkeys(expression.names))
                sizes.insert(0, (name, expression))
        rules_at, domain_at, *guards_at = (tuple(map(every.index, listed)) for listed in (rules, inside, *guards))
        return cls(domain.varying, tuple(sizes), tuple(facts), tuple(every), rules_at, domain_at, tuple(guards_at),
                   limits, folder)

    def most(self, expression: Expression) -> float:
        """A bound of the magnitude of all whole numbers that an expression computes, within the limits."""
        plain = {feature.name for feature in self.features if feature.choices or feature.number}
        return expression.bound({
            name: 0.0 if name in plain else math.inf if (known := self.folder.names[name][1]) is None
            else max(-known[0], known[1]) for name in expression.names})


def _whole(values: Range) -> list[int]:
    return [value for value in values if isinstance(value, int)] if isinstance(values, tuple) else []


def summary(dispatcher: Dispatcher) -> list[str]:
    """Lines for people at the head of a file: what it serves, and what it promises."""
    device = "an unknown device" if dispatcher.device is None else dispatcher.device.key
    if not dispatcher.promised:
        promise = "The members have no constraints: nothing says for which shapes they are valid."
    elif dispatcher.gap:
        promise = f"Every answer is valid. There may be none for {cut(dispatcher.gap, LONGEST_GAP)}"
    else:
        fallback = "" if dispatcher.fallback is None else f"; member {dispatcher.fallback} is valid for all of them"
        promise = f"Every answer is valid, and every shape of the domain has one{fallback}."
    text = (f"Chooses one of {len(dispatcher.members)} kernels for {dispatcher.operation.name} on {device}. Made by "
            f"seqtune dispatch.\nDomain: {', '.join(dispatcher.domain.texts())}.\n{promise}\nShapes outside the domain "
            f"are answered too, and marked, up to {TIMES[0]} times its sizes where 64 bits suffice. A shape without a "
            "valid member has no answer.")
    return [line for part in text.splitlines() for line in textwrap.wrap(part, 110)]
