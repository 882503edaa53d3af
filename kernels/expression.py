"""Expression: a condition or quantity over named values, parsed from text against a whitelist.

Foreign text is never executed: it is parsed with `ast`, every node is checked against the whitelist, and becomes a
function of our own that calls those of the nodes in it. The same expression evaluates over plain values, as Python
would compute it, and over whole NumPy columns. A row of columns has the value that its plain values give; where that
divides by zero, it is undefined: None, which no condition takes for true.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError

from .arithmetic import (
    CHECKED,
    PLAIN,
    SMALL,
    Bound,
    UndefinedError,
    as_column,
    bound_of,
    magnitude,
)
from .evaluator import SYMBOLS, UNLIKE, Evaluator, evaluator_of

LONGEST_EXPRESSION = 2000  # characters; bounds the work that a foreign file can cause
DEEPEST_EXPRESSION = 60

MOST_DISTINCT = 300_000  # rows that are computed as plain values; five seconds
SAFE_BOUND = 2.0**61  # up to which integers are computed without checks for more than 64 bits

_WARNED = re.compile(r"[0-9.][A-Za-z]|\\")  # numbers before words and odd escapes, of which Python's parser warns

_FUNCTIONS: dict[str, int | None] = {  # name -> number of arguments, None for any
    "min": None, "max": None, "gcd": 2, "lcm": 2, "ceil_div": 2, "round_up": 2, "abs": 1,
}


class Expression:
    """A parsed expression. `names` holds the free names, in order of appearance.

    >>> Expression("vector * unroll <= 32")({"vector": 8, "unroll": 4})
    True
    """

    __slots__ = ("_evaluate", "_limit", "_tree", "names", "text")

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_EXPRESSION:
            raise ExpressionError(f"an expression of {len(text)} characters is too long: {text[:40]!r}...")
        try:
            self._tree = _with_keys(_parsed(text.strip()))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else error
            raise ExpressionError(f"cannot read the expression {text[:60]!r}: {reason}") from None
        self.text = text.strip()
        names: dict[str, None] = {}
        _check(self._tree, self.text, names, 0)
        self.names: tuple[str, ...] = tuple(names)
        self._evaluate: Evaluator | None = None  # made by the first call: a process calls few of all expressions
        self._limit: Bound | None = None

    @property
    def tree(self) -> ast.expr:
        """The checked syntax tree, which must not be changed."""
        return self._tree

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The value over plain numbers (or over columns, where `values` holds arrays)."""
        given = [(name, values.get(name)) for name in self.names]
        kinds = [value.dtype.kind for _, value in given if isinstance(value, np.ndarray)]
        if not kinds:
            return self._value(values)
        small = self._most({name: magnitude(value) for name, value in given}) < SAFE_BOUND
        return self._column(values, kinds, SMALL if small else CHECKED)

    def bounded(self, values: Mapping[str, Any], bounds: Mapping[str, float]) -> Any:
        """The value over columns and plain numbers; None if integers may exceed 64 bits.

        `bounds` are those of `magnitude` for all columns among the values.
        """
        known = {name: magnitude(values.get(name)) if (bound := bounds.get(name)) is None else bound
                 for name in self.names}
        if self._most(known) >= SAFE_BOUND:
            return None
        kinds = [value.dtype.kind for name in known if isinstance(value := values.get(name), np.ndarray)]
        return self._column(values, kinds, SMALL) if kinds else self._value(values)

    def bound(self, bounds: Mapping[str, float]) -> float:
        """A bound of the integers that the evaluation computes, given bounds of the names (0 where they are missing).

        It is infinite where it is not worth computing.
        """
        return self._most({name: bounds.get(name, 0.0) for name in self.names})

    def _most(self, bounds: Mapping[str, float]) -> float:
        """A bound of the integers that the evaluation computes, given bounds of the names."""
        if self._limit is None:
            self._limit = bound_of(self._tree)
        return self._limit(bounds)

    @property
    def _evaluator(self) -> Evaluator:
        if self._evaluate is None:
            self._evaluate = evaluator_of(self._tree, self.text)
        return self._evaluate

    def _value(self, values: Mapping[str, Any]) -> Any:
        """The value over plain values."""
        try:
            value = self._evaluator(values, PLAIN)
        except ZeroDivisionError:
            raise UndefinedError(f"division by zero in {self.text[:80]!r}") from None
        except (TypeError, ValueError, ArithmeticError) as error:  # for example, the order of a word and a number
            raise ExpressionError(f"cannot evaluate {self.text[:80]!r}: {str(error)[:120]}") from None
        if isinstance(value, complex):
            raise ExpressionError(f"the root of a negative number in {self.text[:80]!r}")
        return value

    def _column(self, values: Mapping[str, Any], kinds: list[str], mode: int) -> Any:
        """The values over columns of these kinds: all at once, or row by row if NumPy computes in another way."""
        if "O" in kinds:
            return self._by_row(values)
        try:
            if mode == SMALL and "f" not in kinds:  # small integers and their quotients cause no warnings
                return self._evaluator(values, mode)
            with np.errstate(all="ignore"):
                return self._evaluator(values, mode)
        except UNLIKE:
            return self._by_row(values)

    def _by_row(self, values: Mapping[str, Any]) -> NDArray[Any]:
        """The values over columns, each distinct row computed once as plain values; None where one is undefined."""
        single = {name: values.get(name) for name in self.names}
        unknown = next((name for name, value in single.items() if value is None), None)
        if unknown is not None:
            raise UndefinedError(f"{unknown} is unknown in {self.text[:80]!r}")
        arrays = {name: value for name, value in single.items() if isinstance(value, np.ndarray)}
        columns = np.broadcast_arrays(*arrays.values())
        lists = [column.ravel().tolist() for column in columns]
        kinds = [list(map(type, column)) for column, array in zip(lists, columns, strict=True) if array.dtype == object]
        known: dict[tuple[Any, ...], Any] = {}
        results = []
        for row in zip(*lists, *kinds, strict=True):
            if row not in known:
                if len(known) == MOST_DISTINCT:
                    raise ExpressionError(f"{self.text[:80]!r} divides by zero, or needs Python's own objects, for "
                                          f"more than {MOST_DISTINCT} combinations of values: say x != 0 and ... in it")
                try:
                    known[row] = self._value({**single, **dict(zip(arrays, row, strict=False))})
                except UndefinedError:
                    known[row] = None
            results.append(known[row])
        return as_column(results).reshape(columns[0].shape)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return (Expression, (self.text,))


