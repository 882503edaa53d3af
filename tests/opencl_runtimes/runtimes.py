"""OpenCL runtimes that may check our kernel texts: how a process must be started to use one, and its log of errors.

A runtime is an OpenCL library; `OCL_ICD_VENDORS` names a folder of files that name libraries, and has to be set before
the process starts, as must `LD_LIBRARY_PATH`. Oclgrind is a simulator that writes data races, reads and writes outside
buffers and barriers that not all work-items reach into a log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seqtune.errors import UnavailableError

PLATFORMS = {"pocl": "Portable Computing Language", "intel": "Intel(R) OpenCL", "oclgrind": "Oclgrind"}  # in its name
LIBRARY_VARIABLES = {"intel": "INTEL_OPENCL_LIBRARY", "oclgrind": "OCLGRIND_LIBRARY"}
SIMULATED_LOCAL_MEMORY = 256 << 10  # bytes; Oclgrind's default of 32 KiB is less than a GPU has


@dataclass(frozen=True, slots=True)
class Faults:
    """Numbers of errors in Oclgrind's log by kind."""

    races: int = 0
    stray: int = 0  # reads and writes outside buffers, or not aligned
    divergent: int = 0  # barriers
    other: int = 0

    @property
    def total(self) -> int:
        """The number of all errors."""
        return self.races + self.stray + self.divergent + self.other


_KINDS = (("races", re.compile(r"data race", re.IGNORECASE)),
          ("stray", re.compile(r"invalid (read|write|memory)|unaligned|out of bounds", re.IGNORECASE)),
          ("divergent", re.compile(r"divergence", re.IGNORECASE)))


def faults(log: str) -> Faults:
    """Count the errors in a log of Oclgrind. Each begins at the margin; its details are indented below it."""
    counts = dict.fromkeys(("races", "stray", "divergent", "other"), 0)
    for line in log.splitlines():
        if line.strip() and not line[0].isspace():
            counts[next((name for name, pattern in _KINDS if pattern.search(line)), "other")] += 1
    return Faults(**counts)


def library(runtime: str, given: Path | None) -> Path | None:
    """The library of a runtime: as given, or as its environment variable says; None for the ones installed already.

    Raises UnavailableError if there is no such file.
    """
    named = given or (Path(os.environ[variable]) if (variable := LIBRARY_VARIABLES.get(runtime, "")) in os.environ
                      else None)
    if named is not None and not named.is_file():
        raise UnavailableError(f"no library {str(named)[-100:]!r} of the OpenCL runtime {runtime}")
    return named


def environment(runtime: str, found: Path | None, folder: Path) -> dict[str, str]:
    """The environment of a process that uses the runtime; `folder` takes the file that names its library, and its log.

    A library outside the system's folders brings others along, which lie beside it.
    """
    variables = dict(os.environ)
    if found is not None:
        (folder / f"{runtime}.icd").write_text(f"{found.resolve()}\n")
        variables["OCL_ICD_VENDORS"] = str(folder)
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(found.resolve().parent), variables.get("LD_LIBRARY_PATH")]))
    if runtime == "oclgrind":
        variables |= simulation(folder / "oclgrind.log")
    return variables


def simulation(log: Path) -> Mapping[str, str]:
    """Settings of Oclgrind. Without `-cl-opt-disable` it leaves kernels unwritten: it lacks LLVM's `freeze`."""
    return {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_MAX_ERRORS": "1000",
            "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable", "OCLGRIND_LOG": str(log),
            "OCLGRIND_LOCAL_MEM_SIZE": str(SIMULATED_LOCAL_MEMORY)}
