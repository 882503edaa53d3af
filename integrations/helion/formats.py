"""Helion's log of a search: `HELION_AUTOTUNE_LOG=run` writes run.csv, a row for each configuration that it tried.

The rows tell status, milliseconds and the configuration as text. `HELION_AUTOTUNE_LOG_DETAILS=1` adds run.meta.jsonl,
which tells the kernel, the shapes of its inputs and the GPU; without it, the kernel has the file's name, and the user
names the GPU. The kernel must be declared, with parameters named as Helion's settings: `num_warps`, and `block_sizes_0`
for the first element of `block_sizes`. Settings that it does not declare are ignored: of configurations that then are
equal, the fastest counts.

Helion appends every search to the same file. Times of several searches do not compare, since nothing tells whether
their inputs had the same types and values: where searches would share a problem, each has one of its own, with the
feature `search`.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from seqtune.data.csv_file import read_csv
from seqtune.data.formats.declared_rows import DeclaredRow, imported
from seqtune.data.formats.foreign_records import as_listed, is_setting, milliseconds, plain_word
from seqtune.data.formats.format import (
    Format,
    ImportResult,
    Reader,
    Report,
    check_columns,
    check_names,
    first_reason,
    report_of,
)
from seqtune.data.gpu_names import BACKEND, gpu_of
from seqtune.data.json_content import parse_json
from seqtune.data.record import Status
from seqtune.errors import DeviceError, FormatError, KernelError, MisuseError, ProblemError, shown
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.libraries.table import libraries_in_use
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace

LARGEST_FILE = 100_000_000  # bytes
LONGEST_CONFIG = 20_000  # characters
MOST_SIZES = 64  # of all inputs of a kernel
_LONGEST_ID = 80  # characters of a run_id in a problem
COLUMNS = ("run_id", "status", "perf_ms", "compile_time_s", "config")
STATUSES = {"ok": Status.CORRECT, "error": Status.RUNTIME, "timeout": Status.TIMEOUT}
ELEMENT = re.compile(r"(?P<key>[a-z][a-z0-9_]*)_(?P<index>[0-9]{1,3})")  # block_sizes_0: element 0 of block_sizes


class _Run(NamedTuple):
    """A search, as run.meta.jsonl describes it."""

    kernel: str
    sizes: tuple[int, ...]  # of all inputs, one after another
    gpu: str


@dataclass(slots=True)
class _Search:
    """One search of a log: what it tuned, and the last measurement of each configuration that it tried."""

    path: Path
    run_id: str  # empty without details
    device: Device
    problem: Problem
    kernel: Kernel
    measured: dict[str, DeclaredRow] = field(default_factory=dict)  # by the configuration's text

    @property
    def task(self) -> tuple[str, str, str]:
        """The key of what was tuned."""
        return self.device.key, self.problem.key, self.kernel.name


def _read(files: Sequence[Path], devices: Sequence[str | Device], keys: Sequence[str] = ()) -> ImportResult:
    skipped: list[Counter[str]] = [Counter() for _ in files]
    searches = [_searches(file, devices, keys, reasons) for file, reasons in zip(files, skipped, strict=True)]
    notes = tuple(_tell_apart([search for own in searches for search in own]))
    rows: list[DeclaredRow] = []
    reports: list[Report] = []
    for file, own, reasons in zip(files, searches, skipped, strict=True):
        measured = [row._replace(problem=search.problem) for search in own for row in search.measured.values()]
        valid = _in_their_spaces(_fastest(measured), reasons)
        reports.append(report_of(file, len(valid), reasons))
        rows += valid
    if not any(row.status is Status.CORRECT for row in rows):
        raise FormatError(f"{files[0]} holds no time of a configuration{first_reason(reports)}")
    result = imported(rows, "helion: " + ", ".join(file.name for file in files), reports)
    return replace(result, notes=(*notes, *result.notes))


def _named(keys: Sequence[str]) -> Reader:
    """The reader of logs whose kernels' inputs have sizes of these names, in order; `_` begins those to leave out."""
    check_names([key for key in keys if not key.startswith("_")])
    return partial(_read, keys=tuple(keys))


HELION = Format(("*.csv",), read=_read, devices=1, named=_named)


