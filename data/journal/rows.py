"""JournalRows: rows of a journal as records. A journal may be damaged or made by anybody; every value is checked.

`record_of` checks a row. The BatchReader checks and parses many rows together, which takes a third of the time; if
anything in them looks unusual, each row is checked by itself, which also tells what is wrong and where.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, compress
from operator import not_
from typing import Any

from seqtune.errors import ProblemError, one_line
from seqtune.kernels.arithmetic import LARGEST_NUMBER
from seqtune.kernels.kernel import Configuration, is_setting
from seqtune.kernels.operations.table import is_known, is_ours
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..record import Measurement, Record, Status
from .batches import CORRECT, STATUSES, JournalBatch
from .schema import FIELDS

MOST_SAMPLES = 100_000  # samples of one trial
LONGEST_TIME = 1e9  # seconds
LATEST = 253402300799.0  # seconds since 1970: the end of the year 9999, the last that calendars know
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
WORDS = ("kernel", "toolchain", "message", "run", "host", "machine", "session", "stage")
ROWS = 128  # rows of a batch: a hostile row takes a megabyte in the file, and at most four in memory
MOST_TEXT = 1_000_000  # characters of a batch's samples; 30,000 are usual
MOST_TEXTS = 30_000  # configurations in the cache, of at most LONGEST_TEXT characters each: 50 MB
LONGEST_TEXT = 1_000
NAMES = ("id", *(name.strip(' "') for name in FIELDS.split(",")))

Row = tuple[Any, ...]


class _Doubt(Exception):
    """A batch has a value that only the checks of single rows can decide on."""


def problem_of(text: object) -> Problem | None:
    """A stored problem; None if no library in use declares its operation, or if a library's operation refuses it.

    Raises ValueError, also if an operation of ours refuses it.
    """
    try:
        return read_problem(text)
    except ProblemError as error:
        if is_ours(object_of(text)["type"]):
            raise ValueError(f"a problem: {one_line(error)}") from None
        return None  # the features or rules of the library's file have changed


def read_problem(text: object) -> Problem | None:
    """A stored problem; None if no library in use declares its operation. Raises ValueError and ProblemError."""
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
    for name in WORDS:
        _check(name, row[name], isinstance(row[name], str))
    _check("kernel_version", row["kernel_version"], _is_whole(row["kernel_version"]))
    _check("when", row["when"], _is_number(row["when"], -LATEST, LATEST))
    _check("budget", row["budget"], _is_number(row["budget"], 0.0, math.inf))
    for name in ("loaded", "disturbed"):
        _check(name, row[name], _is_whole(row[name]) and row[name] >= 0)
    return Record(problem, device, row["kernel_version"], configuration_of(row["kernel"], row["configuration"]),
                  row["toolchain"], _measurement(row), float(row["when"]), row["run"], row["host"], row["machine"],
                  row["session"], row["stage"], float(row["budget"]), bool(row["loaded"]))


def configuration_of(kernel: str, text: object) -> Configuration:
    """A stored configuration. Raises ValueError."""
    settings = _parsed(text, "configuration")
    _check("configuration", text, isinstance(settings, dict) and all(map(is_setting, settings.values())))
    return Configuration.of(kernel, settings)


def resources_of(text: object) -> ResourceUsage:
    """The stored resources of a built configuration. Raises ValueError."""
    return ResourceUsage.from_json(_parsed(text, "resources"))


def message_of(text: str) -> str:
    """A stored message, without control characters."""
    return _CONTROL.sub(" ", text)


def _measurement(row: Mapping[str, Any]) -> Measurement:
    status, error, build, usage = row["status"], row["error"], row["build_seconds"], row["resources"]
    _check("status", status, status in set(Status))
    _check("error", error, error is None or (isinstance(error, float | int) and not math.isnan(error)))
    _check("build_seconds", build, _is_number(build, 0.0, LONGEST_TIME))
    samples = _parsed(row["samples"], "samples")
    _check("samples", row["samples"], isinstance(samples, list) and len(samples) <= MOST_SAMPLES
           and all(_is_number(sample, 0.0, LONGEST_TIME) and sample > 0 for sample in samples))
    _check("samples", row["samples"], bool(samples) or status != Status.CORRECT)
    resources = None if usage is None else resources_of(usage)
    return Measurement(Status(status), tuple(map(float, samples)), None if error is None else float(error),
                       float(build), message_of(row["message"]), resources=resources,
                       disturbed=row["disturbed"])


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


class BatchReader:
    """Makes batches of rows. Parsed texts are cached, since many rows have the same ones."""

    def __init__(self, table: str, problems: Mapping[int, Problem | None], devices: Mapping[int, str],
                 check_row: Callable[[Mapping[str, Any], Problem, str], Record] = record_of) -> None:
        self._table, self._problems, self._devices, self._check_row = table, problems, devices, check_row
        self._keys = {number: problem.key for number, problem in problems.items() if problem is not None}
        self._configurations: dict[tuple[str, str], tuple[Configuration, str]] = {}
        self._resources: dict[str, ResourceUsage] = {}

    def batch(self, rows: Sequence[Row]) -> JournalBatch:
        """The batch of rows (`NAMES`), without those whose problem is None. Raises ValueError, which names the row."""
        try:
            return self._quick(rows)
        except (_Doubt, ValueError, KeyError, TypeError, RecursionError):
            return JournalBatch.of_records(list(self._row_by_row(rows)))

    def _row_by_row(self, rows: Sequence[Row]) -> Iterator[Record]:
        for values in rows:
            row = dict(zip(NAMES, values, strict=True))
            try:
                _check("problem", row["problem"], row["problem"] in self._problems)
                problem = self._problems[row["problem"]]
                if problem is None:
                    continue
                _check("device", row["device"], row["device"] in self._devices)
                yield self._check_row(row, problem, str(self._devices[row["device"]]))
            except ValueError as error:
                raise ValueError(f"row {row['id']} of {self._table}: {error}") from None

    def _quick(self, rows: Sequence[Row]) -> JournalBatch:
        problems = [self._problems[row[1]] for row in rows]
        known = [problem for problem in problems if problem is not None]
        if len(known) < len(rows):
            rows = [row for row, problem in zip(rows, problems, strict=True) if problem is not None]
            if not rows:
                return JournalBatch.of_records([])
        columns = dict(zip(NAMES, zip(*rows, strict=True), strict=True))
        for name in WORDS:
            _expect(set(map(type, columns[name])) == {str})
        _expect(STATUSES.keys() >= set(columns["status"]))
        _expect(_are_whole(columns["kernel_version"], -LARGEST_NUMBER) and _are_whole(columns["loaded"], 0)
                and _are_whole(columns["disturbed"], 0))
        remembered = self._configurations.get
        parsed = [remembered(pair) or self._parsed(pair)
                  for pair in zip(columns["kernel"], columns["configuration"], strict=True)]
        numbers = {name: _numbers(columns[name], least, most) for name, least, most in (
            ("build_seconds", 0.0, LONGEST_TIME), ("when", -LATEST, LATEST), ("budget", 0.0, math.inf))}
        return JournalBatch(
            known, [self._keys[number] for number in columns["problem"]],
            [str(self._devices[number]) for number in columns["device"]], columns["kernel_version"],
            [configuration for configuration, _ in parsed], columns["kernel"], [key for _, key in parsed],
            columns["toolchain"], columns["status"], _samples(columns["samples"], columns["status"]),
            _errors(columns["error"]), numbers["build_seconds"], _messages(columns["message"]), numbers["when"],
            columns["run"], columns["host"], columns["machine"], columns["session"], columns["stage"],
            numbers["budget"], list(map(bool, columns["loaded"])), self._usages(columns["resources"]),
            columns["disturbed"])

    def _parsed(self, pair: tuple[str, Any]) -> tuple[Configuration, str]:
        """The configuration of a kernel and a text, and its key."""
        configuration = configuration_of(*pair)
        parsed = configuration, configuration.key
        if len(self._configurations) >= MOST_TEXTS:
            self._configurations.clear()
        if len(pair[1]) <= LONGEST_TEXT >= len(pair[0]):
            self._configurations[pair] = parsed
        return parsed

    def _usages(self, column: Sequence[Any]) -> list[ResourceUsage | None]:
        if not any(column):
            _expect(set(column) == {None})
            return [None] * len(column)
        usages: list[ResourceUsage | None] = []
        for text in column:
            usage = None if text is None else self._resources.get(text) or resources_of(text)
            if usage is not None and len(self._resources) < MOST_TEXTS and len(text) <= LONGEST_TEXT:
                self._resources[text] = usage
            usages.append(usage)
        return usages


def _expect(usual: bool) -> None:
    if not usual:
        raise _Doubt


def _are_whole(column: Sequence[Any], least: int) -> bool:
    return set(map(type, column)) == {int} and least <= min(column) and max(column) <= LARGEST_NUMBER


def _numbers(column: Sequence[Any], least: float, most: float) -> Sequence[float]:
    _expect(set(map(type, column)) == {float} and least <= min(column) and max(column) <= most)  # SQLite has no NaN
    return column


def _errors(column: Sequence[Any]) -> Sequence[float | None]:
    _expect(set(map(type, column)) <= {float, type(None)})
    return column


def _messages(column: Sequence[str]) -> Sequence[str]:
    return column if "".join(column).isprintable() else [message_of(text) for text in column]


def _samples(column: Sequence[Any], statuses: Sequence[str]) -> list[list[float]]:
    """The samples of all rows, parsed as one text: there is a bracket at each end of each row's text, and no other."""
    rows, joined = len(column), ",\n".join(column)
    _expect(len(joined) <= MOST_TEXT and joined.startswith("[") and joined.endswith("]")
            and joined.count("[") == rows == joined.count("]")
            and joined.count("\n") == joined.count("],\n[") == rows - 1
            and '"' not in joined and "N" not in joined)  # no brackets in words; no NaN, which json reads
    samples: list[list[float]] = json.loads(f"[{joined}]")
    _expect(max(map(len, samples)) <= MOST_SAMPLES)
    _expect(all(samples) or CORRECT not in compress(statuses, map(not_, samples)))
    values = list(chain.from_iterable(samples))
    _expect(not values or (set(map(type, values)) == {float} and min(values) > 0 and max(values) <= LONGEST_TIME))
    return samples
