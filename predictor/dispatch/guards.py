"""Guard: for which shapes a member is valid, as conditions over the features and derived sizes of its operation.

It has the verdict of the search space: the kernel solves the problem, all that it reads is known, and every constraint
holds. Settings, facts of the device and the kernel's derived quantities are put in, so that the conditions can be
evaluated where neither kernel nor device is known. Limits of the enumeration are none of the configuration: one whose
space is too large to enumerate is valid if its constraints hold.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Kernel, shown_setting
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.columns import ProblemColumns

from .domain import Domain, holding, problem_folder

NEVER = Expression("False")


@dataclass(frozen=True, slots=True)
class Guard:
    """The conditions under which a member is valid; (NEVER,) if it is valid for no shape."""

    conditions: tuple[Expression, ...]
    reads: tuple[str, ...] = ()  # names of problems whose values must be known
    reason: str = ""  # why it is valid for no shape

    @classmethod
    def of(cls, configuration: Configuration, kernel: Kernel, device: Device) -> Guard:
        """The guard of a configuration of a kernel on a device.

        Raises MisuseError if it is no configuration of the kernel, or a condition is too long once all is put in.
        """
        _check(configuration, kernel)
        facts, work = device.names(), operation(kernel.operation)
        names = [*work.by_name, *(name for name, _ in work.derived)]
        reads = dict.fromkeys(name for condition in kernel.solves for name in condition.expression.names)
        reads.update(dict.fromkeys(kernel.names_read()))
        if device.backend not in kernel.backends:
            return cls((NEVER,), reason=f"{kernel.name} does not run on {device.backend}")
        unknown = next((name for name in reads if name not in facts and name not in names), None)
        if unknown is not None:
            return cls((NEVER,), reason=f"{kernel.name} needs to know {unknown}")
        folder = problem_folder(work, {})  # of all problems, not of a domain: other shapes get no invalid member either
        folder.put({name: value for name, value in facts.items() if name not in names})
        conditions: dict[Expression, None] = {}

        def add(expression: Expression, reason: str) -> str | None:
            """Add a condition; the reason if it never holds."""
            try:
                parts = folder.condition(expression)
            except ExpressionError as error:
                raise MisuseError(f"{configuration.kernel} {configuration.brief()}: a condition cannot be written for "
                                  f"all shapes: {error}") from None
            conditions.update(dict.fromkeys(parts or ()))
            return f"{kernel.name}: {reason} ({expression.text})" if parts is None else None

        refusal = next(filter(None, (add(each.expression, each.reason) for each in kernel.solves)), None)
        resolved = {name for name, _ in kernel.split_derived()[0]}
        for name, expression in kernel.derived:  # those of the problem alone must have values: a space needs them all
            if name in resolved and folder.fold(expression.tree)[1] is None and refusal is None:
                refusal = add(Expression(f"({expression.text}) == ({expression.text})"), f"{name} has no value")
            if name in resolved:  # later ones may read it
                folder.names[name] = folder.fold(expression.tree)
        folder.put(dict(configuration.settings))
        for name, expression in kernel.derived:
            folder.names[name] = folder.fold(expression.tree)
        refusal = refusal or next(filter(None, (add(each.expression, each.reason) for each in kernel.constraints)),
                                  None)
        if refusal is not None:
            return cls((NEVER,), reason=refusal)
        return cls(tuple(conditions), tuple(name for name in reads if name in names))

    def holds(self, columns: ProblemColumns) -> NDArray[np.bool_]:
        """Whether the member is valid for each problem: (shape,)."""
        known = np.ones(len(columns), bool)
        for name in self.reads:
            known &= columns.known[name]
        return holding(self.conditions, columns, known)

    def within(self, domain: Domain) -> Guard:
        """The guard for problems of the domain: without conditions that hold for all of them."""
        conditions = [condition for condition in self.conditions if domain.decide([condition]) is not True]
        if domain.decide(self.conditions) is False:
            return Guard((NEVER,), self.reads, self.reason or f"{conditions[0].text} holds nowhere in the domain")
        return Guard(tuple(conditions), self.reads, self.reason)

    def is_proved(self, domain: Domain) -> bool:
        """Whether the member is proved valid for every problem of the domain."""
        unknown = [name for name, values in domain.ranges.items() if values is None]
        derived = {name for name, _ in domain.operation.derived}
        return not any(name in unknown or (unknown and name in derived) for name in self.reads) and \
            domain.decide(self.conditions) is True


def _check(configuration: Configuration, kernel: Kernel) -> None:
    """Check that the settings are one value for each parameter, as a search space does. Raises MisuseError."""
    if configuration.kernel != kernel.name:
        raise MisuseError(f"{configuration.kernel} is no configuration of {kernel.name}")
    counts = Counter(name for name, _ in configuration.settings)
    wrong = next((name for name in {**counts, **kernel.by_name}
                  if counts[name] != 1 or name not in kernel.by_name), None)
    if wrong is not None:
        raise MisuseError(f"{kernel.name} has one value for each of {', '.join(kernel.by_name)}; {wrong!r:.40} has "
                          f"{counts[wrong]} (found {configuration.brief():.200})")
    for name, value in configuration.settings:
        if value not in kernel.by_name[name]:
            raise MisuseError(f"{kernel.name}: {name}={shown_setting(value):.40} is not one of its values")
