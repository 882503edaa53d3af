"""CommandDeclaration: how a library declares a kernel that is a program, with the words of its command line.

`{name}` in a word stands for a feature, a derived size, a parameter or a fact of the device; `{output}` for the file
that the build writes. A word that is nothing but the name of a parameter whose value is the empty word is left out.
Words reach the program as they are: no shell reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError

from ..devices.device import Device
from ..expression import Expression
from ..kernel import Configuration, quantities, source_text
from ..problem import Problem

OUTPUT = "output"  # the name in braces of the file that the build writes
LONGEST_WORD = 4096  # characters after the names are filled in
DEFAULT_TOLERANCE = 1e-4  # largest reported error, where the operation declares none
_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Command:
    """The words of one configuration; `output` is a file that the build still has to write."""

    build: tuple[str, ...]  # empty: nothing to build
    run: tuple[str, ...]

    def with_output(self, path: str) -> Command:
        """The command with the path of the built file in its words."""
        braces = "{" + OUTPUT + "}"
        build, run = (tuple(word.replace(braces, path) for word in words) for words in (self.build, self.run))
        return Command(build, run)


@dataclass(frozen=True, slots=True)
class CommandDeclaration:
    """A declared command. It runs in the library's folder."""

    folder: Path
    run: tuple[str, ...]
    build: tuple[str, ...] = ()
    repeats: str = "ours"  # "theirs": one run prints several times, each of which is a sample
    timeout: float = 10.0  # seconds of a run
    memory: int = 4_000_000_000  # bytes of address space
    tolerance: float = DEFAULT_TOLERANCE
    derived: tuple[tuple[str, Expression], ...] = ()  # the kernel's quantities

    @property
    def includes(self) -> str:
        """The work that a timing includes."""
        return "the part of the program that it times itself"

    def command(self, problem: Problem, device: Device, configuration: Configuration) -> Command:
        """The words of a configuration. Raises FormatError, ExpressionError."""
        values = quantities(self.derived, problem, device, configuration)
        return Command(filled(self.build, values), filled(self.run, values))


def names_in(word: str) -> list[str]:
    """The names that stand in braces in a word, `output` left out."""
    return [name for name in _NAME.findall(word) if name != OUTPUT]


def filled(words: Iterable[str], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Words with the values in place of their names, without those that are a name of "" and nothing else.

    `{output}` stays. Raises FormatError.
    """
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name == OUTPUT:
            return match[0]
        if values.get(name) is None:
            raise FormatError(f"{match[0]} in the command is unknown")
        return source_text(values[name])

    result = tuple(text for word in words if (text := _NAME.sub(value, word)) or not _NAME.fullmatch(word))
    if any(len(word) > LONGEST_WORD or "\0" in word for word in result):
        raise FormatError(f"a word of the command is longer than {LONGEST_WORD} characters or has a NUL character")
    return result
