"""Folding: an expression with constants in the place of names, and bounds of its value for all values of the others.

Parts without names become constants, and conditions that hold in any case are left out. A part has bounds only if its
value is a whole number (or boolean) whose evaluation is sure to succeed: what could divide by zero or look up a missing
key has none, and is kept as it stands. Folding never changes whether a condition holds.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import floordiv, mul
from typing import Annotated, TypeAlias

from pydantic import PlainSerializer, PlainValidator

from seqtune.errors import ExpressionError
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import Value

from ..c_source.expression import is_condition

Interval = tuple[int, int]
Bounds: TypeAlias = Interval | None  # of a whole number; None: anything, and its evaluation may fail
Folded = tuple[ast.expr, Bounds]
NEVER = Expression("False")
JsonExpression = Annotated[Expression, PlainValidator(lambda text: Expression(str(text))),
                           PlainSerializer(lambda expression: expression.text)]
_HUGE = 2**62  # the largest constant that an expression may have
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


@dataclass(frozen=True)
class Folder:
    """Folds expressions; `names` holds what some of their names stand for."""

    names: dict[str, Folded] = field(default_factory=dict)

    def put(self, constants: Mapping[str, Value]) -> None:
        """Put constants in the place of names."""
        self.names.update({name: _constant(value) for name, value in constants.items() if value is not None})

    def keep(self, name: str, bounds: Bounds) -> None:
        """Keep a name, whose value has these bounds."""
        self.names[name] = ast.Name(name, ast.Load()), bounds

    def derive(self, name: str, expression: Expression) -> None:
        """Keep a name whose value is that of an expression; a constant takes its place if the value is one."""
        tree, bounds = self.fold(expression.tree)
        self.names[name] = (tree if _is_constant(tree) else ast.Name(name, ast.Load())), bounds

    def quantity(self, expression: Expression) -> Expression:
        """The folded expression."""
        return Expression(ast.unparse(self.fold(expression.tree)[0]))

    def conditions(self, expressions: Sequence[Expression]) -> tuple[Expression, ...]:
        """The conditions that together hold where these do; (NEVER,) if they hold nowhere. Raises ExpressionError."""
        texts: dict[str, None] = {}
        for part in (part for each in expressions for part in conjuncts(self.fold(each.tree)[0])):
            if not isinstance(part, ast.Constant):
                texts[ast.unparse(part)] = None
            elif not part.value:
                return (NEVER,)
        return tuple(map(Expression, texts))

    def fold(self, node: ast.expr) -> Folded:
        """The folded node and the bounds of its value."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, (node, None))
            case ast.Constant(value=int() | float() | str() as value):
                return _constant(value)
            case ast.BoolOp(op=connective, values=values):
                return self._joined(connective, values)
        parts: list[Folded] = []

        def part(name: str, value: object) -> object:
            if not isinstance(value, ast.expr) or name == "func":
                return value
            parts.append(self.fold(value))
            return parts[-1][0]

        folded: ast.expr = type(node)(*([part(name, each) for each in value] if isinstance(value, list)
                                        else part(name, value) for name, value in ast.iter_fields(node)))
        if isinstance(folded, ast.IfExp) and isinstance(folded.test, ast.Constant):
            return parts[1] if folded.test.value else parts[2]
        series = isinstance(folded, ast.Tuple | ast.List | ast.Dict)
        if not series and all(_is_constant(each) for each, _ in parts):
            try:
                value = Expression(ast.unparse(folded))({})
            except ExpressionError:
                return folded, None
            if isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= _HUGE):
                return _constant(value)
        known = [bounds for _, bounds in parts if bounds]
        bounds = _bounds(folded, known) if len(known) == len(parts) else None
        if bounds and bounds[0] == bounds[1] and abs(bounds[0]) <= _HUGE:
            return _constant(bool(bounds[0]) if is_condition(folded) else bounds[0])
        return _turned(folded), bounds

    def _joined(self, connective: ast.boolop, values: Sequence[ast.expr]) -> Folded:
        """`and` or `or` without the parts that do not matter; the value is that of one of the parts."""
        decisive = isinstance(connective, ast.Or)  # the truth of a part after which no other is evaluated
        parts: list[Folded] = []
        for value in values:
            parts.append(self.fold(value))
            if _truth(parts[-1][1]) is decisive:
                break
        kept = [part for part in parts[:-1] if _truth(part[1]) is None]
        conditions = all(is_condition(part) for part, _ in (*kept, parts[-1]))
        if not kept or not conditions or _truth(parts[-1][1]) is not (not decisive):
            kept.append(parts[-1])  # of other values than true and false, the last one may be the result
        if len(kept) == 1:
            return kept[0]
        known = [bounds for _, bounds in kept if bounds]
        if len(known) < len(kept):
            return ast.BoolOp(connective, [part for part, _ in kept]), None
        low, high = min(low for low, _ in known), max(high for _, high in known)
        if _truth(known[-1]) is decisive and low >= 0 and high <= 1:
            return _constant(decisive)
        return ast.BoolOp(connective, [part for part, _ in kept]), (low, high)


