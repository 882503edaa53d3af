"""Import of MIOpen's perf-dbs and find-dbs into a data set.

A label of a perf-db becomes a row of status `chosen` and run `tuned`: the fastest configuration in MIOpen's tuning,
without its time. An item of a find-db becomes a `correct` row of run `find`: a solver's best time. Its
configuration is unknown (`{}`), so these rows compare solvers, not configurations.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from seqtune.data.dataset import ADDED, SCHEMA, Dataset
from seqtune.data.formats.format import Format, ImportResult
from seqtune.data.record import Status
from seqtune.errors import DeviceError, FormatError, cut
from seqtune.kernels.devices.device import Device
from seqtune.kernels.membership import Membership
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

from ..kernels.gpus import device as gpu
from ..kernels.gpus import device_of, is_known
from ..kernels.solver import PREFIX, SOLVERS, Solver, WrittenField, find_solver
from ..kernels.xdlops_tables import RowSolver, with_table
from .files import FindDb, PerfDb, count, read
from .terms import true_terms, why_unknown

MOST_EXPLAINED = 5000  # problems whose words or sizes are not known here; each takes up to half a millisecond
TUNED, FIND = "tuned", "find"
_TABLE = "miopen table"  # provenance: a text form of each row of a solver's table
Tables: TypeAlias = dict[str, dict[str, str]]  # solver -> text form by row and whether K is split


@dataclass
class Imported:
    """One file's rows in the columns of a data set, its device and problems, and the numbers of skipped rows."""

    path: Path
    device: Device
    rows: pd.DataFrame
    problems: dict[str, Problem]
    kind: str  # find-db or perf-db
    skipped: Counter[str] = field(default_factory=Counter)
    algorithms: dict[str, str] = field(default_factory=dict)

    def report(self) -> dict[str, Any]:
        """The report of this file that the user gets, as JSON."""
        return {"path": str(self.path), "device": self.device.name, "kind": self.kind,
                "rows": len(self.rows), "problems": len(self.problems),
                "solvers": {str(name).removeprefix(PREFIX): int(count) for name, count in
                            self.rows["kernel"].value_counts().sort_index().items()},
                "skipped": dict(sorted(self.skipped.items()))}


def read_files(paths: Sequence[Path], devices: Sequence[Device] = ()) -> tuple[Dataset, list[dict[str, Any]]]:
    """Read all files into one data set, with a report of each file. A solver's shortest time counts.

    Of several labels of a problem and solver, that of the user's perf-db counts, else the first, as in MIOpen.
    `devices` are the user's devices, for files whose names contain no GPU or not all of its facts. Raises DeviceError
    if no file is of one of them, FormatError if a file is damaged.
    """
    tables: Tables = {}
    file_devices = [device_of(path, devices) for path in paths]
    names = sorted({device_of_file.name for device_of_file in file_devices})
    for device in devices:
        if device.name not in names:
            raise DeviceError(f"none of the files is of {device.name:.60}; their names contain {', '.join(names):.200}")
    files = [read_file(path, device_of_file, tables) for path, device_of_file in zip(paths, file_devices, strict=True)]
    _keep_one_label(sorted(files, key=lambda file: ".udb" not in file.path.name))
    rows = pd.concat([file.rows for file in files], ignore_index=True).sort_values("seconds", kind="stable")
    rows = rows.drop_duplicates(["device", "problem", "kernel", "configuration", "run"]).sort_index()
    provenance = {"source": "MIOpen: " + ", ".join(path.name for path in paths)}
    algorithms = {name: algorithm for file in files for name, algorithm in file.algorithms.items()}
    if algorithms:
        provenance["miopen algorithms"] = json.dumps(algorithms, sort_keys=True)
    provenance |= {f"{_TABLE} {name}": json.dumps(list(texts.values())) for name, texts in sorted(tables.items())}
    problems = {key: problem for file in files for key, problem in file.problems.items()}
    rows = rows.astype(dict.fromkeys(rows.select_dtypes(exclude="number").columns, object))
    data = Dataset(rows.reset_index(drop=True), {file.device.key: file.device for file in files}, problems,
                   provenance=provenance)
    return data, [file.report() for file in files]