def members_of(node: ast.expr) -> Sequence[ast.expr] | None:
    """The values among which `in` looks: those of a list, or the keys of a table; None for anything else."""
    match node:
        case ast.Tuple(elts=nodes) | ast.List(elts=nodes):
            return nodes
        case ast.Dict(keys=keys):
            return [key for key in keys if key is not None]
        case _:
            return None


def _parsed(text: str) -> ast.expr:
    with warnings.catch_warnings(action="ignore") if _WARNED.search(text) else nullcontext():  # takes its time
        return ast.parse(text, mode="eval").body


def _with_keys(tree: ast.expr) -> ast.expr:
    """The tree with constants in place of the negative numbers among the keys of tables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for index, key in enumerate(node.keys):
                match key:
                    case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                        node.keys[index] = ast.copy_location(ast.Constant(-number), key)
    return tree


def _refuse(text: str, what: str) -> ExpressionError:
    return ExpressionError(f"{what} is not allowed in the expression {text[:80]!r}")


def _check(node: ast.expr, text: str, names: dict[str, None], depth: int) -> None:
    if depth > DEEPEST_EXPRESSION:
        raise _refuse(text, "such deep nesting")
    children: list[ast.expr] = []
    match node:
        case ast.Constant(value=value):
            if not isinstance(value, int | float | str | bool):
                raise _refuse(text, f"the constant {value!r:.20}")
            if isinstance(value, int | float) and abs(value) > 2**62:
                raise _refuse(text, "so large a number")
        case ast.Name(id=name):
            names.setdefault(name)
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in SYMBOLS:
                raise _refuse(text, type(op).__name__)
            children = [left, right]
        case ast.UnaryOp(op=op1, operand=operand):
            if not isinstance(op1, ast.USub | ast.UAdd | ast.Not):
                raise _refuse(text, type(op1).__name__)
            children = [operand]
        case ast.BoolOp(values=values):
            children = values
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for op2 in ops:
                if isinstance(op2, ast.Is | ast.IsNot):
                    raise _refuse(text, "`is`")
            children = [left, *comparators]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            children = [test, body, orelse]
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            children = elts
        case ast.Dict(keys=keys, values=values):
            if any(not isinstance(key, ast.Constant) for key in keys):
                raise _refuse(text, "a dict with computed keys")
            children = values
        case ast.Subscript(value=ast.Dict() as table, slice=index):
            children = [table, index]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            if name not in _FUNCTIONS:
                raise _refuse(text, f"the function {name!r:.30}")
            count = _FUNCTIONS[name]
            if not args or (count is not None and len(args) != count) or any(isinstance(a, ast.Starred) for a in args):
                raise _refuse(text, f"{name} with {len(args)} arguments")
            children = args
        case _:
            raise _refuse(text, type(node).__name__)
    for child in children:
        _check(child, text, names, depth + 1)
