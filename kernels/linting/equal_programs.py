"""Equal programs: values of one parameter that give the same program, so that a space holds configurations twice.

The C preprocessor of this machine reads the source of some configurations with each value of a parameter in turn.
Values are equal if they give the same text in all of them, as the source is and with every macro defined that a
compiler may define of itself. Parameters that the launch reads are not compared.

A source comes to the preprocessor with the files of its folder in the places of their `#include` lines; the others are
left out, so that it reads no file. Its time, memory and output are bounded, since macros can grow without end.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np

from seqtune.errors import SeqtuneError

from ..devices.device import Device
from ..kernel import Configuration, Kernel, shown_setting
from ..launches.call_declaration import call_of
from ..launches.implementation import KernelSource
from ..libraries.document import KernelDocument, SourceSection
from ..libraries.fault import KeyPath
from ..problem import Problem
from ..row_index import Rows
from .c_text import LARGEST_READ, CText
from .names import launch_names, read_names
from .report import Remark
from .undefined_names import defined_names, is_known, undefined_in_conditions

MOST_RUNS = 1500  # of the preprocessor for a library: ten seconds
MOST_VALUES = 16  # of a parameter that are compared
DRAWN = 64  # configurations that are drawn, beside one for each value of every other parameter
_DEFINED = "1000000"  # a version that is later than all that a source asks for

Space: TypeAlias = tuple[Problem, Rows]


class EqualPrograms:
    """Compares the programs of a library's kernels, with a bounded number of runs of the preprocessor."""

    def __init__(self, preprocessor: Preprocessor) -> None:
        self._preprocessor, self._left = preprocessor, MOST_RUNS

    def findings(self, kernel: Kernel, document: KernelDocument, spaces: Sequence[Space], device: Device,
                 path: KeyPath) -> Iterator[Remark]:
        """Remarks about equal values of a kernel's parameters. `spaces` are counted, and none is empty."""
        section = document.sections().get(device.backend)
        if not spaces or not isinstance(section, SourceSection) or len(section.text or "") > LARGEST_READ:
            return
        source = CText.of(section.text or "")
        undefined = undefined_in_conditions(source, defined_names(document, section))
        if source.has_includes and not all(map(is_known, undefined)):
            return  # an included file may define them
        programs = _Programs(kernel, device, spaces, [name for name in undefined if is_known(name)], self._digest)
        compared = read_names(kernel, section) - launch_names(kernel, section)
        for column, parameter in enumerate(kernel.parameters):
            groups = programs.equal(column) if parameter.name in compared else []
            for group in groups if self._left >= 0 else ():  # else they were not compared often enough
                values = ", ".join(shown_setting(parameter.values[index]) for index in group)
                yield Remark((*path, "parameters", parameter.name),
                             f"{parameter.name}={values:.120} make the same text of the source "
                             f"({self._preprocessor.name}), so that every program is measured {len(group)} times")

    def _digest(self, source: KernelSource, language: str, macros: Sequence[str]) -> bytes | None:
        """A digest of a program with these macros; None if the preprocessor fails, or may run no more."""
        self._left -= 1
        return None if self._left < 0 else self._preprocessor.digest(
            language, source.text, source.options, dict.fromkeys(macros, _DEFINED))


