"""CExpression: the text of an `Expression` in C, with the types and the arithmetic of Python.

Whole numbers are `int64_t`. An expression whose numbers may leave 64 bits is written twice: with arithmetic that
notices it, and in floating point, which then counts. Words are numbers of a table that the whole file shares.
A division by zero sets `s->undefined`, unless the divisor is never 0; then no condition holds, as in Python.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from seqtune.errors import ExpressionError
from seqtune.kernels.arithmetic import LARGEST_POWER
from seqtune.kernels.expression import SAFE_BOUND, Expression, members_of

TEXT_LIMIT = 200_000  # characters of one expression in C; chained comparisons repeat their middle

_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_SMALL, _DIGITS = re.compile(r"INT64_C\((\d{1,9})\)"), r"\1"  # what needs no type
_UNDEFINED = "&s->undefined"
_CHECKED = {ast.Add: "sq_add", ast.Sub: "sq_sub", ast.Mult: "sq_mul"}


@dataclass
class Words:
    """The numbers of all words that expressions and problems contain; any other word is -1."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, word: str) -> int:
        """The number of a word, which is added if it is new."""
        return self.numbers.setdefault(word, len(self.numbers))


@dataclass(frozen=True)
class CName:
    """A named value in C."""

    text: str  # of the value: an int64_t (also for booleans and words) or a double
    kind: str  # "i" whole number, "d" number, "w" word
    bound: float = 0.0  # of a whole number's magnitude
    wide: str = ""  # text of the same value as a double, if it may exceed 64 bits
    over: str = ""  # text of a condition: it does exceed them
    never_zero: bool = False
    defined: str = ""  # text of a condition: it has a value; empty if it has one in any case


Names = Mapping[str, CName]


@dataclass(frozen=True)
class CExpression:
    """An expression in C."""

    text: str  # an int64_t or double; it may set `s->over` and `s->undefined`
    kind: str
    wide: str = ""  # the same in floating point; empty if 64 bits always suffice
    bound: float = 0.0

    @property
    def undefinable(self) -> bool:
        """Whether there may be no value, since a divisor is 0."""
        return _UNDEFINED in self.text

    @classmethod
    def of(cls, expression: Expression, names: Names, words: Words, most: float = math.inf) -> CExpression:
        """Write an expression over these names. Raises ExpressionError if C has no such expression.

        `most` is a bound of the whole numbers that it computes, where the caller knows a better one.
        """
        tree = ast.parse(expression.text, mode="eval").body
        bound = min(most, expression.bound({name: names[name].bound for name in expression.names if name in names}))
        safe = bound < SAFE_BOUND and not any(names[name].wide for name in expression.names if name in names)
        text, kind = _Writer(expression.text, names, words, "plain" if safe else "checked").value(tree)
        wide = "" if safe else _Writer(expression.text, names, words, "wide").value(tree)[0]
        if max(len(text), len(wide)) > TEXT_LIMIT:
            raise ExpressionError(f"{expression.text[:60]!r} is too long in C; write it without chained comparisons")
        return cls(text, kind, wide, bound)


