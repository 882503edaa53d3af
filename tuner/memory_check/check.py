"""MemoryCheck: runs a sample of a library's OpenCL configurations under Oclgrind, in a process of its own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqtune.errors import MisuseError, UnavailableError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.launches.call_declaration import CallDeclaration, Sections, code_for
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.messages import messages_in_use
from seqtune.kernels.say import Say, silent

from ..processes import python_path
from .oclgrind import INSTALL, environment, library, strays

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
