"""Report: the times and the error or checksum that a program prints, as one JSON object in its last line."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from ..backend import LaunchError

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
