"""Program: what the files of a dispatcher compute, in order, with the domain's fixed features put in."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from seqtune.errors import MisuseError, cut
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import Feature

from .dispatcher import Dispatcher

LONGEST_GAP = 500  # characters of a comment


@dataclass(frozen=True)
class Program:
    """Expressions over the features that vary within their ranges, and over the derived sizes before them."""

    features: tuple[Feature, ...]  # that vary: what the caller gives
    sizes: tuple[tuple[str, Expression], ...]  # derived sizes that the others read
    facts: tuple[Expression, ...]
    inside: tuple[Expression, ...]  # hold together for a shape of the domain whose features are in their ranges
    guards: tuple[tuple[Expression, ...], ...]  # of each member

    @classmethod
    def of(cls, dispatcher: Dispatcher) -> Program:
        """The program of a dispatcher. Raises MisuseError if it reads a feature that some shapes do not know."""
        work, domain = dispatcher.operation, dispatcher.domain
        folder, known = domain.folder, {*domain.fixed, *(feature.name for feature in domain.varying)}
        defined: dict[str, Expression] = {}
        for name, expression in work.derived:  # of two definitions, the first whose names are known counts
            if name not in known and known.issuperset(expression.names):
                known.add(name)
                defined[name] = folder.quantity(expression)
        facts = tuple(folder.quantity(fact.expression) for fact in dispatcher.rule.facts)
        rules = [rule for rule, _ in work.rules if known.issuperset(rule.names)]
        inside = folder.conditions([*rules, *domain.constraints])
        guards = tuple(folder.conditions(guard.conditions) for guard in dispatcher.guards)
        read = {name for each in (*facts, *inside, *(each for guard in guards for each in guard))
                for name in each.names}
        unknown = sorted((read | {name for guard in dispatcher.guards for name in guard.reads}) - known)
        if unknown:
            raise MisuseError(f"a file needs to know {unknown[0]} of every shape; it is unknown in the domain")
        sizes: list[tuple[str, Expression]] = []
        for name, expression in reversed(defined.items()):
            if name in read:
                read |= {*expression.names}
                sizes.insert(0, (name, expression))
        return cls(domain.varying, tuple(sizes), facts, inside, guards)


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
    parts = (f"Chooses one of {len(dispatcher.members)} kernels for {dispatcher.operation.name} on {device}.",
             "Made by seqtune dispatch.", f"Domain: {', '.join(dispatcher.domain.texts())}.", promise,
             "A shape outside of the domain has no answer, nor has one for which no member is valid.")
    return [line for part in parts for line in textwrap.wrap(part, 110)]
