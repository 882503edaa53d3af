"""Expression: a condition or quantity over named values, parsed from text against a whitelist.

Foreign text is never executed: it is parsed with `ast`, every node is checked, and our own evaluator walks the tree.
The same expression evaluates over plain numbers and over whole NumPy columns. On columns a guarded division is
safe: `x if c else y`, `and` and `or` evaluate all sides, so a division by zero there gives 0 and does not count.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from seqtune.errors import ExpressionError

LONGEST_EXPRESSION = 2000  # characters; bounds what a foreign file can ask of us
DEEPEST_EXPRESSION = 60
LARGEST_SHIFT = 62
LARGEST_POWER = 64
FEW = 16  # numbers, which Python compares before NumPy has begun to

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
        except (TypeError, ValueError, ArithmeticError) as error:  # numbers where words stand, and the like
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
            return _binary(_BINARY[type(op)], go(left), go(right), text, columns)
        case ast.UnaryOp(op=op1, operand=operand):
            value = go(operand)
            if isinstance(op1, ast.Not):
                return np.logical_not(_truth(value)) if columns else not value
            return -_number(value) if isinstance(op1, ast.USub) else +_number(value)
        case ast.BoolOp(op=op3, values=parts):
            if columns:
                result: Any = np.asarray(go(parts[0]))
                for part in parts[1:]:
                    other, first = np.asarray(go(part)), _truth(result)
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
                step = _compare(operator, current, following)
                verdict = np.logical_and(verdict, step) if columns else (verdict and step)
                if not columns and not verdict:
                    return False
                current = following
            return verdict
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition = go(test)
            if isinstance(condition, np.ndarray):
                return np.where(_truth(condition), go(body), go(orelse))
            return go(body) if condition else go(orelse)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return tuple(go(part) for part in elts)
        case ast.Dict(keys=keys, values=parts):
            return {key.value: go(part) for key, part in zip(keys, parts, strict=True) if isinstance(key, ast.Constant)}
        case ast.Subscript(value=table_node, slice=index_node):
            table, index = go(table_node), go(index_node)
            try:
                if isinstance(index, np.ndarray):
                    kinds, places = np.unique(index, return_inverse=True)
                    return np.array([table[kind] for kind in kinds.tolist()])[places]
                return table[index]
            except KeyError as error:
                raise ExpressionError(f"{error} is not a key in {text[:80]!r}") from None
        case ast.Call(func=ast.Name(id=name), args=args):
            return _call(name, [go(part) for part in args], columns)
    raise _refuse(text, type(node).__name__)  # pragma: no cover - _check lets nothing else through


def _truth(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) and value.dtype == bool else np.asarray(value).astype(bool)


def _number(value: Any) -> Any:
    """Truth as 0 and 1 (NumPy would add two truths to one truth)."""
    if isinstance(value, np.ndarray | np.bool_) and value.dtype == bool:
        return value.astype(np.int64)
    return value


def _is_word(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind == "U")


def _largest(value: Any) -> float:
    """The largest magnitude in a number or column."""
    if isinstance(value, np.ndarray):
        if value.size <= FEW:
            return float(max(map(abs, value.ravel().tolist()), default=0))
        return max(float(value.max(initial=0)), -float(value.min(initial=0)))
    magnitude: float = abs(value)
    return magnitude


def _overflows(operator: str, left: Any, right: Any) -> bool:
    """Whether a result may leave 64 bits; Python's own integers don't care."""
    if not isinstance(left, np.ndarray | np.generic) and not isinstance(right, np.ndarray | np.generic):
        return False
    a, b = _largest(left), _largest(right)
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


def _binary(operator: str, left: Any, right: Any, text: str, columns: bool) -> Any:
    if isinstance(left, str | tuple) or isinstance(right, str | tuple):
        raise ExpressionError(f"arithmetic on words in {text[:80]!r}")
    if columns and operator not in "&|^":
        left, right = _number(left), _number(right)
        if operator in ("+", "-", "*", "<<", "**") and _overflows(operator, left, right):
            left = np.asarray(left, dtype=float)  # 53 bits of the right number rather than 64 of a wrapped one
            if operator == "<<":
                operator, right = "*", 2.0 ** np.asarray(right)
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "<<" | ">>":
            if np.any(np.asarray(right) < 0) or np.any(np.asarray(right) > LARGEST_SHIFT):
                raise ExpressionError(f"a shift outside 0..{LARGEST_SHIFT} in {text[:80]!r}")
            return left << right if operator == "<<" else left >> right
        case "**":
            if _largest(right) > LARGEST_POWER or _largest(left) > 2**31:
                raise ExpressionError(f"a power that is too large in {text[:80]!r}")
            if columns and np.any(np.asarray(right) < 0):
                base = np.asarray(left, dtype=float)
                return np.where((base == 0) & (np.asarray(right) < 0), 0, base**right)
            return left**right
    if columns:
        divide = {"/": np.true_divide, "//": np.floor_divide, "%": np.mod}[operator]
        if isinstance(right, int | float) and right:
            return divide(left, right)
        zero = np.asarray(right) == 0
        safe = np.where(zero, 1, right)
        quotient = divide(left, safe)
        return np.where(zero, 0, quotient)
    if right == 0:
        raise ExpressionError(f"division by zero in {text[:80]!r}")
    return {"/": lambda: left / right, "//": lambda: left // right, "%": lambda: left % right}[operator]()


def _compare(operator: ast.cmpop, left: Any, right: Any) -> Any:
    match operator:
        case ast.Eq():
            return left == right
        case ast.NotEq():
            return left != right
        case ast.In() | ast.NotIn():
            if not isinstance(right, tuple | dict):
                raise ExpressionError(f"`in` needs a list of values, not {str(right)[:40]!r}")
            found: Any = False
            for item in right:
                found = np.logical_or(found, left == item)
            found = found if isinstance(found, np.ndarray) else bool(found)
            if isinstance(operator, ast.In):
                return found
            return np.logical_not(found) if isinstance(found, np.ndarray) else not found
    if _is_word(left) or _is_word(right):
        raise ExpressionError(f"{str(left)[:40]!r} and {str(right)[:40]!r} have no order")
    match operator:
        case ast.Lt():
            return left < right
        case ast.LtE():
            return left <= right
        case ast.Gt():
            return left > right
        case _:
            return left >= right


def _call(name: str, arguments: list[Any], columns: bool) -> Any:
    match name:
        case "min" | "max":
            if len(arguments) == 1 and isinstance(arguments[0], tuple):
                arguments = list(arguments[0])
            if columns:
                result = arguments[0]
                for argument in arguments[1:]:
                    result = (np.minimum if name == "min" else np.maximum)(result, argument)
                return result
            return (min if name == "min" else max)(arguments) if len(arguments) > 1 else arguments[0]
        case "abs":
            return abs(arguments[0])
        case "gcd":
            return np.gcd(*map(_number, arguments)) if columns else math.gcd(*arguments)
        case "lcm":
            return np.lcm(*map(_number, arguments)) if columns else math.lcm(*arguments)
    left, right = arguments
    blocks = _binary("//", left + right - 1, right, name, columns)  # right > 0 wherever this is used
    return blocks if name == "ceil_div" else blocks * right
