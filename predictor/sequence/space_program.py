"""SpaceProgram: finds the valid configurations of a kernel, as `seqtune.kernels.enumeration` does, by a program.

The parameters are added one by one. What depends on a prefix alone is computed once for it and saved with it, so a
longer prefix computes only what its last parameter changes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.row_index import Numbers, PrefixBorders
from seqtune.kernels.spaces.row_cache import Names, ValidRows
from seqtune.kernels.spaces.skeleton import valid_rows

from ..compiled import address
from .program import functions
from .program_text import BLOCK, CODES, operands_of
from .program_writer import ProgramWriter, Types, Unwritable, Value, kinds

MOST_KEPT = 1 << 20  # numbers of a buffer that a thread keeps; 8 MB
MOST_CANDIDATES = 2_000_000  # of one parameter; larger spaces are enumerated, and perhaps refused


class _Buffers(threading.local):
    """Two buffers for each thread, for the prefixes of a level and of the one before; new memory costs far more."""

    def __init__(self) -> None:
        self._kept = [np.empty(0, np.int64), np.empty(0, np.int64)]

    def buffer(self, number: int, size: int) -> Numbers:
        """A buffer of at least this size, which the next call with the same number overwrites."""
        if size > MOST_KEPT:
            return np.empty(size, np.int64)
        if len(self._kept[number]) < size:
            self._kept[number] = np.empty(size, np.int64)
        return self._kept[number]


_BUFFERS = _Buffers()


@dataclass(frozen=True, eq=False)
class _Level:
    """The program that adds one parameter."""

    value_count: int
    code: NDArray[np.int64]  # (instruction, 5)
    kept: NDArray[np.int64]  # registers of the numbers that are saved with a prefix
    # the address of the code, the instructions that check the parameter alone (they come first) and the register of
    # that condition, the number of all instructions and the register of the other conditions; -1: no condition
    code_arguments: tuple[int, int, int, int, int]

    @property
    def kept_count(self) -> int:
        """How many numbers are saved with a prefix."""
        return len(self.kept)

    @cached_property
    def kept_arguments(self) -> tuple[int, int]:
        """The address and the number of the registers that are saved."""
        return address(self.kept), len(self.kept)


class SpaceProgram:
    """The program of a kernel, for types of the names that its spaces depend on. Raises Unwritable without one."""

    def __init__(self, kernel: Kernel, types: Types) -> None:
        if not kernel.parameters:
            raise Unwritable
        writer = ProgramWriter(kernel, kinds(kernel.split_derived()[1], types))
        conditions = [writer.condition(constraint.expression) for constraint in kernel.constraints]
        by_level: dict[int, list[Value]] = {}
        for condition in conditions:
            by_level.setdefault(writer.level(condition), []).append(condition)
        plan = _Plan(writer, by_level)
        self._inputs = writer.inputs()
        self._pool = np.array([*writer.pool, 0], np.float64)
        self._uniform, self._holds = plan.uniform()
        self._levels = [plan.level(column, len(parameter.values)) for column, parameter in enumerate(kernel.parameters)]
        self._registers, self._most_values = plan.most_registers, max(level.value_count for level in self._levels)

    def rows(self, names: Names) -> ValidRows | None:
        """The rows for the values of the names; None if a number is too large, or the prefixes are too many."""
        inputs = self._inputs.numbers(dict(names))
        if inputs is None:
            return None
        run, width = functions(), len(self._levels)
        quads = -(-width // 4)
        # registers, then allowed values of a parameter, the fault and the number of prefixes: each of 8 bytes
        scratch = np.zeros(self._registers + self._most_values + 2)
        registers, pool = address(scratch), address(self._pool)
        allowed = registers + 8 * self._registers
        fault, found = allowed + 8 * self._most_values, allowed + 8 * self._most_values + 8
        run["run"](address(self._uniform), len(self._uniform), len(self._uniform), address(inputs), len(inputs),
                   registers, pool, 0, 0, 0, 0, 0, 0, fault)
        numbers = scratch.view(np.int64)
        count, pitch = int(self._holds < 0 or scratch[self._holds * BLOCK] != 0), 1
        block = np.zeros(quads, np.int64)  # of each prefix: its value indices, its parent, and its saved numbers
        before = saved = address(block)
        parents: list[Numbers] = []
        for column, level in enumerate(self._levels):
            most = count * level.value_count
            if not most:
                break
            if most > MOST_CANDIDATES:
                return None
            longer = _BUFFERS.buffer(column % 2, most * (quads + 1 + level.kept_count))
            after = address(longer)
            owners = after + 8 * most * quads
            run["extend"](*level.code_arguments, registers, pool, count, level.value_count, column, quads, before,
                          saved, pitch, *level.kept_arguments, allowed, after, owners, owners + 8 * most, most, fault,
                          found)
            block, before, saved, pitch = longer, after, owners + 8 * most, most
            count = int(numbers[-1])
            parents.append(longer[most * quads:most * quads + count].copy())
        if numbers[-2]:
            return None
        if not count:  # the borders of no rows are not worth their time
            empty = np.empty((0, width), np.int16)
            empty.setflags(write=False)
            return ValidRows(empty, PrefixBorders(empty))
        rows = block[:count * quads].view(np.int16).reshape(count, 4 * quads)
        valid = rows[:, :width].copy()
        valid.setflags(write=False)
        return ValidRows(valid, PrefixBorders(valid, _borders(parents)))


def _borders(parents: Sequence[Numbers]) -> list[Numbers]:
    """The first rows of the prefixes of each length, given the prefix that each longer one extends."""
    count = len(parents[-1])
    starts = np.arange(count + 1)
    borders, extended = [starts], parents[-1]
    for before in reversed(parents[:-1]):
        changed = (extended[1:] != extended[:-1]).nonzero()[0]
        changed += 1
        first = np.concatenate([np.zeros(min(1, count), np.int64), changed])  # a prefix without rows is left out
        starts = np.concatenate([starts[first], [count]])
        borders.append(starts)
        extended = before[extended[first]]
    return borders[::-1]


class _Plan:
    """What the levels of a program compute, from the conditions that they check."""

    def __init__(self, writer: ProgramWriter, conditions: dict[int, list[Value]]) -> None:
        self._instructions, self._given = writer.instructions, len(writer.given)
        lines, levels = self._instructions.lines, self._instructions.levels
        self._own: dict[int, list[int]] = {}  # registers of conditions on a parameter alone, by level
        self._joint: dict[int, list[int]] = {}
        for level, values in conditions.items():
            for value in values:
                own = all(levels[number] in (-1, level) for number in self._closure([value.register]))
                (self._own if own else self._joint).setdefault(level, []).append(value.register)
        needed = self._closure([number for numbers in (*self._own.values(), *self._joint.values())
                                for number in numbers])
        own_alone = needed - self._closure([number for numbers in self._joint.values() for number in numbers])
        self._uniforms = sorted(number for number in needed if levels[number] < 0)
        self._register = {number: self._given + index for index, number in enumerate(self._uniforms)}
        self._last_use = {number: levels[number] for number in needed}  # the last level that reads a result
        for number in needed - own_alone:
            for operand in self._operands(number):
                if operand >= 0:
                    self._last_use[operand] = max(self._last_use[operand], levels[number])
        self._needed = needed
        self._saved: list[int] = []  # results that are saved with the prefixes of the level before
        self.most_registers = BLOCK * (self._given + len(self._uniforms) + 1)  # numbers of all registers of a level
        self._lines = lines

    def _operands(self, number: int) -> Sequence[int]:
        operation, *operands = self._instructions.lines[number]
        return operands[:operands_of(operation)]

    def _closure(self, numbers: Sequence[int]) -> set[int]:
        """The instructions that results depend on, themselves included."""
        needed: set[int] = set()
        waiting = [number for number in numbers if number >= 0]
        while waiting:
            number = waiting.pop()
            if number not in needed:
                needed.add(number)
                waiting += [operand for operand in self._operands(number) if operand >= 0]
        return needed

    def uniform(self) -> tuple[NDArray[np.int64], int]:
        """The uniform instructions, and the register of the condition that must hold; -1: none."""
        code: list[list[int]] = []
        register = dict(self._register)
        self._write(code, self._uniforms, register, -1)
        condition = self._joined(code, [*self._own.get(-1, []), *self._joint.get(-1, [])], register)
        return _as_code(code), condition

    def level(self, column: int, value_count: int) -> _Level:
        """The program of the parameter in a column; the levels are asked for in their order."""
        register = dict(self._register)
        code: list[list[int]] = []
        here = [number for number in sorted(self._needed) if self._instructions.levels[number] == column]
        own = self._own.get(column, [])
        closure = self._closure(own)
        self._write(code, [number for number in here if number in closure], register, column)
        own_condition = self._joined(code, own, register)
        own_end = len(code)
        joint, register = self._joint.get(column, []), dict(self._register)
        used = {operand for number in here for operand in self._operands(number)} | set(joint)
        later = [number for number in (*self._saved, *here) if self._last_use[number] > column]
        carried = [(index, number) for index, number in enumerate(self._saved) if number in used or number in later]
        for index, number in carried:
            register[number] = self._fresh(register)
            code.append([CODES["carry"], register[number], index, 0, 0])
        wanted = self._closure([*joint, *(number for number in later if number in here)])
        self._write(code, [number for number in here if number in wanted], register, column)
        condition = self._joined(code, joint, register)
        self._saved = later
        kept = np.array([register[number] for number in later], np.int64)
        lines = _as_code(code)
        return _Level(value_count, lines, kept, (address(lines), own_end, own_condition, len(lines), condition))

    def _fresh(self, register: dict[int, int]) -> int:
        """A register that no result has."""
        fresh = self._given + len(register)
        self.most_registers = max(self.most_registers, BLOCK * (fresh + 1))
        return fresh

    def _write(self, code: list[list[int]], numbers: Sequence[int], register: dict[int, int], column: int) -> None:
        for number in numbers:
            operation, *operands = self._lines[number]
            if number not in register:
                register[number] = self._fresh(register)
            used = operands_of(operation)
            if operation == "load":
                operation, operands = "value", [operands[0], 0, 0]
            code.append([CODES[operation], register[number],
                         *(register[operand] if operand >= 0 else -1 - operand for operand in operands[:used]),
                         *operands[used:]])

    def _joined(self, code: list[list[int]], conditions: Sequence[int], register: dict[int, int]) -> int:
        """The register that holds whether all conditions hold; -1 without conditions."""
        places = [register[number] if number >= 0 else -1 - number for number in dict.fromkeys(conditions)]
        if not places:
            return -1
        result = places[0]
        for place in places[1:]:
            register[-1 - len(register)] = joined = self._fresh(register)  # no result has this number
            code.append([CODES["minimum"], joined, result, place, 0])
            result = joined
        return result


def _as_code(lines: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    return np.array(lines, np.int64).reshape(-1, 5)


@lru_cache(maxsize=256)
def space_program(kernel: Kernel, types: Types) -> SpaceProgram | None:
    """The program of a kernel, which is written once; None if it has none."""
    try:
        return SpaceProgram(kernel, types)
    except (Unwritable, RecursionError):
        return None


def program_rows(kernel: Kernel, names: Names, device_names: frozenset[str]) -> ValidRows:
    """The rows that `valid_rows` finds, by a program if the kernel has one. Raises KernelError as it does."""
    program = space_program(kernel, tuple([type(value) for _, value in names]))
    rows = None if program is None else program.rows(names)
    return valid_rows(kernel, names, device_names) if rows is None else rows
