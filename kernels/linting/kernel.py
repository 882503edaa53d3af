"""Kernel lint: enumerates the spaces of a kernel for sample problems and finds what its declaration hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError

from ..arithmetic import as_truth
from ..devices.accelerators import described
from ..devices.device import Device
from ..kernel import Configuration, Constraint, Kernel, Parameter, shown_setting
from ..libraries.declared_kernel import device_facts
from ..libraries.fault import KeyPath
from ..problem import Problem
from ..row_index import Rows
from ..spaces.exclusion import LARGEST_COUNTED, count_rows, excluding_constraint
from ..spaces.row_cache import Names
from ..spaces.value_tables import ValueTables
from .report import ITEM, MOST_ALIKE, Remark, SpaceSize

MOST_COUNTED = 5_000_000  # partial configurations of all spaces of a library
_CPU = Device("typical", "", "typical", "none", threads=8, compute_units=8, vector_bits=256, l1_bytes=32 << 10,
              l2_bytes=1 << 20, l3_bytes=32 << 20, local_memory=32 << 10, max_work_group=1024)


def typical_device(backend: str) -> Device:
    """The facts of a device of the backend, for constraints that name some; nothing runs on it."""
    return described(backend, "h100-sxm") or described(backend, "h200") or replace(
        _CPU, name=f"{backend}:typical", backend=backend)


@dataclass
class Allowance:
    """The partial configurations that may still be enumerated, so that linting takes bounded time."""

    left: int = MOST_COUNTED

    def rows(self, kernel: Kernel, names: Names) -> Rows | None:
        """The valid configurations; None if they are too many to count."""
        rows = count_rows(kernel, names, max(1, min(LARGEST_COUNTED, self.left)))
        self.left -= LARGEST_COUNTED if rows is None else len(rows) * len(kernel.parameters)
        return rows


@dataclass
class KernelLint:
    """The spaces of one kernel on sample problems. `path` leads to its declaration."""

    kernel: Kernel
    path: KeyPath
    allowance: Allowance
    sizes: list[SpaceSize] = field(default_factory=list)
    spaces: list[tuple[Problem, Names, Rows]] = field(default_factory=list)  # the spaces that could be counted

    def findings(self, problems: Sequence[Problem]) -> Iterator[Remark]:
        """Enumerate the spaces and yield what is suspicious."""
        device = typical_device(self.kernel.backends[0])
        reasons = {problem: self.kernel.why_not(problem, device) for problem in problems}
        solved = [problem for problem, reason in reasons.items() if reason is None]
        if not solved:
            yield Remark((*self.path, "solves"), f"it solves none of {len(problems)} sample problems: "
                                                  f"{reasons[problems[0]]}")
            return
        try:
            for problem in solved:
                self._enumerate(problem, device)
        except ExpressionError as error:
            yield Remark(self._blamed(str(error)), str(error), error=True)
            return
        yield from self._empty()
        if any(len(rows) for _, _, rows in self.spaces):
            yield from self._constraints()
            yield from division_findings(self.kernel, [names for _, names, _ in self.spaces], self.path)
            yield from self._values()
            yield from self._default()

    def _enumerate(self, problem: Problem, device: Device) -> None:
        names: dict[str, Any] = {**device.names(), **problem.names()}
        resolved, needed = self.kernel.split_derived()
        for name, expression in resolved:
            names[name] = expression(names)
        identity = tuple((name, names[name]) for name in needed)
        rows = self.allowance.rows(self.kernel, identity)
        self.sizes.append(SpaceSize(self.kernel.name, problem, None if rows is None else len(rows)))
        if rows is not None:
            self.spaces.append((problem, identity, rows))

    def _blamed(self, message: str) -> KeyPath:
        """The path of the expression that a message quotes."""
        for part, texts in (("constraints", [constraint.expression.text for constraint in self.kernel.constraints]),
                            ("solves", [constraint.expression.text for constraint in self.kernel.solves])):
            for text in texts:
                if repr(text[:80]) in message:
                    return *self.path, part, text
        return *self.path, *next((("derived", name) for name, expression in self.kernel.derived
                                  if repr(expression.text[:80]) in message), ())

    def _empty(self) -> Iterator[Remark]:
        """Problems without a valid configuration."""
        empty = [(problem, names) for problem, names, rows in self.spaces if not len(rows)]
        if not empty:
            return
        problem, names = empty[0]
        excluding = excluding_constraint(self.kernel, names, self.allowance.rows)
        constraint = None if excluding is None else excluding[0]
        path = self.path if constraint is None else (*self.path, "constraints", constraint.expression.text)
        reason = "" if constraint is None else f": {constraint.expression.text!r:.80} excludes all"
        if len(empty) == len(self.sizes):
            other = constraint is not None and not set(problem.names()).isdisjoint(constraint.expression.names)
            yield Remark(path, f"no configuration is valid for any sample problem{reason}"
                               f"{'; --problems counts those for yours' if other else ''}", error=not other)
        else:
            yield Remark(path, f"no configuration is valid for {problem.key}{reason}; let `solves` exclude such "
                                "problems")

    def _constraints(self) -> Iterator[Remark]:
        """Constraints that hold for every combination of values, whatever the problem.

        Those that read facts of the device are left out: another device may have lower limits.
        """
        for constraint in self.kernel.constraints:
            if not device_facts().isdisjoint(constraint.expression.names):
                continue
            verdicts = [ValueTables(self.kernel, dict(names)).evaluate(constraint.expression)
                        for _, names, _ in self.spaces]
            if all(verdict is not None and np.all(verdict) for verdict in verdicts):
                yield Remark((*self.path, "constraints", constraint.expression.text),
                             f"nothing is excluded for the sample problems by {ITEM}",
                             item=f"{constraint.expression.text!r:.80}")

    def _values(self) -> Iterator[Remark]:
        """Values that no valid configuration has, and parameters that are left with one value for every problem."""
        if len(self.spaces) < len(self.sizes):
            return  # the spaces that are too large to count may have them
        for column, parameter in enumerate(self.kernel.parameters):
            present = [np.unique(rows[:, column]) for _, _, rows in self.spaces if len(rows)]
            path = (*self.path, "parameters", parameter.name)
            if len(parameter.values) > 1 and max(map(len, present)) == 1:
                yield Remark(path, f"{parameter.name} never matters: the constraints leave one value for each problem")
                continue
            reached = set(np.concatenate(present).tolist())
            for index, value in enumerate(parameter.values):
                if index not in reached:
                    yield Remark((*path, "values", index) if reached else path,
                                 f"no valid configuration has {parameter.name}={ITEM} for the sample problems",
                                 item=shown_setting(value))

    def _default(self) -> Iterator[Remark]:
        """A default that is valid for no problem."""
        default = self.kernel.indices(self.kernel.default)
        if len(self.spaces) == len(self.sizes) and not any(
                (rows == default).all(axis=1).any() for _, _, rows in self.spaces):
            text = Configuration(self.kernel.name, self.kernel.default).brief()
            yield Remark((*self.path, "default"), f"the default ({text}) is valid for no sample problem; the nearest "
                                                   "valid configuration is the safe default")


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
