"""Guard: for which shapes a member is valid, as conditions over the features and derived sizes of its operation.

A guard agrees with the search space: it holds where the kernel solves the problem, all that the kernel reads is known,
and every constraint holds. The settings, the facts of the device and the kernel's derived quantities are replaced by
their values, so that the conditions can be evaluated without the kernel and the device. The limits of enumeration do
not count: a configuration whose space is too large to enumerate is valid if its constraints hold.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.columns import ProblemColumns

from .domain import Domain, holding, problem_folder
from .folding import NEVER, JsonExpression


@dataclass(frozen=True, slots=True)
class Guard:
    """The conditions under which a member is valid; (NEVER,) if it is valid for no shape."""

    conditions: tuple[JsonExpression, ...]
    reads: tuple[str, ...] = ()  # names of problems whose values must be known

    @classmethod
    def of(cls, configuration: Configuration, kernel: Kernel, device: Device) -> Guard:
        """The guard of a configuration of a kernel on a device.

        Raises MisuseError if it is no configuration of the kernel, or a condition is too long with the values in it.
        """
        misfit = kernel.misfit(configuration)
        if misfit is not None:
            raise MisuseError(f"{kernel.name}: {misfit}")
        facts, work = device.names(), operation(kernel.operation)
        names = {*work.by_name, *(name for name, _ in work.derived)}
        reads = [*(name for each in kernel.solves for name in each.expression.names), *kernel.names_read()]
        if device.backend not in kernel.backends or not {*reads} <= {*facts, *names}:
            return cls((NEVER,))
        folder = problem_folder(work, {})  # of all problems, not of a domain: other shapes get no invalid member either
        folder.put({name: value for name, value in facts.items() if name not in names})
        try:
            conditions = [*folder.conditions([each.expression for each in kernel.solves])]
            resolved = {name for name, _ in kernel.split_derived()[0]}
            for name, expression in kernel.derived:  # those of the problem alone must have values: a space needs them
                if name in resolved:
                    tree, bounds = folder.names[name] = folder.fold(expression.tree)
                    if bounds is None:
                        text = ast.unparse(tree)
                        conditions.append(Expression(f"({text}) == ({text})"))
            folder.put(dict(configuration.settings))
            for name, expression in kernel.derived:
                folder.names[name] = folder.fold(expression.tree)
            conditions += folder.conditions([each.expression for each in kernel.constraints])
        except ExpressionError as error:
            raise MisuseError(f"{configuration.kernel} {configuration.brief()}: a condition cannot be written for all "
                              f"shapes: {error}") from None
        if NEVER in conditions:
            return cls((NEVER,))
        return cls(tuple(dict.fromkeys(conditions)), tuple(dict.fromkeys(name for name in reads if name in names)))

    def holds(self, columns: ProblemColumns) -> NDArray[np.bool_]:
        """Whether the member is valid for each problem: (shape,)."""
        return holding(self.conditions, columns, columns.all_known(self.reads))

    def is_proved(self, domain: Domain) -> bool:
        """Whether the member is proved valid for every problem of the domain."""
        unknown = {name for name, values in domain.ranges.items() if values is None}
        if unknown:
            unknown |= {name for name, _ in domain.operation.derived}
        return unknown.isdisjoint(self.reads) and domain.proves(self.conditions)
