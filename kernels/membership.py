"""Membership: checks whether many configurations, each for its own problem, are in their search spaces.

A database holds a hundred thousand configurations for nearly as many problems. Enumerating a space for each would take
hours; evaluating the constraints over columns takes a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .devices.device import Device
from .enumeration import column_of
from .expression import Expression
from .kernel import Kernel
from .problem_sets.columns import Column, ProblemColumns


class Membership:
    """The check of rows, each with a problem and the settings of one kernel.

    `reasons` holds, by row, the reason of the first constraint that fails, or None if the row is valid.
    """

    def __init__(self, kernel: Kernel, problems: ProblemColumns, device: Device,
                 settings: Mapping[str, Column]) -> None:
        self.reasons: NDArray[Any] = np.full(len(problems), None, dtype=object)
        self._known = problems.known
        self._names: dict[str, Any] = {**device.names(), **problems.values, **settings}
        for parameter in kernel.parameters:
            self.require(_among(settings[parameter.name], column_of(parameter)),
                         f"{parameter.name} is not one of the kernel's values")
        for name, expression in kernel.derived:
            if name not in settings:
                self._names[name] = self.evaluate(expression)
        for constraint in (*kernel.solves, *kernel.constraints):
            self.require(self.evaluate(constraint.expression),
                         f"{constraint.reason} ({constraint.expression.text})")

    def require(self, condition: Column, reason: str) -> None:
        """Record the reason in every row where the condition fails and that has no reason yet."""
        self.reasons[~condition.astype(bool) & (self.reasons == None)] = reason  # noqa: E711 - elementwise

    def evaluate(self, expression: Expression) -> Column:
        """The value of an expression over problem, device, settings and derived quantities, by row.

        Rows with an unknown name get a reason, and a filler as their value.
        """
        for name in expression.names:
            if name in self._known:
                self.require(self._known[name], f"{name} is not known")
        return np.broadcast_to(np.asarray(expression(self._names)), len(self.reasons))


def _among(column: Column, values: Column) -> Column:
    """Whether each element is one of the values."""
    if column.dtype != object != values.dtype:
        return np.isin(column, values)
    listed = set(values.tolist())  # NumPy cannot sort a mix of numbers and words
    return np.array([value in listed for value in column.tolist()], bool)
