"""Program: what the files of a dispatcher compute, in order, with the domain's fixed features put in."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from seqtune.errors import MisuseError, cut
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import Feature

from .dispatcher import Dispatcher
from .domain import Span, problem_folder

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

    @classmethod
    def of(cls, dispatcher: Dispatcher) -> Program:
        """The program of a dispatcher. Raises MisuseError if it reads a feature that some shapes do not know."""
        work, domain = dispatcher.operation, dispatcher.domain
        folder = problem_folder(work, domain.fixed)

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
        rules = [condition for condition, _ in work.rules]
        known = {*domain.fixed, *(feature.name for feature in domain.varying)}
        defined: list[tuple[str, Expression]] = []
        for name, expression in work.derived:  # of two definitions, the first whose names are known counts
            if name not in known and known.issuperset(expression.names):
                known.add(name)
                defined.append((name, Expression(ast.unparse(folder.fold(expression.tree)[0]))))
        written = (*inside, *facts, *(each for guard in guards for each in guard))
        read = {name for each in written for name in each.names}
        unknown = next((name for name in (*read, *(name for guard in dispatcher.guards for name in guard.reads))
                        if name not in known), None)
        if unknown is not None:
            raise MisuseError(f"a file needs to know {unknown} of every shape; it is unknown in the domain")
        checked = all_of([rule for rule in rules if known.issuperset(rule.names)])
        read.update(name for rule in checked for name in rule.names)
        sizes: list[tuple[str, Expression]] = []
        for name, expression in reversed(defined):
            if name in read:
                read.update(expression.names)
                sizes.insert(0, (name, expression))
        every = list(dict.fromkeys((*checked, *inside, *(each for guard in guards for each in guard))))
        rules_at, domain_at, *guards_at = (tuple(map(every.index, listed)) for listed in (checked, inside, *guards))
        return cls(domain.varying, tuple(sizes), tuple(facts), tuple(every), rules_at, domain_at, tuple(guards_at))


def about(dispatcher: Dispatcher) -> list[str]:
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
            "are answered too, and marked; a shape without a valid member has no answer.")
    return [line for part in text.splitlines() for line in textwrap.wrap(part, 110)]