def _keep_one_label(files: Sequence[Imported]) -> None:
    """Keep the first label of each problem, solver and device in these files, and count the others."""
    keys = ["device", "problem", "kernel", "run"]
    rows = pd.concat([file.rows[keys] for file in files])
    further = (rows.duplicated() & (rows["run"] == TUNED)).to_numpy()
    ends = np.cumsum([len(file.rows) for file in files])
    for file, left_out in zip(files, np.split(further, ends[:-1]), strict=True):
        if left_out.any():
            file.rows = file.rows[~left_out]
            file.skipped["another label of the same problem and solver"] += int(left_out.sum())


def as_gpu(device: str | Device) -> Device:
    """The GPU of a name as in MIOpen, with or without facts after it. Raises DeviceError."""
    return device if isinstance(device, Device) else gpu(f"miopen:{device.strip().removeprefix('miopen:')}")


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    """Read all files into one data set, with a note for each GPU whose facts are guessed from its name."""
    data, reports = read_files(files, [as_gpu(device) for device in devices])
    stated = {as_gpu(device).name for device in devices if isinstance(device, Device) or len(device.split()) > 1}
    notes = tuple(
        f"no facts are known here of {device.architecture}: those of {device.name} are guessed from its name; "
        f"--device '{device.name.removeprefix('miopen:')} compute_units={device.compute_units}' sets them"
        for device in data.devices.values() if not is_known(device) and device.name not in stated)
    return ImportResult(data, reports, notes)


MIOPEN = Format(("gfx*.db", "gfx*.db.bz2", "gfx*.fdb.txt", "gfx*.fdb.txt.bz2", "gfx*.udb", "gfx*.udb.txt",
                 "gfx*.ufdb.txt", "gfx*.db.txt"), read=_read, devices=None)


def solver_of(data: Dataset, name: str) -> Solver:
    """The solver with the rows of MIOpen's table that the data set contains. Raises KernelError and FormatError."""
    return with_table(find_solver(name), tables_of(data))


def tables_of(data: Dataset) -> dict[str, tuple[str, ...]]:
    """The rows of MIOpen's tables that a data set contains, as texts by solver. Raises FormatError."""
    tables = {}
    for key, text in data.provenance.items():
        if key.startswith(f"{_TABLE} "):
            try:
                tables[key.removeprefix(f"{_TABLE} ")] = tuple(map(str, json.loads(text)))
            except (ValueError, TypeError):
                raise FormatError(f"the data set's {key:.80} is damaged") from None
    return tables


def read_file(path: Path, device: Device, tables: Tables | None = None) -> Imported:
    """Read one file of MIOpen's. The rows of solvers' tables in it are added to `tables`. Raises FormatError."""
    content = read(path)
    if not content.columns["direction"]:
        raise FormatError(f"{path} holds no problem of MIOpen's")
    columns = {name: column if isinstance(column[0], str) else np.array(column, dtype=np.int64)
               for name, column in content.columns.items()}
    features = true_terms(columns)  # type: ignore[arg-type]
    problems, sound = ProblemColumns.read("convnd", features)
    skipped = content.skipped
    reasons = np.full(len(problems), None, dtype=object)
    reasons[~sound] = "another problem whose words or sizes are not known here"
    for row in np.flatnonzero(~sound)[:MOST_EXPLAINED].tolist():
        reasons[row] = why_unknown(columns, features, row)  # type: ignore[arg-type]
    for broken, reason in problems.refusals():
        reasons[broken & sound] = f"a problem where {reason}"
    if isinstance(content, PerfDb):
        return _labels(path, device, content, problems, reasons, skipped, {} if tables is None else tables)
    return _times(path, device, content, problems, reasons, skipped)


def _times(path: Path, device: Device, content: FindDb, problems: ProblemColumns, reasons: Any,
           skipped: Counter[str]) -> Imported:
    keyed_problems = problems.problems()
    keys = np.array([key for key, _ in keyed_problems], dtype=object)
    frame = pd.DataFrame(content.times, columns=["problem", "solver", "seconds", "workspace"])
    frame = _kept(frame, reasons, skipped)
    indices = frame["problem"].to_numpy(np.int64)  # without rows, the column's type is object
    rows = _rows(device, keys[indices], PREFIX + frame["solver"], "{}", Status.CORRECT, frame["seconds"].to_numpy(),
                 FIND, frame["workspace"].to_numpy())
    used = dict(keyed_problems[index] for index in np.unique(indices).tolist())
    return Imported(path, device, rows, used, "find-db", skipped, content.algorithms)


