"""Facts: whole numbers that describe a shape, over which a rule decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

LARGEST = 1 << 62  # values beyond it are cut off there
UNKNOWN = -LARGEST  # the value where a name that the expression reads is unknown


@dataclass(frozen=True, slots=True)
class Fact:
    """A whole number over the features and derived sizes of an operation."""

    name: str
    expression: Expression


def facts_of(operation: Operation, problems: Sequence[Problem], members: Sequence[Configuration],
             device: Device | None) -> tuple[Fact, ...]:
    """The facts over which a rule may decide among the members; those that differ among the problems."""
    texts: dict[str, str] = {}
    for feature in operation.features:
        if not feature.number:
            texts |= {f"{feature.name}={choice}": f"1 if {feature.name} == {choice!r} else 0"
                      for choice in feature.choices[1:]} or {feature.name: feature.name}
    texts |= {name: name for name, _ in operation.derived}
    return _differing([Fact(name, Expression(text)) for name, text in texts.items()], problems)


def _differing(facts: Sequence[Fact], problems: Sequence[Problem]) -> tuple[Fact, ...]:
    """The facts that differ among the problems, each from all facts before it."""
    columns = fact_columns(facts, ProblemColumns.of(problems))
    seen: set[bytes] = set()
    different = []
    for fact, column in zip(facts, columns.T, strict=True):
        ranks = np.unique(column, return_inverse=True)[1].astype(np.int32)  # a rule sees no more than the order
        if ranks.any() and (key := ranks.tobytes()) not in seen:
            seen.add(key)
            different.append(fact)
    return tuple(different)


def fact_columns(facts: Sequence[Fact], columns: ProblemColumns) -> NDArray[np.int64]:
    """The values of the facts, (shape, fact). Those beyond LARGEST are cut off, unknown ones are UNKNOWN."""
    values = np.empty((len(columns), len(facts)), np.int64)
    for number, fact in enumerate(facts):
        known = np.ones(len(columns), bool)
        for name in fact.expression.names:
            known &= columns.known[name]
        column = np.broadcast_to(np.asarray(fact.expression(columns.values)), len(columns))
        values[:, number] = [UNKNOWN if value is None else max(-LARGEST, min(LARGEST, int(value)))
                             for value in column.tolist()] if column.dtype == object else np.clip(
                                 column.astype(np.int64), -LARGEST, LARGEST)
        values[~known, number] = UNKNOWN
    return values
