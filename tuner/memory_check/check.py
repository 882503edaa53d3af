"""MemoryCheck: runs a sample of a library's OpenCL configurations under Oclgrind, in a process of its own.

The simulator is Oclgrind (https://github.com/jrprice/Oclgrind; Debian's package `oclgrind` has version 21.10).
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqtune.errors import MisuseError, UnavailableError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.launches.call_declaration import CallDeclaration, Sections, code_for
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.messages import messages_in_use
from seqtune.kernels.say import Say, silent

from ..backends.opencl.vendors import VARIABLE, folder_of
from ..processes import python_path

SAMPLE = 20  # configurations of each kernel
SECONDS = 60.0  # for one configuration
START_SECONDS = 60.0  # for loading the simulator, and for drawing configurations
_LONGEST_LOG = 100_000  # characters of one configuration's messages that are read


@dataclass(frozen=True, slots=True)
class MemoryFinding:
    """A race, stray access or divergence, with the first configuration that showed it."""

    kernel: str
    line: str
    what: str
    problem: str
    settings: str

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"kernel": self.kernel, "line": self.line, "message": self.what, "problem": self.problem,
                "configuration": self.settings}


@dataclass(slots=True)
class MemoryReport:
    """The findings of a check, each line of a source once."""

    library: str
    ran: int = 0
    findings: dict[tuple[str, str, str], MemoryFinding] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)  # configurations that could not be checked, with the reason

    @property
    def passed(self) -> bool:
        """Whether configurations ran, and nothing was found."""
        return self.ran > 0 and not self.findings

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"library": self.library, "ran": self.ran, "passed": self.passed, "unfinished": self.unfinished,
                "findings": [finding.to_json() for finding in self.findings.values()]}


def check_memory(checked: Library, sample: int = SAMPLE, seconds: float = SECONDS,
                 progress: Say = silent) -> MemoryReport:
    """Run `sample` configurations of each OpenCL kernel. Raises MisuseError, UnavailableError without Oclgrind."""
    path = library()
    if path is None:
        raise UnavailableError(INSTALL)
    families = [family for name in checked.table if _in_opencl(family := checked.kernel(name))]
    if not families:
        raise MisuseError(f"the library {checked.name} declares no kernel in OpenCL C")
    report, begin, variables = MemoryReport(checked.name), 0, environment(path)
    while begin >= 0:
        begin = _simulate(variables, families, sample, seconds, begin, report, progress)
    return report


def _in_opencl(family: Kernel) -> bool:
    sections = family.implementation
    return isinstance(sections, Sections) and isinstance(sections.by_backend.get("opencl"), CallDeclaration) and (
        code_for(family, "opencl") is not None)


def _simulate(variables: Mapping[str, str], families: Sequence[Kernel], sample: int, seconds: float, begin: int,
              report: MemoryReport, progress: Say) -> int:
    """Run configurations from number `begin` on. Returns the number at which to go on, or -1 at the end."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "seqtune.tuner.memory_check.simulation_process"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, **variables,
             "PYTHONPATH": python_path()})
    assert process.stdin is not None
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(process, lines), daemon=True).start()
    running: dict[str, Any] | None = None
    try:
        request = {"libraries": messages_in_use(), "kernels": [family.name for family in families], "sample": sample,
                   "begin": begin}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        while line := lines.get(timeout=START_SECONDS if running is None else seconds):
            message = json.loads(line)
            if "run" in message:
                running = message
                progress(f"{message['kernel']}: {message['settings']} on {message['problem']}")
            elif "done" in message:
                return -1
            elif running is not None:
                _note(report, running, message)
                begin, running = running["run"] + 1, None
        reason = "the simulator crashed"
    except (queue.Empty, BrokenPipeError):
        reason = f"not finished within {seconds:.0f} s"
    finally:
        process.kill()
        process.wait()
    if running is None:
        raise UnavailableError("Oclgrind does not run here: it ends or hangs before the first configuration")
    report.unfinished.append(f"{running['kernel']} {running['settings']} on {running['problem']}: {reason}")
    return int(running["run"]) + 1


def _listen(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _note(report: MemoryReport, running: dict[str, Any], message: dict[str, Any]) -> None:
    """Add the findings of one configuration."""
    if message["error"]:
        report.unfinished.append(f"{running['kernel']} {running['settings']} on {running['problem']}: "
                                 f"{message['error']}")
    else:
        report.ran += 1
    for stray in strays(message["messages"][:_LONGEST_LOG]):
        finding = MemoryFinding(running["kernel"], stray.line, stray.what, running["problem"], running["settings"])
        report.findings.setdefault((finding.kernel, stray.line, stray.what), finding)


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
