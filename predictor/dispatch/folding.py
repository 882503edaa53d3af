"""Folding: an expression with names put in as constants, and bounds of its value for all values of the other names.

Parts without names become constants, and conditions that hold in any case are left out. A part has bounds only if its
value is a whole number (or boolean) whose evaluation is sure to succeed: what could divide by zero or look up a missing
key has none, and is kept as it stands. Folding never changes whether a condition holds.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import floordiv, mul
from typing import TypeAlias

from seqtune.errors import ExpressionError
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import Value

Bounds: TypeAlias = tuple[float, float] | None  # of a whole number; None: anything, and its evaluation may fail
Folded = tuple[ast.expr, Bounds]
_HUGE = 2**62  # of constants in expressions
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}


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

    def condition(self, expression: Expression) -> list[Expression] | None:
        """The conditions that together hold where this one does; None if it holds nowhere. Raises ExpressionError."""
        texts: dict[str, None] = {}
        for part in conjuncts(self.fold(expression.tree, truth=True)[0]):
            if isinstance(part, ast.Constant):
                if not part.value:
                    return None
                continue
            match part:  # a constant stands on the right
                case ast.Compare(left=ast.Constant() as left, ops=[op], comparators=[right]) if type(op) in _TURNED:
                    part = ast.Compare(right, [_TURNED[type(op)]()], [left])
            texts[ast.unparse(part)] = None
        return list(map(Expression, texts))

    def fold(self, node: ast.expr, truth: bool = False) -> Folded:
        """The folded node and the bounds of its value; with `truth` it only matters whether the value is true."""
        folded, bounds = self._folded(node, truth)
        if bounds and truth and (decided := _truth(bounds)) is not None:
            return _constant(decided)
        if bounds and bounds[0] == bounds[1] and abs(bounds[0]) <= _HUGE:
            return _constant(int(bounds[0]))
        series = isinstance(folded, ast.Name | ast.Constant | ast.Tuple | ast.List | ast.Dict)
        if not series and all(map(_is_constant, _parts(folded))):
            try:
                value = Expression(ast.unparse(folded))({})
            except ExpressionError:
                return folded, None
            if isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= _HUGE):
                return _constant(value)
        return folded, bounds

    def _folded(self, node: ast.expr, truth: bool) -> Folded:
        match node:
            case ast.Constant(value=str() | int() | float() as value):
                return _constant(value)
            case ast.Name(id=name):
                return self.names.get(name, (node, None))
            case ast.BinOp(left=left, op=op, right=right):
                (first, a), (second, b) = self.fold(left), self.fold(right)
                if a and b and b[0] == b[1] == 1 and isinstance(op, ast.Mult | ast.FloorDiv):
                    return first, a
                if a and b and a[0] == a[1] == 1 and isinstance(op, ast.Mult):
                    return second, b
                return ast.BinOp(first, op, second), a and b and _computed(op, a, b)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner, bounds = self.fold(operand, truth=True)
                return ast.UnaryOp(ast.Not(), inner), bounds and (1 - bounds[1], 1 - bounds[0])
            case ast.UnaryOp(op=sign, operand=operand):
                inner, bounds = self.fold(operand)
                negative = isinstance(sign, ast.USub)
                return ast.UnaryOp(sign, inner), bounds and (-bounds[1], -bounds[0]) if negative else bounds
            case ast.BoolOp(op=connective, values=values):
                return self._joined(connective, values, truth)
            case ast.Compare(left=left, ops=ops, comparators=others):
                folded = [self.fold(part) for part in (left, *others)]
                steps = [_compared(op, a, b) for (_, a), op, (_, b) in zip(folded, ops, folded[1:], strict=False)]
                bounds = None if None in steps else (min(step[0] for step in steps if step),
                                                     min(step[1] for step in steps if step))
                return ast.Compare(folded[0][0], ops, [part for part, _ in folded[1:]]), bounds
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition, decided = self.fold(test, truth=True)
                if decided and _truth(decided) is not None:
                    return self.fold(body if _truth(decided) else orelse, truth)
                (yes, a), (no, b) = self.fold(body, truth), self.fold(orelse, truth)
                return ast.IfExp(condition, yes, no), decided and _union(a, b)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return type(node)([self.fold(element)[0] for element in elements], ast.Load()), None
            case ast.Dict(keys=keys, values=values):
                return ast.Dict(keys, [self.fold(value)[0] for value in values]), None
            case ast.Subscript(value=table, slice=index):
                return ast.Subscript(self.fold(table)[0], self.fold(index)[0], ast.Load()), None
            case ast.Call(func=ast.Name(id=name) as function, args=arguments):
                if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
                    arguments = arguments[0].elts
                folded = [self.fold(argument) for argument in arguments]
                if len(folded) == 1 and name in ("min", "max"):
                    return folded[0]
                known = [bounds for _, bounds in folded if bounds]
                if name in ("ceil_div", "round_up") and len(known) == 2 and known[1] == (1, 1):
                    return folded[0]
                bounds = _called(name, known) if len(known) == len(folded) else None
                return ast.Call(function, [part for part, _ in folded], []), bounds
        return node, None  # pragma: no cover - an Expression has no other nodes

    def _joined(self, connective: ast.boolop, values: list[ast.expr], truth: bool) -> Folded:
        """`and` or `or` without the parts that do not matter."""
        decisive = isinstance(connective, ast.Or)  # the truth of a part after which Python evaluates no other
        kept: list[Folded] = []
        for number, value in enumerate(values):
            part, bounds = self.fold(value, truth)
            known = _truth(bounds) if bounds else None
            if known is (not decisive) and (truth or number + 1 < len(values)):
                continue
            kept.append((part, bounds))
            if known is decisive:
                break
        if not kept:
            return _constant(not decisive)
        if len(kept) == 1:
            return kept[0]
        last, bounds = kept[-1][1], kept[0][1]
        for _, other in kept[1:]:
            bounds = _union(bounds, other)
        if truth and bounds:
            bounds = (decisive, decisive) if last and _truth(last) is decisive else (0, 1)
        return ast.BoolOp(connective, [part for part, _ in kept]), bounds


def _constant(value: str | float) -> Folded:
    """The tree of a value; a negative number is a positive one with a sign, as Python parses it."""
    if isinstance(value, int | float) and math.copysign(1, value) < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value)), (value, value) if isinstance(value, int) else None
    return ast.Constant(value), (int(value), int(value)) if isinstance(value, int) else None


def _is_constant(node: ast.expr) -> bool:
    """Whether a folded tree has no names: a constant, perhaps with a sign, or a tuple, list or table of constants."""
    match node:
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Dict(values=values):
            return all(map(_is_constant, values))
        case ast.UnaryOp(operand=operand):
            return isinstance(operand, ast.Constant)
    return isinstance(node, ast.Constant)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """The values from which that of a tree is computed."""
    function = node.func if isinstance(node, ast.Call) else None
    return (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr) and part is not function)


def conjuncts(node: ast.expr) -> Iterator[ast.expr]:
    """The conditions that together hold where one does."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                yield from conjuncts(value)
        case ast.Compare(left=left, ops=[_, _, *_] as ops, comparators=others):
            for first, op, second in zip([left, *others], ops, others, strict=False):
                yield ast.Compare(first, [op], [second])
        case _:
            yield node


