"""Arithmetic: the operators and functions of expressions, on plain values and on NumPy columns.

Plain values are computed as Python computes them. Columns have the same values, many at once: what NumPy would compute
in another way (a division by zero, integers of more than 64 bits, powers of fractions, the order of words) raises an
ExpressionError, and the expression is then evaluated row by row.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from operator import add, and_, eq, floordiv, ge, gt, le, lshift, lt, mod, mul, ne, or_, rshift, sub, truediv, xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError

Bound = Callable[[Mapping[str, float]], float]

PLAIN, CHECKED, SMALL = 0, 1, 2  # modes: plain numbers; columns; columns whose integers are known to be small

LARGEST_NUMBER = 2**63 - 1  # the largest whole number in files: columns of a space have 64 bits
LARGEST_EXACT = 2**53  # whole numbers up to which a float holds each
LARGEST_SHIFT = 62  # of a column
LARGEST_PLAIN_SHIFT = 1000  # of Python's own integers, which have no limit
LARGEST_POWER = 64
_SUMMED = (ast.Add, ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor)

# Operators that `binary` and `compare` apply without checks to plain numbers, and to columns in the mode SMALL.
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul}
_QUOTIENTS: dict[str, Callable[[Any, Any], Any]] = {"/": truediv, "//": floordiv, "%": mod}
PLAIN_OPERATORS = {**_ARITHMETIC, **_QUOTIENTS}  # of two plain numbers, of which the second is not 0
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **PLAIN_OPERATORS, "**": pow, "<<": lshift, ">>": rshift, "&": and_, "|": or_, "^": xor}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: lt, ast.LtE: le, ast.Gt: gt, ast.GtE: ge, ast.Eq: eq, ast.NotEq: ne}

SERIES = (tuple, list, dict)  # values that hold others; a tuple and a list are never equal

FEW = 16  # values in a column up to which Python's max is faster than NumPy's


class UndefinedError(ExpressionError):
    """A name has no value, or a quotient none, since it divides by zero."""


def as_truth(value: Any) -> Any:
    """A value or column as booleans; an undefined value counts as false."""
    return value if isinstance(value, np.ndarray) and value.dtype == bool else np.asarray(value).astype(bool)


def as_column(values: Sequence[Any]) -> NDArray[Any]:
    """Values as a column: numbers of one type, or words; Python's own objects if NumPy would change some of them."""
    kinds = set(map(type, values))
    if len(kinds) < 2 or kinds <= {int, float, bool}:
        column = np.asarray(values)
        exact = float not in kinds or int not in kinds or largest(column) <= LARGEST_EXACT
        if column.ndim == 1 and column.dtype.kind in "bifU" and exact:
            return column
    column = np.empty(len(values), object)
    column[:] = values
    return column


def numbers_of(column: NDArray[Any]) -> NDArray[Any] | None:
    """A column as numbers, NaN where a value is undefined; None if it holds words."""
    if column.dtype.kind in "biuf":
        return column
    values = column.tolist()
    if any(isinstance(value, str | tuple) for value in values):
        return None
    return np.array([math.nan if value is None else float(value) for value in values])


def as_number(value: Any) -> Any:
    """Booleans as the integers 0 and 1 (NumPy would add two booleans to a boolean)."""
    if isinstance(value, np.ndarray | np.bool_) and value.dtype == bool:
        return value.astype(np.int64)
    return value


def is_plain_number(value: Any) -> bool:
    """Whether a value is a number or a column of numbers, neither booleans nor words."""
    kind = type(value)
    return kind is int or kind is float or (kind is np.ndarray and value.dtype.kind in "if")


def is_word(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind == "U")


def largest(value: Any) -> float:
    """The largest magnitude in a number or column."""
    if isinstance(value, np.ndarray):
        if value.size <= FEW:
            return float(max(map(abs, value.ravel().tolist()), default=0))
        return max(float(np.maximum.reduce(value, axis=None, initial=0)),
                   -float(np.minimum.reduce(value, axis=None, initial=0)))
    magnitude: float = abs(value)
    return magnitude


