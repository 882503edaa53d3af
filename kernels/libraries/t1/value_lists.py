"""Value lists: the values of a T1 parameter, written as Python: `[1, 2]`, `list(range(1, 9))`, `[2**i for i in ...]`.

The texts are never executed: lists, ranges, sums of lists and comprehensions over them are computed here, and their
elements are expressions. `max(name)` and `ProblemSize[0]` in sizes are replaced by numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from seqtune.errors import ExpressionError, FormatError

from ...expression import Expression
from ...kernel import MOST_VALUES, Setting, is_setting, source_text

LONGEST_TEXT = 100_000  # characters
_EXTREME = re.compile(r"\b(max|min)\(\s*([A-Za-z_]\w*)\s*\)")
_PROBLEM_SIZE = re.compile(r"\bProblemSize\[\s*([0-2])\s*\]")


def value_list(text: str) -> list[Setting]:
    """The values in a text. Raises FormatError."""
    if len(text) > LONGEST_TEXT:
        raise FormatError(f"values of {len(text)} characters are too long")
    try:
        values = _elements(ast.parse(text.strip(), mode="eval").body, {})
    except (SyntaxError, ValueError, RecursionError, MemoryError, ExpressionError) as error:
        raise FormatError(f"cannot read the values {text!r:.60}: {str(error)[:80]}") from None
    return [parameter_value(value) for value in values]


def parameter_value(value: Any) -> Setting:
    """A value as parameters hold it. Raises FormatError."""
    if not is_setting(value):
        raise FormatError(f"{value!r:.40} cannot be a parameter's value")
    return value


def size_text(text: str, values: Mapping[str, Sequence[Setting]], problem: Sequence[int]) -> str:
    """An expression of a size with numbers in place of `max(parameter)` and `ProblemSize[axis]`. Raises FormatError."""
    def extreme(match: re.Match[str]) -> str:
        numbers = [value for value in values.get(match[2], ()) if not isinstance(value, str)]
        return source_text((max if match[1] == "max" else min)(numbers)) if numbers else match[0]

    def axis(match: re.Match[str]) -> str:
        if int(match[1]) >= len(problem):
            raise FormatError(f"{match[0]}: the problem has {len(problem)} axes")
        return str(problem[int(match[1])])

    return _PROBLEM_SIZE.sub(axis, _EXTREME.sub(extreme, text))


def _elements(node: ast.expr, names: Mapping[str, Any]) -> list[Any]:
    """The elements of a list, tuple, range, comprehension, or sum of such. Raises ExpressionError, FormatError."""
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            values = [_number(element, names) for element in elements]
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[argument], keywords=[]):
            return _elements(argument, names)
        case ast.Call(func=ast.Name(id="range"), args=arguments, keywords=[]) if 1 <= len(arguments) <= 3:
            numbers = [_number(argument, names) for argument in arguments]
            if not all(isinstance(number, int) for number in numbers) or (len(numbers) == 3 and numbers[2] == 0):
                raise FormatError(f"{ast.unparse(node)[:60]} is no range of whole numbers")
            values = list(range(*numbers)[:MOST_VALUES + 1])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            values = _elements(left, names) + _elements(right, names)
        case ast.ListComp(elt=element, generators=[ast.comprehension(target=ast.Name(id=name), iter=source, ifs=tests,
                                                                     is_async=0)]):
            inner = [{**names, name: value} for value in _elements(source, names)]
            values = [_number(element, each) for each in inner if all(_number(test, each) for test in tests)]
        case _:
            raise FormatError(f"{ast.unparse(node)[:60]} is no list of values")
    if len(values) > MOST_VALUES:
        raise FormatError(f"more than {MOST_VALUES} values")
    return values


def _number(node: ast.expr, names: Mapping[str, Any]) -> Any:
    return Expression(ast.unparse(node))(names)
