"""CommandExecutable: a program for one configuration, which times itself and reports its error or a checksum."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqtune.kernels.launches.command_declaration import Command, CommandDeclaration
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.resource_usage import ResourceUsage

from ..backend import LaunchError, OutputCheck
from .programs import Programs

RUNS = 3  # of `timeout` seconds each, within which a configuration must be checked and timed


class CommandExecutable:
    """See `seqtune.tuner.backends.backend.Executable` and `SelfChecked`."""

    resources: ResourceUsage | None = None

    def __init__(self, programs: Programs, declaration: CommandDeclaration, command: Command, build_seconds: float,
                 expected: Callable[[], float | str]) -> None:
        """`expected` returns the checksum of the default configuration or its stand-in, or why there is none."""
        self.build_seconds = build_seconds
        self.run_allowance = RUNS * declaration.timeout
        self._programs, self._declaration, self._words, self._expected = programs, declaration, command.run, expected
        self._report: Report | None = None
        self._times: list[float] = []  # reported and not used yet

    def load(self, operands: Operands) -> None:
        """Do nothing: the program makes its own data."""

    def poison(self) -> None:
        """Forget the last report."""
        self._report = None

    def run(self) -> None:
        """Run the program once. Raises LaunchError, TimeLimit."""
        self.report()
        if self._declaration.repeats == "ours":
            self._times.clear()  # the first run was the warm-up

    def report(self) -> Report:
        """Run the program and read its report. Raises LaunchError, TimeLimit."""
        folder: Path = self._declaration.folder
        result = self._programs.run(self._words, folder, self._declaration.timeout, self._declaration.memory)
        if result.code:
            raise LaunchError(f"the program {result.reason()}")
        self._report = read_report(result.output)
        self._times += self._report.seconds
        return self._report

    def time(self, launches: int) -> float:
        """The next reported time, multiplied; the program runs again when all are used. Raises LaunchError."""
        if not self._times:
            self.report()
        return self._times.pop(0) * launches

    def output_check(self) -> OutputCheck:
        """Compare the reported error with the tolerance, or the checksum with that of the default configuration."""
        report, allowed = self._report, self._declaration.tolerance
        if report is None or (report.error is None and report.checksum is None):
            return OutputCheck(None, 'the program reports neither "error" nor "checksum"')
        if report.error is not None:
            wrong = report.error > allowed
            return OutputCheck(report.error, f"wrong result: the program reports the error {report.error:.2e}, allowed "
                                           f"{allowed:.0e}" if wrong else "")
        assert report.checksum is not None
        expected = self._expected()
        if isinstance(expected, str):
            return OutputCheck(None, expected)
        error = abs(report.checksum - expected) / (abs(expected) or 1.0)
        return OutputCheck(error, f"wrong result: checksum {report.checksum}, expected {expected} (error {error:.2e}, "
                                f"allowed {allowed:.0e})" if error > allowed else "")

    def outputs(self) -> dict[str, Array]:
        """Nothing: the program keeps its result."""
        return {}

    def overrun(self) -> str | None:
        """Nothing is known about the program's memory."""
        return None

    def close(self) -> None:
        """Do nothing: built files are kept for the next executables."""


MOST_TIMES = 10_000  # of one run
_SHOWN = 60  # characters of a wrong line in a message


@dataclass(frozen=True, slots=True)
class Report:
    """The words of one run of a program about itself: its times, and its error or a checksum."""

    seconds: tuple[float, ...]
    error: float | None
    checksum: float | None


def read_report(output: bytes) -> Report:
    """Read the last line of a program's output. Raises LaunchError that says what is wrong with it."""
    try:
        lines = output.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise LaunchError("the program's output is not text") from None
    line = next((line for line in reversed(lines) if line.strip()), "")
    if not line:
        raise LaunchError('the program printed nothing; its last line must be {"seconds": ..., "error": ...}')
    try:
        content = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as fault:
        reason = f" ({fault})" if isinstance(fault, _ConstantError) else ""
        raise LaunchError(f"the last line of the program's output is no JSON object: {line!r:.{_SHOWN}}{reason}"
                          ) from None
    if not isinstance(content, dict):
        raise LaunchError(f"the last line of the program's output is no JSON object: {line!r:.{_SHOWN}}")
    if "seconds" not in content:
        raise LaunchError('the program reports no "seconds"')
    times = content["seconds"] if isinstance(content["seconds"], list) else [content["seconds"]]
    if not 1 <= len(times) <= MOST_TIMES:
        raise LaunchError(f"the program reports {len(times)} times; 1 to {MOST_TIMES} are needed")
    seconds = tuple(_number("seconds", value) for value in times)
    if min(seconds) <= 0:
        raise LaunchError(f"the program reports {min(seconds)} seconds; a time is above 0")
    error = None if content.get("error") is None else _number("error", content["error"])
    if error is not None and error < 0:
        raise LaunchError(f"the program reports the error {error}; it is at least 0")
    checksum = None if content.get("checksum") is None else _number("checksum", content["checksum"])
    return Report(seconds, error, checksum)


class _ConstantError(ValueError):
    """A number that JSON does not have."""


def _refuse(constant: str) -> Any:
    raise _ConstantError(f"{constant} is not JSON")


def _number(name: str, value: object) -> float:
    """A finite number. Raises LaunchError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LaunchError(f'the program reports "{name}" as {value!r:.{_SHOWN}}, which is no number')
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise LaunchError(f'the program reports "{name}" as a number that is too large')
    return number