def _overflows(operator: str, left: Any, right: Any) -> bool:
    """Whether a result may exceed 64 bits; Python's own integers have no limit."""
    if not isinstance(left, np.ndarray | np.generic) and not isinstance(right, np.ndarray | np.generic):
        return False
    a, b = largest(left), largest(right)
    match operator:
        case "*":
            bound = float(a) * b
        case "<<":
            bound = float(a) * 2.0 ** min(b, LARGEST_SHIFT)
        case "**":
            bound = max(float(a), 1.0) ** min(b, LARGEST_POWER) if a <= 2**31 else 0.0
        case _:
            bound = float(a) + b
    return bound >= 2.0**62


def binary(operator: str, left: Any, right: Any, text: str, columns: int) -> Any:
    """Apply a binary operator. `text` is the whole expression, for errors. Raises ExpressionError.

    `columns` is PLAIN for plain values, CHECKED for columns, SMALL for columns whose results surely have 64 bits.
    """
    if columns == SMALL and is_plain_number(left) and is_plain_number(right):
        if operator in _ARITHMETIC:
            return _ARITHMETIC[operator](left, right)
        if operator in _QUOTIENTS and (right.all() if isinstance(right, np.ndarray) else right):
            return _QUOTIENTS[operator](left, right)
    if is_word(left) or is_word(right) or isinstance(left, SERIES) or isinstance(right, SERIES):
        raise ExpressionError(f"arithmetic on words in {text[:80]!r}")
    if columns and operator not in "&|^":
        left, right = as_number(left), as_number(right)
        if columns == CHECKED and operator in ("+", "-", "*", "<<", "**") and _overflows(operator, left, right):
            raise ExpressionError(f"an integer of more than 64 bits in {text[:80]!r}")
    if operator in _QUOTIENTS:
        if np.any(np.asarray(right) == 0):
            raise UndefinedError(f"division by zero in {text[:80]!r}")
    elif operator in ("<<", ">>"):
        most = LARGEST_SHIFT if columns else LARGEST_PLAIN_SHIFT
        if np.any(np.asarray(right) < 0) or np.any(np.asarray(right) > most):
            raise ExpressionError(f"a shift outside 0..{most} in {text[:80]!r}")
    elif operator == "**":
        if largest(right) > LARGEST_POWER or largest(left) > 2**31:
            raise ExpressionError(f"a power that is too large in {text[:80]!r}")
        if any(isinstance(operand, np.ndarray) for operand in (left, right)) and (
                np.asarray(left).dtype.kind == "f" or np.asarray(right).dtype.kind == "f" or np.any(right < 0)):
            raise ExpressionError(f"a power of fractions in {text[:80]!r}")  # NumPy's last bit may differ
    return _BINARY[operator](left, right)


def compare(operator: ast.cmpop, left: Any, right: Any) -> Any:
    """Apply a comparison, `in` and `not in` included. Raises ExpressionError."""
    quick = _COMPARISONS.get(type(operator))
    if quick is not None and is_plain_number(left) and is_plain_number(right):
        return quick(left, right)
    if not (_has_column(left) or _has_column(right)):
        return _compared(operator, left, right)
    if isinstance(operator, ast.In | ast.NotIn):
        if isinstance(left, SERIES) or not isinstance(right, SERIES) or any(isinstance(item, SERIES) for item in right):
            raise ExpressionError("a column is sought among other values than numbers and words")
        contained: Any = False
        for item in right:
            contained = np.logical_or(contained, left == item)
        return contained if isinstance(operator, ast.In) else np.logical_not(contained)
    if isinstance(left, SERIES) or isinstance(right, SERIES) or (
            not isinstance(operator, ast.Eq | ast.NotEq) and (is_word(left) or is_word(right))):
        raise ExpressionError("a comparison of columns that NumPy does not have")
    return _COMPARISONS[type(operator)](left, right)


def _has_column(value: Any) -> bool:
    """Whether a value is a column, or a tuple or list with one."""
    return isinstance(value, np.ndarray) or (isinstance(value, tuple | list) and any(map(_has_column, value)))


