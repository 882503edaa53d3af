"""Oclgrind: where the simulator is, the environment that it needs, and the messages that it logs.

https://github.com/jrprice/Oclgrind; Debian's package `oclgrind` has version 21.10.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..backends.opencl.vendors import VARIABLE, folder_of

LIBRARY = "liboclgrind-rt-icd.so"
FOLDERS = ("/usr/lib/oclgrind", "/usr/local/lib/oclgrind", "/usr/lib64/oclgrind", "/usr/local/lib", "/usr/lib",
           "/usr/lib/x86_64-linux-gnu/oclgrind", "/usr/lib/aarch64-linux-gnu/oclgrind")
INSTALL = "Oclgrind is not installed (apt install oclgrind); set OCLGRIND_LIBRARY to the path of " + LIBRARY
PLATFORM = "Oclgrind"
LOG = "OCLGRIND_LOG"  # the variable that names the file of its messages
_LINE = re.compile(r"At line (\d+)(?: \(column \d+\))? of (\S+?):?$")
_ADDRESS = re.compile(r" address 0x[0-9a-f]+.*")
_HEADS = ("Invalid ", "Read-write data race", "Write-write data race", "Work-group divergence", "Uninitialized ",
          "Unaligned ", "Index ")


@dataclass(frozen=True, slots=True)
class Stray:
    """One message of the simulator: what happened, and where in the source."""

    what: str  # "Invalid write of size 4 at global memory"
    line: str  # "stencil.cl:12", two for a race; empty where the simulator does not know


def library() -> Path | None:
    """The simulator's library for the ICD loader, or None."""
    named = os.environ.get("OCLGRIND_LIBRARY")
    paths = [Path(named)] if named else [Path(folder) / LIBRARY for folder in FOLDERS]
    return next((path for path in paths if path.is_file()), None)


def environment(path: Path) -> dict[str, str]:
    """The variables for a process that finds the simulator alone; the process sets LOG itself.

    Its optimiser leaves instructions (`freeze`) that the simulator lacks: kernels would write nothing.
    """
    return {VARIABLE: str(folder_of({"oclgrind.icd": f"{path}\n"})), "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
            "OCLGRIND_DATA_RACES": "1", "OCLGRIND_MAX_ERRORS": "1000"}


def strays(log: str) -> Iterator[Stray]:
    """The messages in a log. A race names two lines of the source."""
    what, lines = "", set[tuple[str, int]]()
    for line in [*log.splitlines(), _HEADS[0]]:
        if line.startswith(_HEADS):
            if what:
                yield Stray(what, " and ".join(f"{file}:{number}" for file, number in sorted(lines)))
            what, lines = _ADDRESS.sub("", line).rstrip(" :"), set()
        elif (match := _LINE.search(line)) is not None:
            lines.add((Path(match[2]).name, int(match[1])))
