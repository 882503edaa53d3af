"""Program: derived quantities of a kernel as a program over rows of a space (see `program_text`).

A program gives the numbers that the kernel's expressions give over columns, to the last bit, or nothing: where an
expression has no such program, or its numbers leave what is exact in any order of types, the caller evaluates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.row_index import Numbers, Rows

from ..compiled import Functions, address, compiled
from .program_text import BLOCK, CODES, SIGNATURES, operands_of, program_text
from .program_writer import ProgramWriter, Types, Unwritable, Value, kinds


@dataclass(frozen=True, eq=False)
class _Part:
    """The program of some quantities."""

    names: tuple[str, ...]  # of those that are numbers
    code: NDArray[np.int64]  # (instruction, 5)
    arguments: tuple[int, int, int]  # the address of the code, and the ends of its parts
    registers: int  # numbers that all registers need

    @classmethod
    def of(cls, writer: ProgramWriter, written: Mapping[str, Value]) -> _Part:
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
        ordered = sorted(needed, key=lambda number: (instructions.levels[number] >= 0, number))
        register = {number: given + index for index, number in enumerate(ordered)}

        def place(value: int) -> int:
            """The register of a result, or of a given number."""
            return register[value] if value >= 0 else -1 - value

        lines = []
        for number in ordered:
            operation, *operands = instructions.lines[number]
            used = operands_of(operation)
            lines.append([CODES[operation], register[number], *map(place, operands[:used]), *operands[used:]])
        lines += [[CODES["store"], 0, place(value.register), column, 0]
                  for column, value in enumerate(values.values())]
        code = np.array(lines, np.int64).reshape(-1, 5)
        uniform = sum(instructions.levels[number] < 0 for number in ordered)
        return cls(tuple(values), code, (address(code), uniform, len(code)), BLOCK * (given + len(ordered)))


class KernelProgram:
    """The programs of sets of a kernel's derived quantities, for types of the names of problem and device."""

    def __init__(self, kernel: Kernel, types: Types, wanted: tuple[tuple[str, ...], ...]) -> None:
        writer, written = ProgramWriter(kernel, kinds(_read(kernel), types)), {}
        for names in wanted:
            with suppress(Unwritable, RecursionError):  # the others have programs nevertheless
                written[names] = {name: writer.quantity(name) for name in names}
        self.wanted = wanted
        self._parts = {names: _Part.of(writer, values) for names, values in written.items()}
        self._inputs = writer.inputs()
        self._pool = np.array([*writer.pool, 0], np.float64)
        self._pool_address = address(self._pool)

    def names(self, wanted: tuple[str, ...]) -> tuple[str, ...] | None:
        """The names of the quantities among the wanted ones that are numbers; None if they have no program."""
        part = self._parts.get(wanted)
        return None if part is None else part.names

    def inputs(self, names: Mapping[str, Any]) -> NDArray[np.float64] | None:
        """What programs read of the names of problem and device, as numbers; None if one is too large."""
        return self._inputs.numbers(names)

    def run(self, wanted: tuple[str, ...], inputs: NDArray[np.float64], table: Rows,
            rows: Numbers) -> NDArray[np.float64] | None:
        """The quantities (quantity, row) in rows of a table of value indices; None where they must be evaluated."""
        part, count = self._parts[wanted], len(rows)
        rows = np.ascontiguousarray(rows, np.int64)
        scratch = np.empty(1 + len(part.names) * count + part.registers)  # the fault, the result and registers
        scratch[0] = 0  # as bits, too
        fault = address(scratch)
        values = fault + 8
        functions()["run"](*part.arguments, address(inputs), len(inputs), values + 8 * len(part.names) * count,
                           self._pool_address, address(table), table.strides[0] // 2, table.strides[1] // 2,
                           address(rows), count, values, fault)
        if scratch.view(np.int64)[0]:
            return None
        return scratch[1:1 + len(part.names) * count].reshape(len(part.names), count)


def types_of(kernel: Kernel, names: Mapping[str, Any]) -> Types:
    """The types of the names of problem and device that a kernel's derived quantities read."""
    return tuple([type(names.get(name)) for name in _read(kernel)])


@lru_cache(maxsize=1024)
def _read(kernel: Kernel) -> tuple[str, ...]:
    """The names of problem and device that a kernel's derived quantities read."""
    own = {*kernel.by_name, *(name for name, _ in kernel.derived)}
    return tuple(dict.fromkeys(name for _, expression in kernel.derived for name in expression.names
                               if name not in own))


@lru_cache(maxsize=256)
def kernel_program(kernel: Kernel, types: Types, wanted: tuple[tuple[str, ...], ...]) -> KernelProgram:
    """The programs of a kernel, which are written once."""
    return KernelProgram(kernel, types, wanted)


@cache
def functions() -> Functions:
    """The functions of `program_text`, compiled for this CPU."""
    return compiled(program_text, SIGNATURES)