def _compared(operator: ast.cmpop, left: Any, right: Any) -> Any:
    """Apply a comparison to plain values. Raises ExpressionError, TypeError."""
    if isinstance(operator, ast.In | ast.NotIn):
        if not isinstance(right, (*SERIES, str)):
            raise ExpressionError(f"`in` needs a list of values, not {str(right)[:40]!r}")
        return (left in right) == isinstance(operator, ast.In)
    return _COMPARISONS[type(operator)](left, right)


def call(name: str, arguments: list[Any], columns: int) -> Any:
    """Apply a function that expressions know. Raises ExpressionError."""
    match name:
        case "min" | "max":
            if len(arguments) == 1 and isinstance(arguments[0], tuple | list):
                arguments = list(arguments[0])
                if not arguments:
                    raise ExpressionError(f"{name} of no values")
            if columns and any(isinstance(argument, np.ndarray) for argument in arguments):
                result = arguments[0]
                for argument in arguments[1:]:
                    result = (np.minimum if name == "min" else np.maximum)(result, argument)
                return result
            return (min if name == "min" else max)(arguments) if len(arguments) > 1 else arguments[0]
        case "abs":
            return abs(arguments[0])
        case "gcd":
            return np.gcd(*map(as_number, arguments)) if columns else math.gcd(*arguments)
        case "lcm":
            return np.lcm(*map(as_number, arguments)) if columns else math.lcm(*arguments)
    left, right = map(as_number, arguments) if columns else arguments
    if not columns and type(left) is int is type(right) and right:
        blocks = (left + right - 1) // right
        return blocks if name == "ceil_div" else blocks * right
    if columns == SMALL and type(right) is int:
        increased = left + (right - 1)
    elif columns == SMALL and type(left) is int:
        increased = right + (left - 1)
    else:
        increased = left + right - 1
    blocks = binary("//", increased, right, name, columns)  # right > 0 wherever this is used
    return blocks if name == "ceil_div" else blocks * right


def bound_of(node: ast.expr) -> Bound:
    """A function that bounds the magnitude of an integer node and of everything in it, from bounds of the names.

    The bound is infinite where it is not worth computing. Results of `/` are floats, which never wrap around, and so
    are all numbers computed from them.
    """
    match node:
        case ast.Constant(value=value):
            constant = float(abs(value)) if isinstance(value, int | float) else 0.0
            return lambda values: constant
        case ast.Name(id=name):
            return lambda values: values[name]
        case ast.BinOp(left=left_node, op=op, right=right_node) if isinstance(op, ast.Mult) or type(op) in _SUMMED:
            left, right = bound_of(left_node), bound_of(right_node)
            if isinstance(op, ast.Mult):
                return lambda values: max(left(values), 1.0) * max(right(values), 1.0)
            return lambda values: left(values) + right(values)
        case ast.BinOp(left=ast.Constant(value=int(base)), op=ast.Pow(), right=ast.Constant(value=int(exponent))) \
                if 0 <= exponent <= LARGEST_POWER and abs(base) <= 2**31:
            power = abs(base) ** exponent
            limit = float(power) if power < 2**63 else math.inf  # larger ones may be no floats
            return lambda values: limit
        case ast.BinOp() | ast.Call(func=ast.Name(id="lcm")):
            return lambda values: math.inf
    parts = [bound_of(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)
             and not (isinstance(node, ast.Call) and part is node.func)]
    if isinstance(node, ast.Call):
        return lambda values: sum(part(values) for part in parts) + 1  # enough for a sum or product with rounding
    return lambda values: max([part(values) for part in parts], default=0.0)


def magnitude(value: Any) -> float:
    """A bound of the magnitude of a value or column."""
    if isinstance(value, np.ndarray):
        return largest(value) if value.dtype.kind in "biuf" else 0.0 if value.dtype.kind == "U" else math.inf
    return abs(float(value)) if isinstance(value, int | float | np.number) else 1.0