class _Writer:
    """Writes nodes as C; the mode is `plain` (64 bits suffice), `checked` or `wide` (floating point)."""

    def __init__(self, text: str, names: Names, words: Words, mode: str) -> None:
        self._text, self._names, self._words, self._mode = text, names, words, mode

    def value(self, node: ast.expr) -> tuple[str, str]:
        """The text and the kind of a node."""
        match node:
            case ast.Constant(value=value):
                return self._constant(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right), right)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!{self._truth(operand)})", "i"
            case ast.UnaryOp(op=op1, operand=operand):
                text, kind = self._number(operand)
                return (f"(-{text})" if isinstance(op1, ast.USub) else text), kind
            case ast.BoolOp(op=op2, values=values):
                return self._boolean(isinstance(op2, ast.And), values)
            case ast.Compare(left=left, ops=ops, comparators=others):
                pairs = zip([left, *others], ops, others, strict=False)
                return f"({' && '.join(self._compared(one, op3, other) for one, op3, other in pairs)})", "i"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                (yes, no), kind = self._alike([self.value(body), self.value(orelse)])
                return f"({self._truth(test)} ? {yes} : {no})", kind
            case ast.Subscript(value=ast.Dict(keys=keys, values=values), slice=index):
                return self._looked_up(keys, values, index)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, arguments)
        raise self._refusal(f"a {type(node).__name__.lower()} as a value")

    def _refusal(self, what: str) -> ExpressionError:
        return ExpressionError(f"C has no form of {what} in the expression {self._text[:80]!r}")

    def _constant(self, value: object) -> tuple[str, str]:
        if isinstance(value, str):
            return str(self._words.number(value)), "w"
        if isinstance(value, bool):
            value = int(value)
        if isinstance(value, int):
            return (f"{value}.0", "i") if self._mode == "wide" else (f"INT64_C({value})", "i")
        assert isinstance(value, float)
        if not math.isfinite(value):
            raise self._refusal("a number that is not finite")
        return repr(float(value)), "d"

    def _name(self, name: str) -> tuple[str, str]:
        if name not in self._names:
            raise ExpressionError(f"{name} is unknown in {self._text[:80]!r}")
        known = self._names[name]
        text, kind = self._known(known)
        if not known.defined:
            return text, kind
        suffix = "d" if kind == "d" or (kind == "i" and self._mode == "wide") else "i"
        return f"sq_defined_{suffix}({text}, {known.defined}, {_UNDEFINED})", kind

    def _known(self, known: CName) -> tuple[str, str]:
        """The text and the kind of a named value that is defined."""
        if known.kind != "i" or self._mode == "plain":
            return known.text, known.kind
        if self._mode == "wide":
            return known.wide or f"(double)({known.text})", "i"
        return (f"sq_known({known.text}, {known.over}, &s->over)" if known.wide else known.text), "i"

    def _number(self, node: ast.expr) -> tuple[str, str]:
        text, kind = self.value(node)
        if kind == "w":
            raise self._refusal("arithmetic on words")
        return text, kind

    def _truth(self, node: ast.expr) -> str:
        if isinstance(node, ast.BoolOp):
            operator = " && " if isinstance(node.op, ast.And) else " || "
            return f"({operator.join(map(self._truth, node.values))})"
        text, kind = self.value(node)
        if kind == "w":  # the empty word is false
            return f"({text} != {self._words.number('')})"
        return f"({text} != 0)"

    def _alike(self, values: list[tuple[str, str]]) -> tuple[list[str], str]:
        """The texts of several values as values of one kind."""
        kinds = {kind for _, kind in values}
        if kinds == {"i", "d"}:
            return [text if kind == "d" else f"(double)({text})" for text, kind in values], "d"
        if len(kinds) > 1:
            raise self._refusal("a value that may be a word or a number")
        return [text for text, _ in values], kinds.pop()

    def _boolean(self, every: bool, nodes: list[ast.expr]) -> tuple[str, str]:
        values = [self.value(node) for node in nodes]
        if all(map(is_condition, nodes)):
            return f"({(' && ' if every else ' || ').join(text for text, _ in values)})", "i"
        texts, kind = self._alike(values)
        empty = self._words.number("") if kind == "w" else 0
        result = texts[-1]
        for text in reversed(texts[:-1]):
            if _UNDEFINED in result:  # as in Python, it counts only where it is evaluated
                result = f"({text} == {empty} ? {text} : {result})" if every else \
                    f"({text} == {empty} ? {result} : {text})"
                continue
            result = f"sq_{'and' if every else 'or'}_{'d' if kind == 'd' else 'i'}({text}, {result}, {empty})" \
                if self._mode != "wide" or kind == "w" else f"sq_{'and' if every else 'or'}_d({text}, {result}, 0)"
        return result, kind

    def _binary(self, op: ast.operator, left: tuple[str, str], right: tuple[str, str],
                exponent: ast.expr) -> tuple[str, str]:
        if "w" in (left[1], right[1]):
            raise self._refusal("arithmetic on words")
        whole, kind = left[1] == right[1] == "i", "i" if left[1] == right[1] == "i" else "d"
        exact = whole and self._mode != "wide"
        match op:
            case ast.Add() | ast.Sub() | ast.Mult():
                if exact and self._mode == "checked":
                    return f"{_CHECKED[type(op)]}({left[0]}, {right[0]}, &s->over)", "i"
                first, second = (left[0], right[0]) if exact else (f"(double){left[0]}", f"(double){right[0]}")
                return f"({first} {_SYMBOLS[type(op)]} {second})", kind
            case ast.Div():
                return f"sq_quotient((double){left[0]}, {self._divisor(f'(double){right[0]}', 'd', exponent)})", "d"
            case ast.FloorDiv() | ast.Mod():
                name = "sq_floor" if isinstance(op, ast.FloorDiv) else "sq_rest"
                suffix = "i" if exact else "d"
                return f"{name}_{suffix}({left[0]}, {self._divisor(right[0], suffix, exponent)})", kind
            case ast.Pow():
                if exact and isinstance(exponent, ast.Constant) and isinstance(exponent.value, int) \
                        and 0 <= exponent.value <= LARGEST_POWER:
                    return f"sq_power_i({left[0]}, {exponent.value}, &s->over)", "i"
                if isinstance(exponent, ast.Constant):  # a constant is not negative
                    power = f"sq_power_d((double){left[0]}, (double){right[0]})"
                    return power, "i" if whole and isinstance(exponent.value, int) else "d"
                return f"sq_power_z((double){left[0]}, (double){right[0]}, {_UNDEFINED})", "d"
            case ast.LShift() | ast.RShift() if whole:
                name = "sq_left" if isinstance(op, ast.LShift) else "sq_right"
                if exact:
                    return f"{name}_i({left[0]}, {right[0]}, &s->{'over' if name == 'sq_left' else 'fault'})", "i"
                return f"{name}_d({left[0]}, {right[0]})", "i"
            case ast.BitAnd() | ast.BitOr() | ast.BitXor() if exact:
                return f"({left[0]} {_SYMBOLS[type(op)]} {right[0]})", "i"
            case ast.BitAnd() | ast.BitOr() | ast.BitXor() if whole:
                return f"(double)((int64_t){left[0]} {_SYMBOLS[type(op)]} (int64_t){right[0]})", "i"
        raise self._refusal(f"{type(op).__name__} of numbers that are not whole")

    def _divisor(self, text: str, suffix: str, node: ast.expr) -> str:
        """The text of a divisor, which notices that it is 0 where it may be."""
        return text if self._never_zero(node) else f"sq_divisor_{suffix}({text}, {_UNDEFINED})"

    def _never_zero(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant(value=value):
                return value != 0
            case ast.Name(id=name):
                return self._names[name].never_zero
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self._never_zero(operand)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._never_zero(left) and self._never_zero(right)
            case ast.Call(func=ast.Name(id="max"), args=arguments) if any(
                    isinstance(one, ast.Constant) and one.value > 0 for one in arguments):  # type: ignore[operator]
                return True
            case ast.Call(func=ast.Name(id="min" | "max" | "abs"), args=arguments):
                return all(map(self._never_zero, arguments))
        return False

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
        if isinstance(op, ast.In | ast.NotIn):
            return self._contained(left, right, isinstance(op, ast.In))
        (first, kind), (second, other) = self.value(left), self.value(right)
        equality = isinstance(op, ast.Eq | ast.NotEq)
        if "w" in (kind, other) and not (kind == other and equality):
            if not equality:
                raise self._refusal("an order of words")
            return _after([first, second], "0" if isinstance(op, ast.Eq) else "1")  # a word never equals a number
        return f"({first} {_SYMBOLS[type(op)]} {_SMALL.sub(_DIGITS, second)})"

    def _contained(self, left: ast.expr, right: ast.expr, wanted: bool) -> str:
        members = members_of(right)
        if members is None:
            raise self._refusal("`in` without a list of values")
        text = " || ".join(self._compared(left, ast.Eq(), member) for member in members) or "0"
        text = _after([self.value(one)[0] for one in (left, *members)], f"({text})")
        return text if wanted else f"(!{text})"

    def _looked_up(self, keys: list[ast.expr | None], nodes: list[ast.expr], index: ast.expr) -> tuple[str, str]:
        texts, kind = self._alike([self.value(node) for node in nodes])
        missing = "sq_missing_d(&s->fault)" if kind == "d" or (kind == "i" and self._mode == "wide") else \
            "sq_missing_i(&s->fault)"
        result = missing
        for key, text in zip(keys, texts, strict=True):  # a key given twice, as 1 and 1.0, has its last value
            assert key is not None
            result = f"({self._compared(index, ast.Eq(), key)} ? {text} : {result})"
        return _after(texts, result), kind

    def _call(self, name: str, arguments: list[ast.expr]) -> tuple[str, str]:
        if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
            arguments = arguments[0].elts
        values = [self._number(argument) for argument in arguments]
        if not values:
            raise self._refusal(f"{name} of no values")
        texts, kind = self._alike(values)
        suffix = "d" if kind == "d" or self._mode == "wide" else "i"
        if name in ("gcd", "lcm") and kind == "d":
            raise self._refusal(f"{name} of numbers that are not whole")
        if name == "abs":
            return f"sq_abs_{suffix}({texts[0]})", kind
        if name in ("min", "max"):
            return _nested(f"sq_{name}_{suffix}", texts), kind
        if name in ("ceil_div", "round_up"):
            texts[1] = self._divisor(texts[1], suffix, arguments[1])
        if suffix == "i" and name != "gcd" and self._mode == "checked":
            return f"sq_{name}_c({texts[0]}, {texts[1]}, &s->over)", kind
        return f"sq_{name}_{suffix}({texts[0]}, {texts[1]})", kind


def is_condition(node: ast.expr) -> bool:
    """Whether the value of a node is true or false in any case, and no other number or word."""
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.BoolOp(values=values):
            return all(map(is_condition, values))
    return False


def _after(texts: Iterable[str], result: str) -> str:
    """The result after all texts that may be undefined: as in Python, these count even where the result needs none."""
    evaluated = [f"(void){text}" for text in texts if _UNDEFINED in text]
    return f"({', '.join([*evaluated, result])})" if evaluated else result


def _nested(function: str, texts: list[str]) -> str:
    """The function of two values over several ones, from the left."""
    result = texts[0]
    for text in texts[1:]:
        result = f"{function}({result}, {text})"
    return result