class _Programs:
    """The programs of one kernel. `digest` takes a source, its language and macros that are defined beside it."""

    def __init__(self, kernel: Kernel, device: Device, spaces: Sequence[Space], macros: Sequence[str],
                 digest: Callable[[KernelSource, str, Sequence[str]], bytes | None]) -> None:
        self._kernel, self._device, self._spaces = kernel, device, spaces
        self._macros, self._digest = macros, digest
        self._known: dict[KernelSource, tuple[bytes | None, ...]] = {}

    def equal(self, column: int) -> list[list[int]]:
        """The groups of value indices of a parameter that gave the same programs wherever they were compared."""
        count = min(MOST_VALUES, len(self._kernel.parameters[column].values))
        compared = dict.fromkeys(combinations(range(count), 2), False)  # pairs that never differed
        for problem, rows in self._neighbours(column):
            if not compared:
                return []
            wanted = {index for pair in compared for index in pair}
            programs = {index: program for row in rows if (index := int(row[column])) in wanted
                        and (program := self._program(problem, row)) is not None}
            for pair in [pair for pair in compared if programs.keys() >= set(pair)]:
                if programs[pair[0]] == programs[pair[1]]:
                    compared[pair] = True
                else:
                    del compared[pair]
        alike = [pair for pair, seen in compared.items() if seen]
        firsts = {first for first, _ in alike} - {second for _, second in alike}
        return [[first, *(second for one, second in alike if one == first)] for first in sorted(firsts)]

    def _neighbours(self, column: int) -> Iterator[Space]:
        """Valid configurations that differ in one parameter alone: for the default, for some with each value of every
        other parameter, and for drawn ones.
        """
        kernel, generator = self._kernel, np.random.default_rng(0)
        default = kernel.indices(kernel.default)
        for number, chosen in enumerate([(-1, 0), *((other, index) for other, parameter in enumerate(kernel.parameters)
                                                    if other != column for index in range(len(parameter.values))),
                                         *[(-1, 0)] * DRAWN]):
            problem, rows = self._spaces[number % len(self._spaces)]
            among = rows if chosen[0] < 0 else rows[rows[:, chosen[0]] == chosen[1]]
            if not number:
                among = among[np.argsort((among != default).sum(axis=1), kind="stable")[:1]]
            if len(among):
                base = among[generator.integers(len(among))]
                same = rows == base
                same[:, column] = True
                yield problem, rows[same.all(axis=1)]

    def _program(self, problem: Problem, row: Rows) -> tuple[bytes | None, ...] | None:
        """The digests that tell a configuration's program from others; None where they are not known."""
        settings = tuple((parameter.name, parameter.values[index]) for parameter, index in zip(
            self._kernel.parameters, row, strict=True))
        configuration = Configuration(self._kernel.name, settings)
        try:
            source = call_of(self._kernel, problem, self._device, configuration).source
        except SeqtuneError:  # the launch of this configuration is not possible
            return None
        if source not in self._known:
            sets = [[], self._macros] if self._macros else [[]]
            self._known[source] = tuple(self._digest(source, self._device.backend, macros) for macros in sets)
        program = self._known[source]
        return None if program[0] is None else program


NAMES = ("cc", "gcc", "clang", "cpp")  # the first that is installed is taken
SECONDS = 5
_LIMITS = f'ulimit -t {SECONDS}; ulimit -v 1000000; ulimit -f 65536; exec "$@"'  # seconds, kB, blocks of 512 bytes
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma\b|\b_Pragma\b", re.MULTILINE)  # compilers expand macros in its line


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """An installed C preprocessor."""

    path: str

    @property
    def name(self) -> str:
        """The command, as a user knows it."""
        return f"{os.path.basename(self.path)} -E"

    @classmethod
    def installed(cls) -> Preprocessor | None:
        """The first of NAMES that this machine has; None if it has none, or no shell to bound it."""
        path = next(filter(None, map(shutil.which, NAMES)), None)
        return None if path is None or shutil.which("sh") is None else cls(path)

    def digest(self, language: str, text: str, options: Iterable[str] = (),
               macros: Mapping[str, str] | None = None) -> bytes | None:
        """A digest of a source after preprocessing; None if that fails, so also for a source with an `#error`.

        Of the compiler's `options`, those of the preprocessor (-D, -U) count; `macros` stand beside them.
        """
        words = [self.path, "-E", "-P", "-w", "-undef", "-nostdinc", "-x", "c++" if language == "cuda" else "c",
                 *(option for option in options if option.startswith(("-D", "-U"))),
                 *(f"-D{name}={value}" for name, value in (macros or {}).items()), "-"]
        plain = _PRAGMA.sub(" seqtune_pragma ", _INCLUDE.sub("", text))
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(["sh", "-c", _LIMITS, "sh", *words], input=plain.encode(), stdout=output,
                                      stderr=subprocess.DEVNULL, timeout=2 * SECONDS, check=False,
                                      env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"})
            except (OSError, subprocess.TimeoutExpired):
                return None
            if done.returncode:
                return None
            output.seek(0)
            return hashlib.sha256(b" ".join(output.read().split())).digest()