def _labels(path: Path, device: Device, content: PerfDb, problems: ProblemColumns, reasons: Any,
            skipped: Counter[str], tables: Tables) -> Imported:
    keyed_problems = problems.problems()
    keys = np.array([key for key, _ in keyed_problems], dtype=object)
    frame = pd.DataFrame(content.labels, columns=["problem", "solver", "params"])
    frame = _kept(frame, reasons, skipped)
    parts = []
    for name, labels in frame.groupby("solver", sort=True):
        if name not in SOLVERS:
            reason = f"{cut(str(name), 60)}: no search space is known"
            count(skipped, reason, "another solver without a search space that is known", len(labels))
            continue
        solver = find_solver(str(name))
        indices, settings = _settings(solver, labels, problems, device, skipped, tables)
        parts.append(_rows(device, keys[indices], solver.kernel.name, settings, Status.CHOSEN, np.inf, TUNED, 0))
    rows = pd.concat(parts, ignore_index=True) if parts else _rows(device, keys[:0], "", "", Status.CHOSEN, 0, TUNED, 0)
    used = set(rows["problem"])
    used_problems = {key: problem for key, problem in keyed_problems if key in used}
    return Imported(path, device, rows, used_problems, "perf-db", skipped)


def _kept(frame: pd.DataFrame, reasons: Any, skipped: Counter[str]) -> pd.DataFrame:
    """Keep the rows whose problem has no reason against it, and count the others by reason."""
    against = reasons[frame["problem"].to_numpy()] if len(frame) else np.array([], dtype=object)
    for reason in against:
        if reason is not None:
            count(skipped, reason, "another problem whose words or sizes are not known here")
    return frame[np.array([reason is None for reason in against], dtype=bool)].reset_index(drop=True)


def _settings(solver: Solver, labels: pd.DataFrame, problems: ProblemColumns, device: Device,
              skipped: Counter[str], tables: Tables) -> tuple[Any, Any]:
    """The labels that are in their space: the index of each problem, and the key of each configuration."""
    codes, texts = pd.factorize(labels["params"])
    read: list[dict[str, int | str] | None] = []
    for text in texts:
        try:
            read.append(solver.read(text))
        except FormatError:
            read.append(None)
    is_read = np.array([values is not None for values in read])
    skipped.update([f"{solver.name}: not its parameters"] * int((~is_read[codes]).sum()))
    indices = labels["problem"].to_numpy()[is_read[codes]]
    codes = codes[is_read[codes]]
    distinct = [values for values in read if values is not None]
    codes = (np.cumsum(is_read) - 1)[codes]
    if not distinct:
        return indices, np.array([], dtype=object)
    columns = {name: np.array([values[name] for values in distinct])[codes] for name in distinct[0]}
    free = {parameter.name: columns[parameter.name] for parameter in solver.kernel.parameters}
    if isinstance(solver, RowSolver):
        table = tables.setdefault(solver.name, {})
        for text, values in zip(texts, read, strict=True):
            if values is not None:
                table.setdefault(f"{values['row']} {bool(values['gks'])}", str(text))
        solver = solver.with_rows(solver.read(text) for text in table.values())
    member = Membership(solver.kernel, problems.take(indices), device, free)
    for written in solver.fields:
        if isinstance(written, WrittenField) and not written.ignored and written.name in columns:
            equal = member.evaluate(written.expression) == columns[written.name]
            member.require(equal, f"{written.name} is not what the other parameters tell")
    for reason in member.reasons:
        if reason is not None:
            skipped[f"{solver.name}: {reason}"] += 1
    inside = np.array([reason is None for reason in member.reasons])
    settings = np.array([solver.configuration(values).key for values in distinct], dtype=object)
    return indices[inside], settings[codes[inside]]


def _rows(device: Device, problem: Any, kernel: Any, configuration: Any, status: Status, seconds: Any, run: str,
          workspace: Any) -> pd.DataFrame:
    rows = pd.DataFrame({
        "device": device.key, "problem": problem, "kernel": kernel, "kernel_version": np.int32(1),
        "configuration": configuration, "status": status.value, "seconds": np.float32(seconds),
        "spread": np.float32(0), "samples": np.int32(status is Status.CORRECT), "error": np.float32("nan"),
        "build_seconds": np.float32(0), "run": run, "toolchain": device.toolchain, **ADDED, "workspace": workspace,
    }, index=range(len(problem)))
    ordered: pd.DataFrame = rows[SCHEMA.names].astype({"workspace": np.int64})
    return ordered
