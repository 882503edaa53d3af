"""Sanitizer slice: compute-sanitizer over samples of every family: memcheck, racecheck and synccheck.

memcheck finds accesses out of bounds, racecheck hazards in shared memory, synccheck divergent barriers. A tool can see
nothing of a run that was not launched, so the launches are counted, too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from benchmarks.gpu.checks.contracts import samples
from benchmarks.gpu.day import Day
from benchmarks.gpu.slices import SliceOutcome
from seqtune.errors import UnavailableError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

TOOLS = ("memcheck", "racecheck", "synccheck")
PROGRAM = "compute-sanitizer"
TOOL_SECONDS = 120.0  # of one run over one family
LEAST_SECONDS = 30.0  # left of the slice for another run, which takes some ten seconds to begin
LONGEST_FINDING = 3000  # characters that are kept


def findings(output: str) -> int | None:
    """The number of errors and hazards in the tool's output; None if it has no summary, so did not finish.

    Summaries read `ERROR SUMMARY: 0 errors` and `RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)`.
    """
    summaries = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", output)
    return sum(map(int, summaries)) if summaries else None


def run(day: Day, name: str) -> SliceOutcome:
    """Watch the samples, family by family. Raises UnavailableError without compute-sanitizer."""
    if day.dry:
        raise UnavailableError("a dry run launches nothing that compute-sanitizer could watch")
    if shutil.which(PROGRAM) is None:
        raise UnavailableError(f"{PROGRAM} is not installed (it comes with the CUDA toolkit)")
    before = day.result(name) or {}
    rows: list[dict[str, Any]] = [row for row in before.get("runs", []) if row["findings"] is not None]
    watched = {(row["kernel"], row["tool"]) for row in rows}
    by_family: dict[str, list[tuple[Problem, Configuration]]] = {}
    for family, problem, configurations in samples(day, 1, seed=1):
        by_family.setdefault(family.name, []).extend((problem, configuration) for configuration in configurations)
    finished = True
    for tool in TOOLS:
        for family_name, work in by_family.items():
            if (family_name, tool) in watched:
                continue
            if day.left < LEAST_SECONDS:
                finished = False
                break
            rows.append(watch(day, tool, family_name, work[:day.sizes.sanitizer_configurations]))
            day.say(f"  {tool} {family_name}: {rows[-1]['findings']} findings, {rows[-1]['launched']} launches")
            day.write_result(name, {"runs": rows})
    total = sum(row["findings"] or 0 for row in rows)
    unfinished = [f"{row['tool']} of {row['kernel']}" for row in rows if row["findings"] is None]
    return SliceOutcome(finished, f"{len(rows)} runs, {total} findings" + (
        f"; without a summary: {', '.join(unfinished)}" if unfinished else ""), {"runs": rows},
        failed=bool(total or unfinished))


def watch(day: Day, tool: str, family: str, work: list[tuple[Problem, Configuration]]) -> dict[str, Any]:
    """Run the configurations of a family once under a tool."""
    asked = json.dumps([{"problem": problem.to_json(), "kernel": configuration.kernel,
                         "configuration": dict(configuration.settings)} for problem, configuration in work])
    command = [PROGRAM, "--tool", tool, "--print-limit", "20", sys.executable, "-m", "benchmarks", "launches",
               "--device", day.device.name]
    output, code = run_bounded(command, asked, min(TOOL_SECONDS, day.left))
    statuses = [json.loads(line)["status"] for line in output.splitlines() if line.startswith('{"status"')]
    count = findings(output)
    lines = [line for line in output.splitlines() if line.startswith("=====")] or output.splitlines()
    return {"kernel": family, "tool": tool, "asked": len(work), "launched": len(statuses), "findings": count,
            "statuses": statuses, "exit": code, "output": "" if count == 0 else "\n".join(lines)[:LONGEST_FINDING]}


def run_bounded(command: list[str], given: str, seconds: float) -> tuple[str, int]:
    """Run a command that starts programs of its own; all of them end with it. Returns its output and exit status."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as process:
        try:
            return process.communicate(given, timeout=seconds)[0], process.returncode
        except subprocess.TimeoutExpired:
            return "the run took too long", 124
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