def _truth(bounds: tuple[float, float]) -> bool | None:
    """Whether a value counts as true in any case or in none; None: in some."""
    return True if bounds[0] > 0 or bounds[1] < 0 else False if bounds == (0, 0) else None


def _union(a: Bounds, b: Bounds) -> Bounds:
    return a and b and (min(a[0], b[0]), max(a[1], b[1]))


def _corners(a: tuple[float, float], b: tuple[float, float], function: Callable[[float, float], float]) -> Bounds:
    """The bounds of a function that is monotonous in both arguments."""
    values = [function(x, y) for x in a for y in b]
    return min(values), max(values)


def _computed(op: ast.operator, a: tuple[float, float], b: tuple[float, float]) -> Bounds:
    match op:
        case ast.BitAnd() if a[0] >= 0 or b[0] >= 0:
            return 0, max(a[1], b[1]) if min(a[0], b[0]) >= 0 else a[1] if a[0] >= 0 else b[1]
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            return _corners(a, b, mul)
        case ast.FloorDiv() if b[0] > 0:
            return _corners(a, b, floordiv)
        case ast.Mod() if b[0] > 0:
            return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)
    return None


def _compared(op: ast.cmpop, a: Bounds, b: Bounds) -> Bounds:
    if not a or not b or isinstance(op, ast.In | ast.NotIn):
        return None
    below, above, same = a[1] < b[0], a[0] > b[1], a[0] == a[1] == b[0] == b[1]
    apart = below or above
    yes, no = {ast.Lt: (below, a[0] >= b[1]), ast.LtE: (a[1] <= b[0], above), ast.Gt: (above, a[1] <= b[0]),
               ast.GtE: (a[0] >= b[1], below), ast.Eq: (same, apart), ast.NotEq: (apart, same)}[type(op)]
    return int(yes), int(not no)


def _called(name: str, parts: list[tuple[float, float]]) -> Bounds:
    if name in ("min", "max"):
        chosen = min if name == "min" else max
        return chosen(low for low, _ in parts), chosen(high for _, high in parts)
    if name == "abs":
        (low, high), = parts
        return max(low, -high, 0), max(high, -low)
    if name in ("ceil_div", "round_up") and parts[1][0] > 0:
        a, b = parts
        return _corners(a, b, lambda x, y: -(-x // y)) if name == "ceil_div" else (a[0], a[1] + b[1] - 1)
    return None
