"""ProgramWriter: writes expressions of a kernel as instructions of a program (see `program_text`)."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.arithmetic import LARGEST_POWER
from seqtune.kernels.expression import Expression, members_of
from seqtune.kernels.kernel import Kernel, are_whole

from .program_text import LARGEST

MOST_INSTRUCTIONS = 20_000  # of one program; a foreign kernel's may need more, and is evaluated
_SYMBOLS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.FloorDiv: "floor", ast.Mod: "rest",
            ast.LShift: "left", ast.RShift: "right", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
_RELATIONS = {ast.Eq: ("equal", False), ast.NotEq: ("different", False), ast.Lt: ("less", False),
              ast.LtE: ("at_most", False), ast.Gt: ("less", True), ast.GtE: ("at_most", True)}  # True: turned round

_KINDS: dict[type, str] = {int: "whole", bool: "whole", float: "real", str: "word"}

Types = tuple[type, ...]  # of the values of the names of problem and device that a kernel reads


class Unwritable(Exception):
    """An expression has no program."""


@dataclass(frozen=True, slots=True)
class Value:
    """Where a program has a value; `is_truth` if it is a boolean."""

    register: int
    kind: str  # whole, real or word
    is_truth: bool = False


@dataclass
class Instructions:
    """Instructions in their order. Equal ones are written once."""

    lines: list[tuple[str, int, int, int]] = field(default_factory=list)  # operation and operands
    levels: list[int] = field(default_factory=list)  # the last column that the result depends on; -1: uniform
    known: dict[tuple[str, int, int, int], int] = field(default_factory=dict)

    def add(self, operation: str, *operands: int, level: int) -> int:
        """Add an instruction; return its number, which stands for its result."""
        first, second, third = (*operands, 0, 0, 0)[:3]
        line = operation, first, second, third
        if line not in self.known:
            if len(self.lines) >= MOST_INSTRUCTIONS:
                raise Unwritable
            self.known[line] = len(self.lines)
            self.lines.append(line)
            self.levels.append(level)
        return self.known[line]


class ProgramWriter:
    """Writes expressions of a kernel. Values that `given` holds come before the program's first instruction."""

    def __init__(self, kernel: Kernel, kinds: Mapping[str, str]) -> None:
        self.instructions = Instructions()
        # the uniform numbers that a program gets, names of problem and device and constants, by their kinds
        self.given: dict[tuple[str, Any, str], int] = {}
        self.pool: list[int] = []
        self.words: dict[str, int] = {"": 0}
        self._kinds = kinds
        self._nonzero: set[int] = set()  # registers of constants and parameters that are never 0
        self._names: dict[str, tuple[Value, Value | None]] = {}
        self._columns = {parameter.name: column for column, parameter in enumerate(kernel.parameters)}
        self._parameters, self._derived = kernel.by_name, dict(kernel.derived)
        self._writing: set[str] = set()
        # in the expression that is being written:
        self._plain = False  # whether it reads no columns
        self._reached: Value | None = None  # the rows that reach the present part; None: all
        self._defined: Value | None = None  # the rows in which no part before divides by zero; None: all

    def quantity(self, name: str) -> Value:
        """The value of a name. Where it divides by zero in a row, the program gives up."""
        value, defined = self._named(name)
        return value if defined is None else self._written("check", value.kind, defined, value)

    def condition(self, expression: Expression) -> Value:
        """Whether a constraint holds; it does not in a row where it divides by zero."""
        value, defined = self._expression(expression)
        return self._truth(value) if defined is None else self._boolean(True, [defined, self._truth(value)])

    def joined(self, conditions: Sequence[Value]) -> Value:
        """Whether all conditions hold, at least one."""
        return self._boolean(True, list(conditions))

    def _named(self, name: str) -> tuple[Value, Value | None]:
        """A parameter, a derived quantity, or a name of problem or device: its value, and where it is defined."""
        if name not in self._names:
            if name in self._columns:
                self._names[name] = self._parameter(name), None
            elif name in self._kinds:
                self._names[name] = self._known(("name", name), self._kinds[name]), None
            elif name in self._derived and name not in self._writing:
                self._writing.add(name)
                self._names[name] = self._expression(self._derived[name])
            else:
                raise Unwritable
        return self._names[name]

    def _expression(self, expression: Expression) -> tuple[Value, Value | None]:
        """The value of an expression, and where it is defined; None: everywhere."""
        plain = all(self.level(self._named(used)[0]) < 0 for used in expression.names)
        before = self._plain, self._reached, self._defined
        self._plain, self._reached, self._defined = plain, None, None
        value, defined = self.value(expression.tree), self._defined
        self._plain, self._reached, self._defined = before
        return value, defined

    def _where(self, reached: Value | None, node: ast.expr) -> Value:
        """Write a node that Python evaluates only in the rows where `reached` is true."""
        self._reached, before = reached, self._reached
        value = self.value(node)
        self._reached = before
        return value

    def _also(self, condition: Value) -> Value:
        """The rows that reach the present part and where the condition holds."""
        return condition if self._reached is None else self._boolean(True, [self._reached, condition])

    def _not(self, condition: Value) -> Value:
        return self._written("not", "whole", condition, is_truth=True)

    def _known(self, value: tuple[str, Any], kind: str) -> Value:
        """A uniform number that is known before: a name's, or a constant."""
        return Value(-1 - self.given.setdefault((*value, kind), len(self.given)), kind)

    def _parameter(self, name: str) -> Value:
        values = self._parameters[name].values
        words = [isinstance(value, str) for value in values]
        if (any(words) and not all(words)) or not are_whole(values):
            raise Unwritable  # a column of objects or fractions
        numbers = [self.words.setdefault(value, len(self.words)) if isinstance(value, str) else int(value)
                   for value in values]
        if any(abs(number) >= LARGEST for number in numbers):
            raise Unwritable
        self.pool += numbers
        column = self._columns[name]
        register = self.instructions.add("load", len(self.pool) - len(numbers), column, level=column)
        if all(numbers):
            self._nonzero.add(register)
        return Value(register, "word" if any(words) else "whole")

    def level(self, value: Value) -> int:
        """The last column that a value depends on; -1 if it is the same for all rows."""
        return self.instructions.levels[value.register] if value.register >= 0 else -1

    def _written(self, operation: str, kind: str, *operands: Value, is_truth: bool = False) -> Value:
        level = max(map(self.level, operands))
        return Value(self.instructions.add(operation, *(operand.register for operand in operands), level=level), kind,
                     is_truth)

    def value(self, node: ast.expr) -> Value:
        """Write a node."""
        match node:
            case ast.Constant(value=bool() as value):
                return Value(self._known(("constant", int(value)), "whole").register, "whole", True)
            case ast.Constant(value=int() | float() | str() as value):
                if isinstance(value, int) and abs(value) >= LARGEST:
                    raise Unwritable
                if isinstance(value, str):
                    self.words.setdefault(value, len(self.words))
                constant = self._known(("constant", value), kind_of(value))
                if value:
                    self._nonzero.add(constant.register)
                return constant
            case ast.Name(id=name):
                value_of_name, defined = self._named(name)
                if defined is not None:
                    self._define(defined)
                return value_of_name
            case ast.BinOp(left=ast.Constant(value=int() as base), op=ast.Pow(), right=ast.Constant(value=int() as by)):
                if not 0 <= by <= LARGEST_POWER or abs(base) ** by >= LARGEST:
                    raise Unwritable
                return self._known(("constant", int(base) ** int(by)), "whole")
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._not(self._truth(self.value(operand)))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._binary(ast.Sub(), self._known(("constant", 0), "whole"), self.value(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._binary(ast.Add(), self._known(("constant", 0), "whole"), self.value(operand))
            case ast.BoolOp(op=op, values=nodes):
                return self._guarded(isinstance(op, ast.And), nodes)
            case ast.Compare(left=left, ops=ops, comparators=others):
                nodes = [left, *others]
                verdicts = [self._compared(op, *pair) for op, *pair in zip(ops, nodes, others, strict=False)]
                return self._boolean(True, verdicts)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = self._truth(self.value(test))
                yes, no = self._alike(self._where(self._also(condition), body),
                                      self._where(self._also(self._not(condition)), orelse))
                return self._written("choose", yes.kind, condition, yes, no, is_truth=yes.is_truth and no.is_truth)
            case ast.Subscript(value=ast.Dict(keys=keys, values=values), slice=index):
                return self._looked_up(self.value(index), keys, values)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, [self.value(argument) for argument in arguments])
        raise Unwritable

    def _truth(self, value: Value) -> Value:
        if value.is_truth:
            return value
        if value.kind == "word":
            raise Unwritable
        return self._written("truth", "whole", value, is_truth=True)

    def _alike(self, *values: Value) -> list[Value]:
        """The values as values of one kind."""
        kinds = {value.kind for value in values}
        if len(kinds) == 1:
            return list(values)
        if "word" in kinds:
            raise Unwritable
        return [replace(value, kind="real", is_truth=False) for value in values]

    def _guarded(self, every: bool, nodes: Sequence[ast.expr]) -> Value:
        """`and` or `or`: the values before a part decide which rows reach it."""
        result = self.value(nodes[0])
        for node in nodes[1:]:
            truth = self._truth(result)
            other = self._where(self._also(truth if every else self._not(truth)), node)
            result = self._boolean(every, [result, other])
        return result

    def _boolean(self, every: bool, values: list[Value]) -> Value:
        result = values[0]
        for other in values[1:]:
            if result.is_truth and other.is_truth:
                result = self._written("minimum" if every else "maximum", "whole", result, other, is_truth=True)
            else:
                before, after = self._alike(result, other)
                result = self._written("choose", before.kind, self._truth(before),
                                       *((after, before) if every else (before, after)))
        return result

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        if "word" in (left.kind, right.kind):
            raise Unwritable
        if isinstance(op, ast.Div):
            return self._written("divide", "real", left, self._divisor(right))
        left, right = self._alike(left, right)
        operation = _SYMBOLS.get(type(op))
        if operation is None or (left.kind == "real" and operation not in ("add", "subtract", "multiply")):
            raise Unwritable
        if operation in ("floor", "rest"):
            right = self._divisor(right)
        return self._written(f"{operation}_real" if left.kind == "real" else operation, left.kind, left, right)

    def _divisor(self, value: Value) -> Value:
        """The value as a divisor. By zero, numbers alone cannot be divided; a row is undefined, and its quotient 0."""
        if self._plain:
            return self._required(self._truth(value), value)
        if value.register not in self._nonzero:
            self._define(self._truth(value))
        return value

    def _needed(self, condition: Value) -> Value:
        """Whether a condition holds in the rows that are reached."""
        return condition if self._reached is None else self._boolean(False, [condition, self._not(self._reached)])

    def _define(self, condition: Value) -> None:
        """Let the expression be defined only where the condition holds."""
        needed = self._needed(condition)
        self._defined = needed if self._defined is None else self._boolean(True, [self._defined, needed])

    def _required(self, condition: Value, value: Value) -> Value:
        """The value, for which a condition must hold in every row that is reached: else the program gives up."""
        return self._written("check", value.kind, self._needed(condition), value)

    def _compared(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> Value:
        if isinstance(op, ast.In | ast.NotIn):
            return self._contained(self.value(left), right, isinstance(op, ast.In))
        operation, turned = _RELATIONS[type(op)]
        first, second = self._alike(self.value(left), self.value(right))
        if first.kind == "word" and operation not in ("equal", "different"):
            raise Unwritable
        if turned:
            first, second = second, first
        return self._written(operation, "whole", first, second, is_truth=True)

    def _contained(self, value: Value, listed: ast.expr, wanted: bool) -> Value:
        members = members_of(listed)
        if not members:
            raise Unwritable
        result = self._boolean(False, [self._equal(value, self.value(member)) for member in members])
        return result if wanted else self._written("not", "whole", result, is_truth=True)

    def _equal(self, left: Value, right: Value) -> Value:
        return self._written("equal", "whole", *self._alike(left, right), is_truth=True)

    def _looked_up(self, index: Value, keys: Sequence[ast.expr | None], nodes: Sequence[ast.expr]) -> Value:
        values = self._alike(*map(self.value, nodes))
        rows = {ast.dump(key): (key, value) for key, value in zip(keys, values, strict=True) if key is not None}
        if not rows:
            raise Unwritable
        equal = [self._equal(index, self.value(key)) for key, _ in rows.values()]
        result = values[-1]
        for condition, (_, value) in zip(equal, rows.values(), strict=True):
            result = self._written("choose", value.kind, condition, value, result)
        return self._required(self._boolean(False, equal), result)

    def _call(self, name: str, arguments: list[Value]) -> Value:
        if name in ("min", "max"):
            result = arguments[0]
            operation = {"min": "minimum", "max": "maximum"}[name]
            for other in arguments[1:]:
                first, second = self._alike(result, other)
                if first.kind == "word":
                    raise Unwritable
                result = self._written(operation, first.kind, first, second)
            return result
        if any(argument.kind != "whole" for argument in arguments):
            raise Unwritable
        if name == "gcd":
            return self._written("gcd", "whole", *arguments)
        if name not in ("ceil_div", "round_up"):
            raise Unwritable
        left, right = arguments
        one = self._known(("constant", 1), "whole")
        increased = self._written("subtract", "whole", self._written("add", "whole", left, right), one)
        blocks = self._written("floor", "whole", increased, self._divisor(right))
        return blocks if name == "ceil_div" else self._written("multiply", "whole", blocks, right)

    def inputs(self) -> Inputs:
        """What the instructions read of problem and device, when all of them are written."""
        return Inputs(tuple(self.given), self.words)


class Inputs:
    """The uniform numbers that programs of a kernel begin with: names of problem and device, and constants.

    `given` has "name" and a name, or "constant" and its value, and the kind of each; `words` the numbers of words.
    """

    def __init__(self, given: tuple[tuple[str, Any, str], ...], words: Mapping[str, int]) -> None:
        self._words = words
        self._constants = np.array([0 if source == "name" else words[value] if kind == "word" else value
                                    for source, value, kind in given], np.float64)
        named = [(index, value, kind) for index, (source, value, kind) in enumerate(given) if source == "name"]
        self._numbers = [(index, name) for index, name, kind in named if kind != "word"]
        self._places = np.array([index for index, _ in self._numbers], np.int64)
        self._wholes = np.array([index for index, _, kind in named if kind == "whole"], np.int64)
        self._named_words = [(index, name) for index, name, kind in named if kind == "word"]

    def numbers(self, names: Mapping[str, Any]) -> NDArray[np.float64] | None:
        """The numbers, given the values of names; None if one is too large."""
        numbers = self._constants.copy()
        try:
            numbers[self._places] = [names[name] for _, name in self._numbers]
        except OverflowError:
            return None
        if np.abs(numbers[self._wholes]).max(initial=0) >= LARGEST:
            return None
        strange: dict[str, int] = {}  # words that no expression contains
        for index, name in self._named_words:
            word = names[name]
            numbers[index] = self._words[word] if word in self._words else strange.setdefault(word, -1 - len(strange))
        return numbers


def kind_of(value: object) -> str:
    """The kind of a constant."""
    return _KINDS[type(value)]


def kinds(names: Sequence[str], types: Sequence[type]) -> dict[str, str]:
    """The kinds of names of problem and device, given the types of their values; those of other types are unknown."""
    return {name: _KINDS[kind] for name, kind in zip(names, types, strict=True) if kind in _KINDS}