def _searches(path: Path, devices: Sequence[str | Device], keys: Sequence[str],
              skipped: Counter[str]) -> list[_Search]:
    """The searches of a file. Raises FormatError, and MisuseError if more must be said.

    Without details a search has no run_id; the clock, which begins anew with each search, tells where one begins.
    """
    runs = _runs(path)
    searches: dict[tuple[str, int], _Search] = {}
    restarts, clock = 0, 0.0
    for line in _lines(path, skipped):
        run_id, time = line["run_id"], _float(line.get("timestamp_s", ""))
        restarts += time < clock
        clock = time or clock
        key = run_id, 0 if run_id else restarts
        if key not in searches:
            searches[key] = _Search(path, run_id, *_task(path, runs.get(run_id), devices, keys))
        _measure(searches[key], line, skipped)
    return list(searches.values())


def _measure(search: _Search, line: Mapping[str, str], skipped: Counter[str]) -> None:
    """Add the measurement of a row to its search, or count why there is none."""
    status = STATUSES.get(line["status"])
    if status is None:
        skipped[f"the status {line['status'][:20]!r}"] += 1
        return
    seconds = milliseconds(_float(line["perf_ms"])) if status is Status.CORRECT else float("inf")
    settings = _settings(search.kernel, line["config"])
    if not seconds:
        skipped["no time"] += 1
    elif isinstance(settings, str):
        skipped[settings] += 1
    else:
        search.measured[line["config"]] = DeclaredRow(
            search.device, search.problem, search.kernel, settings, "helion", status, seconds,
            max(0.0, _float(line["compile_time_s"])))


def _tell_apart(searches: Iterable[_Search]) -> list[str]:
    """Give searches that share a problem a problem each, and return notes about them. Raises MisuseError."""
    groups: dict[tuple[str, str, str], list[_Search]] = {}
    for search in searches:
        if search.measured:
            groups.setdefault(search.task, []).append(search)
    notes = []
    for group in groups.values():
        if len(group) == 1:
            continue
        problem = group[0].problem
        files = ", ".join(dict.fromkeys(search.path.name for search in group))
        if not operation(problem.type).is_open:
            raise MisuseError(f"{files}: {len(group)} searches have the problem {problem.brief()}, and their times do "
                              "not compare; import the rows of one search (one run_id)")
        names: dict[str | int, None] = {}
        for number, search in enumerate(group, 1):
            name: str | int = plain_word(search.run_id, "run")[:_LONGEST_ID] if search.run_id else number
            names[name if name not in names else f"{name}-{number}"] = None
        for name, search in zip(names, group, strict=True):
            search.problem = Problem.make(problem.type, **{**dict(problem), "search": name})
        notes.append(f"{files}: {len(group)} searches have the problem {problem.brief()}; their times do not compare, "
                     "so each has a problem of its own (search=...)")
    return notes


def _fastest(rows: Sequence[DeclaredRow]) -> list[DeclaredRow]:
    """The fastest row of each configuration of a problem on a device."""
    best: dict[tuple[object, ...], DeclaredRow] = {}
    for row in rows:
        key = (row.device.key, row.problem.key, row.kernel.name, *row.settings.values())
        if key not in best or row.seconds < best[key].seconds:
            best[key] = row
    return list(best.values())


def _in_their_spaces(rows: Sequence[DeclaredRow], skipped: Counter[str]) -> list[DeclaredRow]:
    """The rows that are valid configurations; the others are counted by reason.

    `declared_rows.in_their_spaces` needs operations with a table of features, which `recorded` lacks. A search has one
    problem, so that its space is enumerated once.
    """
    spaces: dict[tuple[str, str], SearchSpace | str] = {}
    valid: list[DeclaredRow] = []
    for row in rows:
        key = row.device.key, row.problem.key
        if key not in spaces:
            try:
                spaces[key] = SearchSpace(row.kernel, row.problem, row.device)
            except KernelError as error:
                spaces[key] = str(error)
        space = spaces[key]
        reason = space if isinstance(space, str) else space.why_not(Configuration.of(row.kernel.name, row.settings))
        if reason is None:
            valid.append(row)
        else:
            skipped[f"{row.kernel.name}: {reason}"[:200]] += 1
    return valid


def _lines(path: Path, skipped: Counter[str]) -> list[dict[str, str]]:
    """The rows of a log by column. Raises FormatError.

    A row with another number of values, such as the last one of a search that was killed, is counted and left out.
    """
    names, lines = read_csv(path, LARGEST_FILE)
    check_columns(path, names, COLUMNS, "log of Helion's autotuner")
    if not lines:
        raise FormatError(f"{path} holds no row")
    whole = [values for _, values in lines if len(values) == len(names)]
    if len(whole) < len(lines):
        skipped["a row with more or fewer values than columns"] += len(lines) - len(whole)
    return [dict(zip(names, values, strict=True)) for values in whole]


