"""Features: what cost models see of a configuration.

Its parameters, the kernel's derived quantities, and the quantities that the constraints speak of: who writes
`block_x * block_y <= 1024` or `tile % (vector * threads) == 0` has said that the product and the quotient matter. Also
the products of all pairs of numeric parameters, facts of problem and device, and into how many pieces as long as a
parameter says each of the problem's sizes is cut, and what that wastes: trees find none of these by themselves. No name
has a meaning.
"""

from __future__ import annotations

import ast
import zlib
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.space import SearchSpace

Floats = NDArray[np.float64]

MOST_QUANTITIES = 40  # of one kernel; a file may declare any number of constraints
MOST_PAIRS = 45  # products of ten parameters
SMALLEST_SIZE = 4  # numbers of the problem below it are flags, strides and the like: nothing that is cut into pieces
_OPERATORS = (ast.Mult, ast.Div, ast.FloorDiv, ast.Add, ast.Mod)
_FACTS = ("threads", "compute_units", "vector_bits", "vector_registers", "l1_bytes", "l2_bytes", "l3_bytes",
          "local_memory", "max_work_group", "peak_gflops", "bandwidth_gbs")


@lru_cache(maxsize=256)
def quantities(kernel: Kernel) -> tuple[Expression, ...]:
    """What the kernel derives and its constraints compute from at least two names, one of them a parameter."""
    own = set(kernel.by_name)
    found: dict[str, Expression] = {}
    for name, expression in kernel.derived:
        if not own.isdisjoint(expression.names):
            own.add(name)
    for constraint in kernel.constraints:
        for node in ast.walk(ast.parse(constraint.expression.text, mode="eval")):
            if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
                whole = ast.BinOp(node.left, ast.FloorDiv(), node.right) if isinstance(node.op, ast.Mod) else node
                expression = Expression(ast.unparse(whole))
                if len(expression.names) > 1 and not own.isdisjoint(expression.names):
                    found.setdefault(expression.text, expression)
    return tuple(found.values())[:MOST_QUANTITIES]


def columns(space: SearchSpace, rows: NDArray[np.int64]) -> dict[str, Floats]:
    """Numbers for each of the rows: parameters (of a word, its place), derived quantities and those of constraints."""
    names: dict[str, Any] = {**space.device.names(), **space.problem.names()}
    found: dict[str, Floats] = {}
    for column, parameter in enumerate(space.kernel.parameters):
        places = space.rows[rows, column]
        values = np.array(parameter.values, dtype=None if parameter.is_numeric else object)
        names[parameter.name] = values[places] if parameter.is_numeric else values[places].astype(str)
        found[parameter.name] = (values[places] if parameter.is_numeric else places).astype(float)
    for name, expression in (*space.kernel.derived, *((one.text, one) for one in quantities(space.kernel))):
        try:
            value = np.broadcast_to(np.asarray(expression(names)), len(rows))
        except ExpressionError:  # an unknown feature of the problem, or arithmetic on words
            value = np.full(len(rows), np.nan)
        names[name] = value
        found[name] = (value.astype(float) if value.dtype.kind in "biuf"
                       else np.unique(value.astype(str), return_inverse=True)[1].astype(float))
    return found


def products(space: SearchSpace, found: dict[str, Floats]) -> dict[str, Floats]:
    """The product of each pair of parameters with at least three positive numbers as values."""
    many = [one.name for one in space.kernel.parameters
            if len(one.values) > 2 and one.is_numeric and min(int(value) for value in one.values) > 0]
    pairs = list(combinations(many, 2))
    return {f"{one} * {other}": found[one] * found[other] for one, other in pairs[:MOST_PAIRS]}


def features(space: SearchSpace, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """(row, feature): the same features for all spaces of a kernel family and type of problem."""
    found = columns(space, rows)
    numeric = [found[one.name] for one in space.kernel.parameters if one.is_numeric and len(one.values) > 2]
    wide = [*found.values(), *products(space, found).values()]
    names = space.problem.names()
    fixed = [_number(value) for value in names.values()]
    fixed += [float(getattr(space.device, name)) for name in _FACTS]
    for size in names.values():
        if isinstance(size, int) and size >= SMALLEST_SIZE:
            pieces = [np.maximum(values, 1) for values in numeric]
            wide += [size / piece for piece in pieces]
            wide += [np.ceil(size / piece) * piece / size for piece in pieces]
        else:
            wide += [np.full(len(rows), np.nan)] * (2 * len(numeric))
    wide += [np.full(len(rows), value) for value in fixed]
    return np.stack(wide, axis=1).astype(np.float32)


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return float(value)
    if value is None:
        return float("nan")
    return float(zlib.crc32(str(value).encode()) % 9973)  # a word of a short list: any distinct number serves trees
