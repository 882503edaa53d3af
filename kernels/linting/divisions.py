"""Division lint: constraints that divide by zero for values of parameters, where they count as not met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..arithmetic import as_truth
from ..kernel import Constraint, Kernel, Parameter, shown_setting
from ..libraries.fault import KeyPath
from ..spaces.row_cache import Names
from ..spaces.value_tables import ValueTables
from .report import MOST_ALIKE, Remark

MOST_VALUES = 16  # of a parameter, where a constraint's table of all would be too large
Cells = NDArray[np.bool_]  # one for each combination of values of the parameters that a constraint reads


def division_findings(kernel: Kernel, spaces: Iterable[Names], path: KeyPath) -> Iterator[Remark]:
    """Remarks about constraints that divide by zero for values which no other constraint excludes.

    `spaces` are the values of the names of problem and device that the kernel reads.
    """
    names = list(spaces)
    few = replace(kernel, parameters=tuple(map(_few_values, kernel.parameters)))
    for constraint in kernel.constraints:
        found = (_undefined_values(made, constraint, ValueTables(made, dict(given)))
                 for given in names for made in (kernel, few))
        if undefined := next(filter(None, found), ""):
            text = constraint.expression.text
            yield Remark((*path, "constraints", text), f"{text!r:.80} divides by zero for {undefined}, and counts as "
                                                       "not met there; exclude that by a constraint before it")


def _few_values(parameter: Parameter) -> Parameter:
    """The parameter with its zeros and its first values, so that a constraint on several has a table."""
    return replace(parameter, values=tuple(sorted(parameter.values, key=lambda value: value != 0)[:MOST_VALUES]))


def _undefined_values(kernel: Kernel, constraint: Constraint, table: ValueTables) -> str:
    """The values for which a constraint divides by zero, or one combination of them, as text; empty if none does."""
    undefined = _undefined(table.evaluate(constraint.expression))
    if not undefined.any():
        return ""
    excluded, is_before = np.zeros(undefined.shape, np.bool_), True
    for other in kernel.constraints:
        is_before = is_before and other is not constraint
        verdict = table.evaluate(other.expression)
        if other is not constraint and verdict is not None and _fits(np.shape(verdict), undefined.shape):
            excluded |= ~as_truth(verdict) & (is_before | ~_undefined(verdict))
    if not (undefined & ~excluded).any():
        return ""
    values = [f"{parameter.name}={shown_setting(value)}" for axis, parameter in enumerate(kernel.parameters)
              if undefined.shape[axis] > 1 for index, value in enumerate(parameter.values)
              if _all_undefined(undefined.take(index, axis), excluded.take(index, axis))]
    if not values:
        cell = np.argwhere(undefined & ~excluded)[0]
        return " ".join(f"{parameter.name}={shown_setting(parameter.values[index])}" for parameter, index, size in zip(
            kernel.parameters, cell, undefined.shape, strict=True) if size > 1)
    more = len(values) - MOST_ALIKE
    return ", ".join(values[:MOST_ALIKE]) + (f" and {more:,} more" if more > 0 else "")


def _all_undefined(undefined: Cells | np.bool_, excluded: Cells | np.bool_) -> bool:
    """Whether all cells that are not excluded are undefined, and there are some."""
    return bool(np.all(undefined | excluded) and np.any(undefined & ~excluded))


def _undefined(verdict: object) -> Cells:
    """The cells of a table that have no value; none where there is no table."""
    cells = np.asarray(verdict)
    return np.array([cell is None and verdict is not None for cell in cells.ravel()], np.bool_).reshape(cells.shape)


def _fits(shape: tuple[int, ...], room: tuple[int, ...]) -> bool:
    """Whether a table has no axis that another one lacks."""
    return len(shape) in (0, len(room)) and all(size in (1, most) for size, most in zip(shape, room, strict=False))
