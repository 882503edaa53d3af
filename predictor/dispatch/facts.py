"""Facts: whole numbers that describe a shape, over which a rule decides.

What decides between kernels is rarely a size alone: it is how many tiles there are for how many compute units, what is
wasted in the last tile, and which power of two divides a product. All of that follows from an operation's declaration,
so no operation needs facts of its own.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError, FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

from ..c_source.expression import CExpression, CName, Words
from ..c_source.names import feature_kind
from .folding import JsonExpression

LARGEST = 1 << 62  # values beyond it are cut off there
UNKNOWN = -LARGEST  # the value where a name that the expression reads is unknown
USUAL_TILES = (32, 64, 128, 256)  # where the members do not tell theirs
LEAST_TILE = 8  # smaller settings are mostly vectors and unrolling
MOST_TILES = 4  # the most frequent ones; each adds a fact for every size, and two for every pair of sizes
FINE = 256  # parts of a whole in which shares are counted


@dataclass(frozen=True, slots=True)
class Fact:
    """A whole number over the features and derived sizes of an operation."""

    name: str
    expression: JsonExpression


def facts_of(operation: Operation, problems: Sequence[Problem], members: Sequence[Configuration],
             device: Device | None) -> tuple[Fact, ...]:
    """The facts over which a rule may decide among the members; those that order the problems differently."""
    columns, words = ProblemColumns.of(problems), dict[str, str]()
    for feature in operation.features:  # a word becomes a number for each of its values but the first
        words |= {f"{feature.name}={choice}": f"1 if {feature.name} == {choice!r} else 0"
                  for choice in feature.choices[1:]}
    sizes = [feature.name for feature in operation.features if not feature.choices and not feature.number]
    sizes += [name for name, _ in operation.derived if name != "flop"]  # it may have more than 62 bits
    plain = _differing([*words.items(), *((name, name) for name in sizes)], columns)
    units = max(device.compute_units, device.threads) if device is not None else 1
    values = Counter(value for member in members for _, value in member.settings
                     if type(value) is int and value >= LEAST_TILE)
    tiles = sorted(value for value, _ in sorted(values.items(), key=lambda item: (-item[1], item[0]))[:MOST_TILES])
    return _differing([
        *((fact.name, fact.expression.text) for fact in plain),
        *_products(operation, [fact.name for fact in plain if fact.name not in words]),
        *_shares(operation, tiles or USUAL_TILES, units)], columns)


def check_fact(fact: Fact, work: Operation) -> None:
    """Check that a fact, which reads only names of the operation, is a number for every shape. Raises FormatError."""
    names = {name: CName("0", "i") for name, _ in work.derived}
    names |= {feature.name: CName("0", feature_kind(feature)) for feature in work.features}
    failing = ast.Subscript | ast.Pow | ast.LShift | ast.RShift  # a missing key, or a result that is too large
    try:
        kind = CExpression.of(fact.expression, names, Words()).kind
    except ExpressionError as error:
        raise FormatError(f"the fact {fact.expression.text!r:.60} cannot be computed: {error}") from None
    if kind == "w" or any(isinstance(node, failing) for node in ast.walk(fact.expression.tree)):
        raise FormatError(f"the fact {fact.expression.text!r:.60} is not a number for every shape")


def fact_columns(facts: Sequence[Fact], columns: ProblemColumns) -> NDArray[np.int64]:
    """The values of the facts, (shape, fact). Those beyond LARGEST are cut off, unknown ones are UNKNOWN."""
    values = np.empty((len(columns), len(facts)), np.int64)
    for number, fact in enumerate(facts):
        known = columns.all_known(fact.expression.names)
        column = np.broadcast_to(np.asarray(fact.expression(columns.values)), len(columns))
        if column.dtype == object:
            values[:, number] = [UNKNOWN if value is None or value != value else int(max(-LARGEST, min(LARGEST, value)))
                                 for value in column.tolist()]
        else:  # infinity is cut off, too; what is not a number (nan) is UNKNOWN
            known &= column == column
            values[:, number] = np.clip(np.where(known, column, 0), -LARGEST, LARGEST).astype(np.int64)
        values[~known, number] = UNKNOWN
    return values


def _products(operation: Operation, sizes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Elements of tensors, products of two sizes, and the powers of two in each."""
    products = {name: name for name in sizes}
    products |= {f"{first}*{second}": f"{first} * {second}" for first, second in combinations(sizes, 2)}
    products |= {f"elements of {name}": text for name, text in operation.elements.items()}
    if operation.elements:
        yield "elements", " + ".join(f"({text})" for text in operation.elements.values())
    for name, text in products.items():
        yield name, text
        yield f"power of 2 in {name}", f"({text}) & -({text})"


def _shares(operation: Operation, tiles: Sequence[int], units: int) -> Iterator[tuple[str, str]]:
    """Numbers of tiles, and how full the last tile and the last wave of tiles on the compute units is."""
    for name in operation.tiled_sizes:
        for tile in tiles:
            yield f"share of tiles of {tile} in {name}", f"{FINE} * ({name}) // max(1, round_up({name}, {tile}))"
    for first, second in combinations(operation.tiled_sizes, 2):
        for tile in tiles:
            count = f"ceil_div({first}, {tile}) * ceil_div({second}, {tile})"
            yield f"tiles of {tile} in {first}, {second}", count
            if units > 1:
                yield (f"share of waves of tiles of {tile} in {first}, {second}",
                       f"{FINE} * {count} // max(1, round_up({count}, {units}))")


def _differing(texts: Sequence[tuple[str, str]], columns: ProblemColumns) -> tuple[Fact, ...]:
    """The facts with these names and texts; one that orders the problems as an earlier one does is left out."""
    seen: set[bytes] = set()
    facts = []
    for name, text in texts:
        with suppress(ExpressionError, FormatError):  # an expression that is too long, or may fail
            fact = Fact(name, Expression(text))
            check_fact(fact, columns.operation)
            (column,) = fact_columns([fact], columns).T
            order = np.unique(column, return_inverse=True)[1].astype(np.int32)  # a rule sees no more
            if order.any() and order.tobytes() not in seen:
                seen.add(order.tobytes())
                facts.append(fact)
    return tuple(facts)
