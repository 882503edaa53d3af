"""Quantities: numbers of a configuration that may matter, by name, whatever the names are.

They are the parameters, the kernel's derived quantities and the quantities in its constraints: a constraint such as
`block_x * block_y <= 1024` or `tile % (vector * threads) == 0` shows that the product or the quotient matters.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError
from seqtune.kernels.enumeration import column_of
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats

from .encoding import word_codes

MAX_QUANTITIES = 40  # of one kernel; a file may declare any number of constraints
MAX_PAIRS = 45  # the products of ten parameters
_OPERATORS = (ast.Mult, ast.Div, ast.FloorDiv, ast.Add, ast.Mod)


@lru_cache(maxsize=256)
def quantities(kernel: Kernel) -> tuple[Expression, ...]:
    """The expressions in the kernel's constraints of at least two names, one of which depends on a parameter."""
    own = set(kernel.by_name)  # parameters and the derived quantities that depend on them
    expressions: dict[str, Expression] = {}
    for name, expression in kernel.derived:
        if not own.isdisjoint(expression.names):
            own.add(name)
    for constraint in kernel.constraints:
        for node in ast.walk(ast.parse(constraint.expression.text, mode="eval")):
            if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
                whole = ast.BinOp(node.left, ast.FloorDiv(), node.right) if isinstance(node.op, ast.Mod) else node
                expression = Expression(ast.unparse(whole))
                if len(expression.names) > 1 and not own.isdisjoint(expression.names):
                    expressions.setdefault(expression.text, expression)
    return tuple(expressions.values())[:MAX_QUANTITIES]


def columns(space: SearchSpace, rows: NDArray[np.int64]) -> dict[str, Floats]:
    """The numbers of the given rows, by name: parameters (for words the index of the value), derived quantities and the
    quantities in the constraints; nan where a quantity cannot be computed. Each array is (row,).
    """
    names: dict[str, Any] = {**space.device.names(), **space.problem.names()}
    numbers: dict[str, Floats] = {}
    for column, parameter in enumerate(space.kernel.parameters):
        indices = space.rows[rows, column]
        names[parameter.name] = column_of(parameter)[indices]
        numbers[parameter.name] = (names[parameter.name] if parameter.is_numeric else indices).astype(float)
    in_constraints = ((expression.text, expression) for expression in quantities(space.kernel))
    for name, expression in (*space.kernel.derived, *in_constraints):
        try:
            value = np.broadcast_to(np.asarray(expression(names)), len(rows))
        except ExpressionError:  # an unknown feature of the problem, or arithmetic on words
            value = np.full(len(rows), np.nan)
        names[name] = value
        numbers[name] = (value.astype(float) if value.dtype.kind in "biuf"
                         else word_codes(space.kernel, name, value))
    return numbers


def products(space: SearchSpace, numbers: dict[str, Floats]) -> dict[str, Floats]:
    """The products of pairs of parameters that have at least three values, all of them positive numbers.

    `numbers` are the space's columns; at most `MAX_PAIRS` products are returned, by text such as "x * y".
    """
    names = [parameter.name for parameter in space.kernel.parameters
             if len(parameter.values) > 2 and parameter.is_numeric and min(map(int, parameter.values)) > 0]
    pairs = list(combinations(names, 2))
    return {f"{first} * {second}": numbers[first] * numbers[second] for first, second in pairs[:MAX_PAIRS]}