def _truth(bounds: Bounds) -> bool | None:
    """Whether all values within the bounds count as true, or none; None if neither is known."""
    return None if bounds is None else True if bounds[0] > 0 or bounds[1] < 0 else False if bounds == (0, 0) else None


def _constant(value: str | float) -> Folded:
    """The tree of a value; a negative number is a positive one with a sign, as Python parses it."""
    bounds = (int(value), int(value)) if isinstance(value, int) else None
    if isinstance(value, int | float) and math.copysign(1, value) < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value)), bounds
    return ast.Constant(value), bounds


def _is_constant(node: ast.expr) -> bool:
    """Whether a folded tree has no names: a constant, perhaps with a sign, or a tuple, list or table of constants."""
    return not any(isinstance(each, ast.Name) for each in ast.walk(node))


def _turned(node: ast.expr) -> ast.expr:
    """A comparison of a constant with something else, with the constant on the right; any other node as it is."""
    match node:
        case ast.Compare(left=ast.Constant() as left, ops=[op], comparators=[right]) if type(op) in _TURNED:
            return ast.Compare(right, [_TURNED[type(op)]()], [left])
    return node


def conjuncts(node: ast.expr) -> Iterator[ast.expr]:
    """The conditions that together hold where one does."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                yield from conjuncts(value)
        case ast.Compare(left=left, ops=[_, _, *_] as ops, comparators=others):
            for first, op, second in zip([left, *others], ops, others, strict=False):
                yield _turned(ast.Compare(first, [op], [second]))
        case _:
            yield node


def _bounds(node: ast.expr, parts: Sequence[Interval]) -> Bounds:
    """The bounds of a node's value from those of its parts; None where none are known."""
    match node:
        case ast.UnaryOp(op=ast.USub()):
            return -parts[0][1], -parts[0][0]
        case ast.UnaryOp(op=ast.Not()):
            return (0, 1) if (truth := _truth(parts[0])) is None else (int(not truth), int(not truth))
        case ast.BinOp(op=op):
            return _computed(op, *parts)
        case ast.Compare(ops=ops):
            pairs = [_compared(op, a, b) for a, op, b in zip(parts, ops, parts[1:], strict=False)]
            return None if None in pairs else (min(pair[0] for pair in pairs if pair),
                                               min(pair[1] for pair in pairs if pair))
        case ast.IfExp():
            return min(parts[1][0], parts[2][0]), max(parts[1][1], parts[2][1])
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            chosen = min if name == "min" else max
            return chosen(low for low, _ in parts), chosen(high for _, high in parts)
        case ast.Call(func=ast.Name(id="ceil_div")) if parts[1][0] > 0:
            return _ends(parts[0], parts[1], lambda a, b: -(-a // b))
        case ast.Call(func=ast.Name(id="round_up")) if parts[1][0] > 0:
            return parts[0][0], parts[0][1] + parts[1][1] - 1
    return None


def _ends(a: Interval, b: Interval, function: Callable[[int, int], int]) -> Interval:
    """The bounds of a function that is monotonous in both arguments."""
    values = [function(x, y) for x in a for y in b]
    return min(values), max(values)


def _computed(op: ast.operator, a: Interval, b: Interval) -> Bounds:
    match op:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            return _ends(a, b, mul)
        case ast.FloorDiv() if b[0] > 0:
            return _ends(a, b, floordiv)
        case ast.Mod() if b[0] > 0:
            return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)
    return None


def _compared(op: ast.cmpop, a: Interval, b: Interval) -> Bounds:
    below, above, same = a[1] < b[0], a[0] > b[1], a[0] == a[1] == b[0] == b[1]
    apart = below or above
    known = {ast.Lt: (below, a[0] >= b[1]), ast.LtE: (a[1] <= b[0], above), ast.Gt: (above, a[1] <= b[0]),
             ast.GtE: (a[0] >= b[1], below), ast.Eq: (same, apart), ast.NotEq: (apart, same)}.get(type(op))
    return known and (int(known[0]), int(not known[1]))
