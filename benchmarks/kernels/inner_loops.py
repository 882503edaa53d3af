"""InnerLoop: what one pass of a loop in assembly does: its multiply-adds, its loads, its instructions.

The assembly is LLVM's, for ARM or, in AT&T's order of operands, for x86. A loop is a block of instructions that begins
at a label and ends with a branch to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FUSED = ("fmla", "fmad", "vfmadd", "vfmla")  # beginnings of the names of multiply-adds of vectors
_PAIRS = ("ldp", "ldnp")  # ARM's instructions that load two registers
_LABEL = re.compile(r"^([.\w$]+):")
_TARGET = re.compile(r"([.\w$]+)\s*(?:#.*|//.*|;.*)?$")
_MEMORY = re.compile(r"\([^()]*\)")  # x86: an operand in memory, as in 8(%rdi,%rax,4)


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """One pass of a loop. A register that is loaded counts as a load, also where an instruction multiplies with it."""

    fused: int  # multiply-adds of vectors
    loads: int
    instructions: int

    @property
    def fused_per_load(self) -> float:
        """Multiply-adds for each load."""
        return self.fused / self.loads if self.loads else float("inf")

    @property
    def fused_per_instruction(self) -> float:
        """Multiply-adds for each instruction."""
        return self.fused / self.instructions


def inner_loops(assembly: str) -> list[InnerLoop]:
    """The innermost loops of one block that multiply and add, in the order of the text."""
    loops = [_counted(body) for label, lines in _blocks(assembly) if (body := _repeated(label, lines))]
    return [loop for loop in loops if loop.fused]


def main_loop(assembly: str) -> InnerLoop | None:
    """The loop with the most multiply-adds: where tiles at borders have loops of their own, that of the others."""
    return max(inner_loops(assembly), key=lambda loop: loop.fused, default=None)


def _blocks(assembly: str) -> Iterator[tuple[str, list[str]]]:
    """Labels, and the instructions that follow each up to the next one."""
    label, lines = "", list[str]()
    for line in assembly.splitlines():
        begins = _LABEL.match(line)
        if begins:
            yield label, lines
            label, lines = begins[1], []
        elif line.startswith("\t") and not line.startswith(("\t.", "\t#", "\t//", "\t;")):
            lines.append(line.strip())
    yield label, lines


def _repeated(label: str, lines: list[str]) -> list[str]:
    """The instructions from a label to the last branch to it; none without such a branch."""
    ends = [number for number, line in enumerate(lines, start=1)
            if (target := _TARGET.search(line)) is not None and target[1] == label]
    return lines[:ends[-1]] if ends else []


def _counted(lines: list[str]) -> InnerLoop:
    names = [line.split(None, 1)[0] for line in lines]
    return InnerLoop(sum(name.startswith(_FUSED) for name in names), sum(map(_loads, lines)), len(lines))


def _loads(line: str) -> int:
    """The registers that an instruction loads."""
    name, _, operands = line.partition("\t")
    if name.startswith("ld"):  # ARM; no instruction of x86 that a kernel has begins so
        return 2 if name in _PAIRS else 1
    if name.startswith(("lea", "prefetch")) or "%" not in operands:
        return 0
    memory = _MEMORY.search(operands)
    is_last = memory is not None and "," not in operands[memory.end():]
    return int(memory is not None and (not is_last or name.startswith(("cmp", "test"))))
