"""Program: derived quantities of a kernel as a program over rows of a space (see `program_text`).

A program gives the numbers that the kernel's expressions give over columns, to the last bit, or nothing: where an
expression has no such program, or its numbers leave what is exact in any order of types, the caller evaluates it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.row_index import Numbers, Rows

from ..compiled import Functions, compiled
from .program_text import BLOCK, LARGEST, OPERATIONS, SIGNATURES, operands_of, program_text

MOST_INSTRUCTIONS = 20_000  # of one program; a foreign kernel's may need more, and is evaluated
_CODES = {name: number for number, name in enumerate(OPERATIONS)}
_SYMBOLS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.FloorDiv: "floor", ast.Mod: "rest",
            ast.LShift: "left", ast.RShift: "right", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
_RELATIONS = {ast.Eq: ("equal", False), ast.NotEq: ("different", False), ast.Lt: ("less", False),
              ast.LtE: ("at_most", False), ast.Gt: ("less", True), ast.GtE: ("at_most", True)}  # True: turned round

Kinds = tuple[tuple[str, str], ...]  # of the names of problem and device: whole, real or word


class _Unwritable(Exception):
    """An expression has no program."""


@dataclass(frozen=True, slots=True)
class _Value:
    """Where a program has a value; `is_truth` if it is a boolean."""

    register: int
    kind: str  # whole, real or word
    is_truth: bool = False


@dataclass
class _Instructions:
    """Instructions in their order. Equal ones are written once."""

    lines: list[tuple[str, int, int, int]] = field(default_factory=list)  # operation and operands
    uniform: list[bool] = field(default_factory=list)  # whether the result is the same for all rows
    known: dict[tuple[str, int, int, int], int] = field(default_factory=dict)

    def add(self, operation: str, *operands: int, uniform: bool = False) -> int:
        """Add an instruction; return its number, which stands for its result."""
        first, second, third = (*operands, 0, 0, 0)[:3]
        line = operation, first, second, third
        if line not in self.known:
            if len(self.lines) >= MOST_INSTRUCTIONS:
                raise _Unwritable
            self.known[line] = len(self.lines)
            self.lines.append(line)
            self.uniform.append(uniform)
        return self.known[line]


class _Writer:
    """Writes expressions of a kernel. Values that `given` holds come before the program's first instruction."""

    def __init__(self, kernel: Kernel, kinds: Mapping[str, str]) -> None:
        self.instructions = _Instructions()
        self.given: list[Any] = []  # the uniform numbers that a program gets: names of problem and device, constants
        self.pool: list[int] = []
        self.words: dict[str, int] = {"": 0}
        self._kinds = kinds
        self._names: dict[str, _Value] = {}
        self._columns = {parameter.name: column for column, parameter in enumerate(kernel.parameters)}
        self._parameters, self._derived = kernel.by_name, dict(kernel.derived)
        self._writing: set[str] = set()
        self._plain = False  # whether the expression that is being written reads no columns

    def name(self, name: str) -> _Value:
        """The value of a parameter, a derived quantity, or a name of problem or device."""
        if name not in self._names:
            if name in self._columns:
                self._names[name] = self._parameter(name)
            elif name in self._derived and name not in self._writing:
                self._writing.add(name)
                expression = self._derived[name]
                plain = all(self._is_uniform(self.name(used)) for used in expression.names)
                self._plain, before = plain, self._plain
                self._names[name] = self.value(_tree(expression.text))
                self._plain = before
            elif name in self._kinds:
                self._names[name] = self._known(("name", name), self._kinds[name])
            else:
                raise _Unwritable
        return self._names[name]

    def _known(self, value: tuple[str, Any], kind: str) -> _Value:
        """A uniform number that is known before: a name's, or a constant."""
        key = (*value, kind)
        if key not in self.given:
            self.given.append(key)
        return _Value(-1 - self.given.index(key), kind)

    def _parameter(self, name: str) -> _Value:
        values = self._parameters[name].values
        words = [isinstance(value, str) for value in values]
        if any(words) and not all(words):
            raise _Unwritable  # a column of objects
        numbers = [self.words.setdefault(value, len(self.words)) if isinstance(value, str) else value
                   for value in values]
        if any(abs(number) >= LARGEST for number in numbers):
            raise _Unwritable
        self.pool += numbers
        return _Value(self.instructions.add("load", len(self.pool) - len(numbers), self._columns[name]),
                      "word" if any(words) else "whole")

    def _is_uniform(self, value: _Value) -> bool:
        return value.register < 0 or self.instructions.uniform[value.register]

    def _written(self, operation: str, kind: str, *operands: _Value, is_truth: bool = False) -> _Value:
        uniform = all(map(self._is_uniform, operands))
        return _Value(self.instructions.add(operation, *(operand.register for operand in operands), uniform=uniform),
                      kind, is_truth)

    def value(self, node: ast.expr) -> _Value:
        """Write a node."""
        match node:
            case ast.Constant(value=bool() as value):
                return _Value(self._known(("constant", int(value)), "whole").register, "whole", True)
            case ast.Constant(value=int() | float() | str() as value):
                if isinstance(value, int) and abs(value) >= LARGEST:
                    raise _Unwritable
                return self._known(("constant", value), _kind(value))
            case ast.Name(id=name):
                return self.name(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._written("not", "whole", self._truth(self.value(operand)), is_truth=True)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._binary(ast.Sub(), self._known(("constant", 0), "whole"), self.value(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._binary(ast.Add(), self._known(("constant", 0), "whole"), self.value(operand))
            case ast.BoolOp(op=op, values=nodes):
                return self._boolean(isinstance(op, ast.And), [self.value(part) for part in nodes])
            case ast.Compare(left=left, ops=ops, comparators=others):
                nodes = [left, *others]
                verdicts = [self._compared(op, *pair) for op, *pair in zip(ops, nodes, others, strict=False)]
                return self._boolean(True, verdicts)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                yes, no = self._alike(self.value(body), self.value(orelse))
                return self._written("choose", yes.kind, self._truth(self.value(test)), yes, no,
                                     is_truth=yes.is_truth and no.is_truth)
            case ast.Subscript(value=ast.Dict(keys=keys, values=values), slice=index):
                return self._looked_up(self.value(index), keys, values)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, [self.value(argument) for argument in arguments])
        raise _Unwritable

    def _truth(self, value: _Value) -> _Value:
        if value.is_truth:
            return value
        if value.kind == "word":
            raise _Unwritable
        return self._written("truth", "whole", value, is_truth=True)

    def _alike(self, *values: _Value) -> list[_Value]:
        """The values as values of one kind."""
        kinds = {value.kind for value in values}
        if len(kinds) == 1:
            return list(values)
        if "word" in kinds:
            raise _Unwritable
        return [replace(value, kind="real", is_truth=False) for value in values]

    def _boolean(self, every: bool, values: list[_Value]) -> _Value:
        result = values[0]
        for other in values[1:]:
            if result.is_truth and other.is_truth:
                result = self._written("minimum" if every else "maximum", "whole", result, other, is_truth=True)
            else:
                before, after = self._alike(result, other)
                result = self._written("choose", before.kind, self._truth(before),
                                       *((after, before) if every else (before, after)))
        return result

    def _binary(self, op: ast.operator, left: _Value, right: _Value) -> _Value:
        if "word" in (left.kind, right.kind):
            raise _Unwritable
        if isinstance(op, ast.Div):
            return self._written("divide", "real", left, self._divisor(right))
        left, right = self._alike(left, right)
        operation = _SYMBOLS.get(type(op))
        if operation is None or (left.kind == "real" and operation not in ("add", "subtract", "multiply")):
            raise _Unwritable
        if operation in ("floor", "rest"):
            right = self._divisor(right)
        return self._written(f"{operation}_real" if left.kind == "real" else operation, left.kind, left, right)

    def _divisor(self, value: _Value) -> _Value:
        """The value as a divisor. By zero, numbers alone cannot be divided; in columns the quotient is 0."""
        return self._written("check", value.kind, self._truth(value), value) if self._plain else value

    def _compared(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> _Value:
        if isinstance(op, ast.In | ast.NotIn):
            return self._contained(self.value(left), right, isinstance(op, ast.In))
        operation, turned = _RELATIONS[type(op)]
        first, second = self._alike(self.value(left), self.value(right))
        if first.kind == "word" and operation not in ("equal", "different"):
            raise _Unwritable
        if turned:
            first, second = second, first
        return self._written(operation, "whole", first, second, is_truth=True)

    def _contained(self, value: _Value, listed: ast.expr, wanted: bool) -> _Value:
        match listed:
            case ast.Tuple(elts=nodes) | ast.List(elts=nodes):
                members: Sequence[ast.expr] = nodes
            case ast.Dict(keys=keys):
                members = [key for key in keys if key is not None]
            case _:
                raise _Unwritable
        if not members:
            raise _Unwritable
        result = self._boolean(False, [self._equal(value, self.value(member)) for member in members])
        return result if wanted else self._written("not", "whole", result, is_truth=True)

    def _equal(self, left: _Value, right: _Value) -> _Value:
        return self._written("equal", "whole", *self._alike(left, right), is_truth=True)

    def _looked_up(self, index: _Value, keys: Sequence[ast.expr | None], nodes: Sequence[ast.expr]) -> _Value:
        values = self._alike(*map(self.value, nodes))
        rows = {ast.dump(key): (key, value) for key, value in zip(keys, values, strict=True) if key is not None}
        if not rows:
            raise _Unwritable
        equal = [self._equal(index, self.value(key)) for key, _ in rows.values()]
        result = values[-1]
        for condition, (_, value) in zip(equal, rows.values(), strict=True):
            result = self._written("choose", value.kind, condition, value, result)
        return self._written("check", result.kind, self._boolean(False, equal), result)

    def _call(self, name: str, arguments: list[_Value]) -> _Value:
        if name in ("min", "max"):
            result = arguments[0]
            operation = {"min": "minimum", "max": "maximum"}[name]
            for other in arguments[1:]:
                first, second = self._alike(result, other)
                if first.kind == "word":
                    raise _Unwritable
                result = self._written(operation, first.kind, first, second)
            return result
        if any(argument.kind != "whole" for argument in arguments):
            raise _Unwritable
        if name == "gcd":
            return self._written("gcd", "whole", *arguments)
        if name not in ("ceil_div", "round_up"):
            raise _Unwritable
        left, right = arguments
        one = self._known(("constant", 1), "whole")
        increased = self._written("subtract", "whole", self._written("add", "whole", left, right), one)
        blocks = self._written("floor", "whole", increased, self._divisor(right))
        return blocks if name == "ceil_div" else self._written("multiply", "whole", blocks, right)


def _kind(value: object) -> str:
    return "word" if isinstance(value, str) else "real" if isinstance(value, float) else "whole"


@lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@dataclass(frozen=True, eq=False)
class _Part:
    """The program of some quantities."""

    names: tuple[str, ...]  # of those that are numbers
    code: NDArray[np.int64]  # (instruction, 5)
    arguments: tuple[int, int, int]  # the address of the code, and the ends of its parts
    registers: int  # numbers that all registers need

    @classmethod
    def of(cls, writer: _Writer, written: Mapping[str, _Value]) -> _Part:
        """The instructions of a writer that make these values."""
        values = {name: value for name, value in written.items() if value.kind != "word"}
        instructions, given = writer.instructions, len(writer.given)
        needed: set[int] = set()
        waiting = [value.register for value in values.values()]
        while waiting:
            number = waiting.pop()
            if number >= 0 and number not in needed:
                needed.add(number)
                operation, *operands = instructions.lines[number]
                waiting += operands[:operands_of(operation)]
        ordered = sorted(needed, key=lambda number: (not instructions.uniform[number], number))
        register = {number: given + index for index, number in enumerate(ordered)}

        def place(value: int) -> int:
            """The register of a result, or of a given number."""
            return register[value] if value >= 0 else -1 - value

        lines = []
        for number in ordered:
            operation, *operands = instructions.lines[number]
            used = operands_of(operation)
            lines.append([_CODES[operation], register[number], *map(place, operands[:used]), *operands[used:]])
        lines += [[_CODES["store"], 0, place(value.register), column, 0]
                  for column, value in enumerate(values.values())]
        code = np.array(lines, np.int64).reshape(-1, 5)
        uniform = sum(instructions.uniform[number] for number in ordered)
        return cls(tuple(values), code, (code.ctypes.data, uniform, len(code)), BLOCK * (given + len(ordered)))


class KernelProgram:
    """The programs of sets of a kernel's derived quantities, for kinds of the names of problem and device."""

    def __init__(self, kernel: Kernel, kinds: Kinds, wanted: Sequence[tuple[str, ...]]) -> None:
        writer, written = _Writer(kernel, dict(kinds)), {}
        for names in wanted:
            with suppress(_Unwritable, RecursionError):  # the others have programs nevertheless
                written[names] = {name: writer.name(name) for name in names}
        self._parts = {names: _Part.of(writer, values) for names, values in written.items()}
        self._words, self._given = writer.words, tuple(writer.given)
        self._pool = np.array([*writer.pool, 0], np.float64)

    def names(self, wanted: tuple[str, ...]) -> tuple[str, ...] | None:
        """The names of the quantities among the wanted ones that are numbers; None if they have no program."""
        part = self._parts.get(wanted)
        return None if part is None else part.names

    def inputs(self, names: Mapping[str, Any]) -> NDArray[np.float64] | None:
        """What programs read of the names of problem and device, as numbers; None if one is too large."""
        strange: dict[str, int] = {}  # words that no expression contains
        numbers = []
        for source, value, kind in self._given:
            known = names[value] if source == "name" else value
            if kind == "word":
                known = self._words[known] if known in self._words else strange.setdefault(known, -1 - len(strange))
            elif kind == "whole" and abs(known) >= LARGEST:
                return None
            numbers.append(known)
        return np.array(numbers, np.float64)

    def run(self, wanted: tuple[str, ...], inputs: NDArray[np.float64], table: Rows,
            rows: Numbers) -> NDArray[np.float64] | None:
        """The quantities (quantity, row) in rows of a table of value indices; None where they must be evaluated."""
        part = self._parts[wanted]
        registers = np.empty(part.registers)
        values, fault = np.empty((len(part.names), len(rows))), np.zeros(1, np.int64)
        rows = np.ascontiguousarray(rows, np.int64)
        _functions()["run"](*part.arguments, inputs.ctypes.data, len(inputs), registers.ctypes.data,
                            self._pool.ctypes.data, table.ctypes.data, table.strides[0] // 2, table.strides[1] // 2,
                            rows.ctypes.data, len(rows), values.ctypes.data, fault.ctypes.data)
        return None if fault[0] else values


def kinds_of(kernel: Kernel, names: Mapping[str, Any]) -> Kinds:
    """The kinds of the names of problem and device that a kernel's derived quantities read, where they are known."""
    return tuple([(name, _kind(value)) for name in _read(kernel) if (value := names.get(name)) is not None])


@lru_cache(maxsize=1024)
def _read(kernel: Kernel) -> tuple[str, ...]:
    """The names of problem and device that a kernel's derived quantities read."""
    own = {*kernel.by_name, *(name for name, _ in kernel.derived)}
    return tuple(dict.fromkeys(name for _, expression in kernel.derived for name in expression.names
                               if name not in own))


@lru_cache(maxsize=1024)
def kernel_program(kernel: Kernel, kinds: Kinds, wanted: tuple[tuple[str, ...], ...]) -> KernelProgram:
    """The programs of a kernel, which are written once."""
    return KernelProgram(kernel, kinds, wanted)


@cache
def _functions() -> Functions:
    return compiled(program_text, SIGNATURES)
