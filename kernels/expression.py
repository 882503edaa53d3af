"""Expression: a condition or quantity over named values, parsed from text against a whitelist.

Foreign text is never executed: it is parsed with `ast`, every node is checked against the whitelist, and our own
evaluator walks the tree. The same expression evaluates over plain numbers and over whole NumPy columns. On columns,
`x if c else y`, `and` and `or` evaluate all sides; a division by zero there gives 0, so a guarded division is safe.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from seqtune.errors import ExpressionError

from .arithmetic import as_number, as_truth, binary, call, compare

LONGEST_EXPRESSION = 2000  # characters; bounds the work that a foreign file can cause
DEEPEST_EXPRESSION = 60

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}
_FUNCTIONS: dict[str, int | None] = {  # name -> number of arguments, None for any
    "min": None, "max": None, "gcd": 2, "lcm": 2, "ceil_div": 2, "round_up": 2, "abs": 1,
}


class Expression:
    """A parsed expression. `names` holds the free names, in order of appearance.

    >>> Expression("vector * unroll <= 32")({"vector": 8, "unroll": 4})
    True
    """

    __slots__ = ("_tree", "names", "text")

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_EXPRESSION:
            raise ExpressionError(f"an expression of {len(text)} characters is too long: {text[:40]!r}...")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ExpressionError(f"cannot read the expression {text[:60]!r}: {error}") from None
        self.text = text.strip()
        names: dict[str, None] = {}
        _check(self._tree, self.text, names, 0)
        self.names: tuple[str, ...] = tuple(names)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The value over plain numbers (or over columns, where `values` holds arrays)."""
        columns = any(isinstance(values.get(name), np.ndarray) for name in self.names)
        try:
            with np.errstate(all="ignore"):
                value = _evaluate(self._tree, values, self.text, columns)
        except (TypeError, ValueError, ArithmeticError) as error:  # for example, arithmetic on words
            raise ExpressionError(f"cannot evaluate {self.text[:80]!r}: {str(error)[:120]}") from None
        if isinstance(value, complex):
            raise ExpressionError(f"the root of a negative number in {self.text[:80]!r}")
        return value

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return (Expression, (self.text,))


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
            if type(op) not in _BINARY:
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


def _evaluate(node: ast.expr, values: Mapping[str, Any], text: str, columns: bool) -> Any:
    def go(child: ast.expr) -> Any:
        return _evaluate(child, values, text, columns)

    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            value = values.get(name)
            if value is None:
                raise ExpressionError(f"{name} is unknown in {text[:80]!r}")
            return value
        case ast.BinOp(left=left, op=op, right=right):
            return binary(_BINARY[type(op)], go(left), go(right), text, columns)
        case ast.UnaryOp(op=op1, operand=operand):
            value = go(operand)
            if isinstance(op1, ast.Not):
                return np.logical_not(as_truth(value)) if columns else not value
            return -as_number(value) if isinstance(op1, ast.USub) else +as_number(value)
        case ast.BoolOp(op=op3, values=parts):
            if columns:
                result: Any = np.asarray(go(parts[0]))
                for part in parts[1:]:
                    other, first = np.asarray(go(part)), as_truth(result)
                    sides = (other, result) if isinstance(op3, ast.And) else (result, other)
                    result = np.where(first, *sides)
                return result
            for part in parts:
                value = go(part)
                if bool(value) != isinstance(op3, ast.And):
                    return value
            return value
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            verdict: Any = True
            current = go(left)
            for operator, comparator in zip(ops, comparators, strict=True):
                following = go(comparator)
                step = compare(operator, current, following)
                verdict = np.logical_and(verdict, step) if columns else (verdict and step)
                if not columns and not verdict:
                    return False
                current = following
            return verdict
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition = go(test)
            if isinstance(condition, np.ndarray):
                return np.where(as_truth(condition), go(body), go(orelse))
            return go(body) if condition else go(orelse)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return tuple(go(part) for part in elts)
        case ast.Dict(keys=keys, values=parts):
            return {key.value: go(part) for key, part in zip(keys, parts, strict=True) if isinstance(key, ast.Constant)}
        case ast.Subscript(value=table_node, slice=index_node):
            table, index = go(table_node), go(index_node)
            try:
                if isinstance(index, np.ndarray):
                    keys_used, inverse = np.unique(index, return_inverse=True)
                    return np.array([table[key] for key in keys_used.tolist()])[inverse]
                return table[index]
            except KeyError as error:
                raise ExpressionError(f"{error} is not a key in {text[:80]!r}") from None
        case ast.Call(func=ast.Name(id=name), args=args):
            return call(name, [go(part) for part in args], columns)
    raise _refuse(text, type(node).__name__)  # pragma: no cover - _check refuses everything else
