"""Evaluator: the function that a node of an expression becomes, over plain values and over whole NumPy columns.

It takes the values by name, and the mode that `binary` knows. The nodes are those that `Expression` lets through.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from seqtune.errors import ExpressionError

from .arithmetic import (
    PLAIN_OPERATORS,
    SERIES,
    UndefinedError,
    as_column,
    as_number,
    as_truth,
    binary,
    call,
    compare,
    is_word,
)

Evaluator = Callable[[Mapping[str, Any], int], Any]

UNLIKE = (ExpressionError, TypeError, ValueError, ArithmeticError, KeyError)  # raised where NumPy is unlike Python
_NUMBERS = (int, float)

SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}


def evaluator_of(node: ast.expr, text: str) -> Evaluator:
    """The evaluator of a node; `text` is the whole expression, for errors."""
    match node:
        case ast.Constant(value=value):
            return lambda values, mode: value
        case ast.Name(id=name):
            return _named(name, text)
        case ast.BinOp(left=left_node, op=op, right=right_node):
            return _operation(SYMBOLS[type(op)], evaluator_of(left_node, text), evaluator_of(right_node, text), text)
        case ast.UnaryOp(op=op1, operand=operand_node):
            return _unary(op1, evaluator_of(operand_node, text))
        case ast.BoolOp(op=op3, values=nodes):
            return _boolean(isinstance(op3, ast.And), [_Part.of(part, text) for part in nodes])
        case ast.Compare(left=left_node, ops=ops, comparators=nodes):
            return _comparison(evaluator_of(left_node, text), ops, [evaluator_of(part, text) for part in nodes])
        case ast.IfExp(test=test_node, body=body_node, orelse=orelse_node):
            return _choice(evaluator_of(test_node, text), _Part.of(body_node, text), _Part.of(orelse_node, text))
        case ast.Tuple(elts=nodes) | ast.List(elts=nodes):
            elements = [evaluator_of(part, text) for part in nodes]
            kind = tuple if isinstance(node, ast.Tuple) else list
            return lambda values, mode: kind(element(values, mode) for element in elements)
        case ast.Dict(keys=keys, values=nodes):
            items = [(key.value, evaluator_of(part, text)) for key, part in zip(keys, nodes, strict=True)
                     if isinstance(key, ast.Constant)]
            return lambda values, mode: {key: item(values, mode) for key, item in items}
        case ast.Subscript(value=table_node, slice=index_node):
            return _look_up(evaluator_of(table_node, text), evaluator_of(index_node, text), text)
        case ast.Call(func=ast.Name(id=name), args=nodes):
            arguments = [evaluator_of(part, text) for part in nodes]
            return lambda values, mode: call(name, [argument(values, mode) for argument in arguments], mode)
    raise TypeError(type(node).__name__)  # pragma: no cover - an Expression has no other nodes


def _named(name: str, text: str) -> Evaluator:
    def evaluate(values: Mapping[str, Any], mode: int) -> Any:
        value = values.get(name)
        if value is None:
            raise UndefinedError(f"{name} is unknown in {text[:80]!r}")
        return value

    return evaluate


def _operation(symbol: str, left: Evaluator, right: Evaluator, text: str) -> Evaluator:
    """The evaluator of a binary operator; Python's own arithmetic on numbers takes a tenth of the time."""
    plain = PLAIN_OPERATORS.get(symbol)

    def evaluate(values: Mapping[str, Any], mode: int) -> Any:
        first, second = left(values, mode), right(values, mode)
        if not mode and plain is not None and second and type(first) in _NUMBERS and type(second) in _NUMBERS:
            return plain(first, second)
        return binary(symbol, first, second, text, mode)

    return evaluate


def _unary(operator: ast.unaryop, operand: Evaluator) -> Evaluator:
    if isinstance(operator, ast.Not):
        return lambda values, mode: (np.logical_not(_truth(operand(values, mode))) if mode
                                     else not operand(values, mode))
    if isinstance(operator, ast.USub):
        return lambda values, mode: -as_number(operand(values, mode))
    return lambda values, mode: +as_number(operand(values, mode))