def _runs(path: Path) -> dict[str, _Run]:
    """The searches that the file beside it describes, by run_id; none without it. Raises FormatError."""
    beside = path.with_suffix(".meta.jsonl")
    if not beside.is_file():
        return {}
    runs: dict[str, _Run] = {}
    for line in read_bounded(beside, LARGEST_FILE).splitlines():
        run = parse_json(line, beside)
        words = [run.get(name) if isinstance(run, dict) else None for name in (
            "run_id", "kernel_name", "input_shapes", "hardware")]
        if not all(isinstance(word, str) for word in words):
            raise FormatError(f"{beside} does not describe searches of Helion")
        run_id, kernel, shapes, gpu = map(str, words)
        sizes = re.findall(r"[0-9]{1,9}", shapes[:10_000])
        runs[run_id] = _Run(kernel, tuple(map(int, sizes[:MOST_SIZES])), gpu)
    return runs


def _task(path: Path, run: _Run | None, devices: Sequence[str | Device], keys: Sequence[str],
          ) -> tuple[Device, Problem, Kernel]:
    """The device, problem and declared kernel of a search. Raises MisuseError."""
    name = path.stem if run is None else run.kernel
    kernel = next((library.kernel(full) for library in libraries_in_use() for full in library.table
                   if full.partition(".")[2] == name and library.may_run_on(BACKEND)), None)
    if kernel is None:
        table = f"[kernels.{name if name.isidentifier() else json.dumps(name)}]"  # whole, because users type it
        raise MisuseError(f"{path}: the kernel {shown(name, 60)} is not declared; --library names a library file with "
                          f"{table}, backends = [\"{BACKEND}\"], and Helion's settings as parameters")
    device = _device(path, run, devices)
    sizes = () if run is None else run.sizes
    if len(keys) > len(sizes):
        raise MisuseError(f"{path}: --keys names {len(keys)} sizes, and {len(sizes)} of the inputs are known"
                          + ("" if sizes else " (HELION_AUTOTUNE_LOG_DETAILS=1 writes them beside the log)"))
    features: dict[str, Value] = {key: size for key, size in zip(keys, sizes, strict=False) if not key.startswith("_")}
    if operation(kernel.operation).is_open:
        features |= {f"size_{number}": size for number, size in enumerate(sizes) if number >= len(keys)}
        features["kernel"] = name
    try:
        return device, Problem.make(kernel.operation, **features), kernel
    except ProblemError as error:
        raise MisuseError(f"{path}: {error}; --keys names the sizes of the inputs in order, for example "
                          f"{','.join(feature.name for feature in operation(kernel.operation).features[:3])}") from None


def _device(path: Path, run: _Run | None, devices: Sequence[str | Device]) -> Device:
    """The GPU that the user or the file names. Raises MisuseError."""
    given = devices[0] if devices else run.gpu if run is not None else ""
    if not given:
        raise MisuseError(f"{path} does not name its GPU; name it, for example --device {BACKEND}:h200")
    try:
        return given if isinstance(given, Device) else gpu_of(given)
    except DeviceError as error:
        raise MisuseError(f"{path}: {error}") from None


def _settings(kernel: Kernel, text: str) -> dict[str, Setting] | str:
    """The settings of the kernel's parameters in a configuration `Config(num_warps=4, ...)`, or why there are none."""
    config = _config(text)
    if config is None:
        return "no configuration of Helion's"
    settings: dict[str, Setting] = {}
    for name, parameter in kernel.by_name.items():
        match = ELEMENT.fullmatch(name)
        value: object = config.get(name)
        if match is not None and isinstance(values := config.get(match["key"]), list):
            value = values[int(match["index"])] if int(match["index"]) < len(values) else None
        if value is None or not is_setting(value):
            return f"no value of {name}"
        settings[name] = as_listed(parameter.values)(value)  # true, where the library declares 0 and 1
    return settings


def _config(text: str) -> Mapping[str, object] | None:
    """The keyword arguments of a text `Config(...)`, all of them literals; None if it is none."""
    if len(text) > LONGEST_CONFIG:
        return None
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Config"
                and not call.args):
            return None
        return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg is not None}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _float(text: str) -> float:
    return float(text) if re.fullmatch(r"[0-9]{1,12}(?:\.[0-9]{1,12})?", text, re.ASCII) else 0.0
