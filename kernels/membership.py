"""Membership: which of many configurations lie in their search spaces, each for a problem of its own, as columns.

A data base holds a hundred thousand configurations for nearly as many problems: enumerating a space for each takes
hours, evaluating the constraints over columns a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .device import Device
from .expression import Expression
from .kernel import Kernel
from .problem_sets.columns import Column, ProblemColumns


class Membership:
    """Rows of a problem and the settings of one kernel; `reasons` holds the first reason against a row, or None.

    `others` are further columns that the kernel's expressions name.
    """

    def __init__(self, kernel: Kernel, problems: ProblemColumns, device: Device, settings: Mapping[str, Column],
                 others: Mapping[str, Column] | None = None) -> None:
        self.reasons: NDArray[Any] = np.full(len(problems), None, dtype=object)
        self._known = problems.known
        self._names: dict[str, Any] = {**device.names(), **problems.values, **(others or {}), **settings}
        for parameter in kernel.parameters:
            self.require(np.isin(settings[parameter.name], np.array(parameter.values)),
                         f"{parameter.name} has another value than the space knows")
        for name, expression in kernel.derived:
            if name not in settings:
                self._names[name] = self.evaluate(expression)
        for constraint in (*kernel.solves, *kernel.constraints):
            self.require(self.evaluate(constraint.expression),
                         f"{constraint.reason} ({constraint.expression.text})")

    def require(self, condition: Column, reason: str) -> None:
        """Note the reason where the condition fails and no earlier one did."""
        self.reasons[~condition.astype(bool) & (self.reasons == None)] = reason  # noqa: E711 - elementwise

    def evaluate(self, expression: Expression) -> Column:
        """An expression over problem, device, settings and derived quantities; a filler where a name is not known."""
        for name in expression.names:
            if name in self._known:
                self.require(self._known[name], f"{name} is not known")
        return np.broadcast_to(np.asarray(expression(self._names)), len(self.reasons))
