"""JournalRows: rows of a journal as records. A journal may be damaged or made by anybody; every value is checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.feature import LARGEST_NUMBER
from seqtune.kernels.operations.table import is_known
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from .record import Measurement, Record, Status

MOST_SAMPLES = 100_000  # of one trial
LONGEST_TIME = 1e9  # seconds
LATEST = 253402300799.0  # seconds since 1970: the end of the year 9999, the last that calendars know
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WORDS = ("kernel", "toolchain", "message", "run", "host", "machine", "session", "stage")


def problem_of(text: object) -> Problem | None:
    """A stored problem; None if no library in use declares its operation. Raises ValueError or a SeqtuneError."""
    features = _parsed(text, "a problem")
    if not isinstance(features, dict) or not isinstance(features.get("type"), str):
        raise ValueError(f"{text!r:.60} is not a problem")
    return Problem.from_json(features) if is_known(features["type"]) else None


def object_of(text: object) -> dict[str, Any]:
    """A stored JSON object. Raises ValueError."""
    value = _parsed(text, "an object")
    if not isinstance(value, dict):
        raise ValueError(f"{text!r:.60} is not a JSON object")
    return value


def record_of(row: Mapping[str, Any], problem: Problem, device: str) -> Record:
    """The record of a row, given by the names of its columns, of a problem on a device (its key).

    Raises ValueError, which names the column.
    """
    for name in _WORDS:
        _check(name, row[name], isinstance(row[name], str))
    _check("kernel_version", row["kernel_version"], _is_whole(row["kernel_version"]))
    _check("when", row["when"], _is_number(row["when"], -LATEST, LATEST))
    _check("budget", row["budget"], _is_number(row["budget"], 0.0, math.inf))
    for name in ("loaded", "disturbed"):
        _check(name, row[name], _is_whole(row[name]) and row[name] >= 0)
    return Record(problem, device, row["kernel_version"], Configuration.of(row["kernel"], _settings(row)),
                  row["toolchain"], _measurement(row), float(row["when"]), row["run"], row["host"], row["machine"],
                  row["session"], row["stage"], float(row["budget"]), bool(row["loaded"]))


def _measurement(row: Mapping[str, Any]) -> Measurement:
    status, error, build, usage = row["status"], row["error"], row["build_seconds"], row["resources"]
    _check("status", status, status in set(Status))
    _check("error", error, error is None or (isinstance(error, float | int) and not math.isnan(error)))
    _check("build_seconds", build, _is_number(build, 0.0, LONGEST_TIME))
    samples = _parsed(row["samples"], "samples")
    _check("samples", row["samples"], isinstance(samples, list) and len(samples) <= MOST_SAMPLES
           and all(_is_number(sample, 0.0, LONGEST_TIME) and sample > 0 for sample in samples))
    _check("samples", row["samples"], bool(samples) or status != Status.CORRECT)
    resources = None if usage is None else ResourceUsage.from_json(_parsed(usage, "resources"))
    return Measurement(Status(status), tuple(map(float, samples)), None if error is None else float(error),
                       float(build), _CONTROL.sub(" ", row["message"]), resources=resources,
                       disturbed=row["disturbed"])


def _settings(row: Mapping[str, Any]) -> dict[str, int | str]:
    settings = _parsed(row["configuration"], "configuration")
    _check("configuration", row["configuration"], isinstance(settings, dict) and all(
        isinstance(value, str) or _is_whole(value) for value in settings.values()))
    return dict(settings)


def _parsed(text: object, name: str) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        raise ValueError(f"{name} {text!r:.40} is not JSON") from None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER


def _is_number(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def _check(name: str, value: object, sound: bool) -> None:
    if not sound:
        raise ValueError(f"the column {name} has {value!r:.40}")