class _Part(NamedTuple):
    """A part of an expression that Python evaluates only where a condition lets it."""

    evaluate: Evaluator
    names: frozenset[str]

    @classmethod
    def of(cls, node: ast.expr, text: str) -> _Part:
        names = frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        return cls(evaluator_of(node, text), names)

    def where(self, condition: Any, holds: bool, values: Mapping[str, Any], mode: int) -> Any:
        """The values over columns: all at once if that works, else where the condition `holds` or not, and 0 elsewhere.

        Raises one of UNLIKE.
        """
        try:
            return self.evaluate(values, mode)
        except UNLIKE:
            read = {name: values.get(name) for name in self.names}
            columns = {name: value for name, value in read.items() if isinstance(value, np.ndarray)}
            shape = np.broadcast_shapes(np.shape(condition), *(column.shape for column in columns.values()))
            rows = np.broadcast_to(_truth(condition) == holds, shape)
            value = self.evaluate({**read, **{name: np.broadcast_to(column, shape)[rows]
                                              for name, column in columns.items()}}, mode)
            whole = np.zeros(shape, np.asarray(value).dtype)
            whole[rows] = value
            return whole


def _chosen(truth: Any, first: Any, second: Any) -> Any:
    """The first value where the truth holds, else the second. Raises ExpressionError for tuples, words and numbers."""
    if is_word(first) != is_word(second) or isinstance(first, SERIES) or isinstance(second, SERIES):
        raise ExpressionError("values of different kinds")
    return np.where(truth, first, second)


def _truth(value: Any) -> Any:
    """A column or value as booleans. Raises ExpressionError for words, which NumPy would read."""
    if np.asarray(value).dtype.kind not in "bif" or isinstance(value, SERIES):
        raise ExpressionError("a column of words is no truth")
    return as_truth(value)


def _boolean(every: bool, parts: list[_Part]) -> Evaluator:
    def evaluate(values: Mapping[str, Any], mode: int) -> Any:
        if not mode:
            for part in parts:
                value = part.evaluate(values, mode)
                if bool(value) != every:
                    return value
            return value
        result: Any = np.asarray(parts[0].evaluate(values, mode))
        for part in parts[1:]:
            other = np.asarray(part.where(result, every, values, mode))
            if result.dtype == bool == other.dtype:
                result = np.logical_and(result, other) if every else np.logical_or(result, other)
            else:
                result = _chosen(_truth(result), *((other, result) if every else (result, other)))
        return result

    return evaluate


def _comparison(first: Evaluator, operators: list[ast.cmpop], others: list[Evaluator]) -> Evaluator:
    pairs = list(zip(operators, others, strict=True))

    def evaluate(values: Mapping[str, Any], mode: int) -> Any:
        verdict: Any = True
        current = first(values, mode)
        for number, (operator, other) in enumerate(pairs):
            following = other(values, mode)
            step = compare(operator, current, following)
            verdict = step if not number else np.logical_and(verdict, step) if mode else verdict and step
            if not mode and not verdict:
                return False
            current = following
        return verdict

    return evaluate


def _choice(test: Evaluator, body: _Part, orelse: _Part) -> Evaluator:
    def evaluate(values: Mapping[str, Any], mode: int) -> Any:
        condition = test(values, mode)
        if isinstance(condition, np.ndarray):
            return _chosen(_truth(condition), body.where(condition, True, values, mode),
                           orelse.where(condition, False, values, mode))
        return (body if condition else orelse).evaluate(values, mode)

    return evaluate


def _look_up(table: Evaluator, index: Evaluator, text: str) -> Evaluator:
    def evaluate(values: Mapping[str, Any], mode: int) -> Any:
        rows, key = table(values, mode), index(values, mode)
        try:
            if isinstance(key, np.ndarray):
                keys_used, inverse = np.unique(key, return_inverse=True)
                column = as_column([rows[key] for key in keys_used.tolist()])
                if column.dtype == object:
                    raise ExpressionError("a table of different kinds of values")
                return column[inverse]
            return rows[key]
        except KeyError as error:
            raise ExpressionError(f"{error} is not a key in {text[:80]!r}") from None

    return evaluate
